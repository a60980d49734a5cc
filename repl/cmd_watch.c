/* watch: a dump that changed is read again, its annotations put where they were, and the difference
 * told. */
#include <errno.h>
#include <libgen.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "repl/commands.h"
#include "repl/compare.h"

/* ---- moving strategies to another module ----------------------------------------------------------- */

struct move {
    struct call *c;
    struct document *from, *to;
    const uint32_t *match;
    int64_t lost;
};

/* One annotation of the old module on the tensor that it is now. */
static bool move_annotation(struct move *m, const struct strategy *s, int k)
{
    struct call *c = m->c;
    struct annotation a = s->annotations[k];
    uint32_t target = m->match[a.target.i];
    const struct module *to = document_module(m->to);
    if (!target || instr_at(to, (instr_id){ target })->op !=
                       instr_at(document_module(m->from), a.target)->op)
        return false;
    a.target.i = target;
    if (s->specs[k]) {
        shape_id shape = instr_at(to, a.target)->shape;
        if (a.leaf >= 0)
            shape = shape_leaf(to->ir, shape, a.leaf);
        struct source src = { .name = "<annotation>",
                              .text = s->specs[k],
                              .len = strlen(s->specs[k]) };
        const struct source *own = c->src;
        c->src = &src;
        bool read = read_spec(c, src.text, src.len, 0, shape, &a.sharding, &a.open);
        c->src = own;
        if (!read)
            return false;
    }
    return edit_annotate(m->to, 1, &a, s->specs[k], s->command, c->d);
}

static bool move_strategy(struct move *m, const struct strategy *s)
{
    for (int k = s->mesh_of_module; k < s->nmeshes; k++) /* the changed dump has its own */
        if (s->meshes[k].naxes > 0) {
            struct str text = STR_IN(&m->c->arena);
            struct mesh copy = s->meshes[k], mesh = { .name = "" };
            copy.name = "";
            mesh_print(document_ir(m->from)->shardings, &copy, &text);
            struct source src = { .name = "<mesh>", .text = str_text(&text), .len = text.n };
            if (!mesh_parse(document_ir(m->to)->shardings, &m->c->arena, &src, 0, src.text, src.len,
                            &mesh, m->c->d))
                return false;
            mesh.name = s->meshes[k].name;
            if (!edit_mesh(m->to, &mesh, s->command, m->c->d))
                return false;
        }
    if (s->unshard_module && !edit_unshard_module(m->to, s->command, m->c->d))
        return false;
    for (int k = 0; k < s->nannotations; k++)
        m->lost += !move_annotation(m, s, k);
    return edit_options(m->to, &s->options, s->command, m->c->d);
}

/* Saved strategies first, each from the beginning; the current one is what stays. */
static bool move_all(struct move *m)
{
    const char *const *names;
    int n = document_saved(m->from, &names);
    for (int k = 0; k < n; k++) {
        int64_t lost = m->lost;
        if (move_strategy(m, document_saved_strategy(m->from, names[k])) &&
            !edit_save(m->to, names[k], m->c->d))
            return false;
        m->lost = lost;
        while (document_strategy(m->to)->parent)
            if (!edit_undo(m->to, m->c->d))
                return false;
    }
    return move_strategy(m, document_strategy(m->from));
}

/* ---- reading again --------------------------------------------------------------------------------- */

static void say_now(struct call *c)
{
    struct shell *sh = c->sh;
    if (!c->json && c->out.n)
        sh->sink.write(sh->sink.context, false, str_text(&c->out), c->out.n);
    c->out.n = 0;
    struct str s = STR_IN(&c->arena);
    for (int64_t k = 0; k < c->d->msgs.n; k++)
        diag_render(&c->d->msgs.v[k], &s);
    if (s.n)
        sh->sink.write(sh->sink.context, true, str_text(&s), s.n);
    diag_clear(c->d);
}

/* Derives a side from a document as it stands; false: messages tell. */
static bool side_of(struct call *c, struct document *doc, const char *name, struct side *s)
{
    struct document *own = c->sh->doc;
    c->sh->doc = doc;
    struct word none = { 0 };
    struct word *args = c->args;
    int n = c->n;
    c->args = &none;
    c->n = 0;
    bool ok = side_open(c, 0, s);
    c->args = args;
    c->n = n;
    c->sh->doc = own;
    s->name = name;
    return ok;
}

/* The changed file in the old one's place, if it can be read. */
static void read_again(struct call *c, const char *path)
{
    struct document *old = c->sh->doc, *new = document_new();
    struct side a, b;
    diag_stage(c->d, "io");
    if (!document_load(new, path, call_tick(c), c->d)) {
        document_free(new);
        out(c, "%s changed, and cannot be read; the one before stays\n", path);
        say_now(c);
        return;
    }
    struct move m = { c, old, new, NULL, 0 };
    m.match = match_modules(c, document_module(old), document_module(new));
    c->sh->doc = new;
    bool moved = move_all(&m);
    c->sh->doc = old;
    out(c, "%s changed: %u instructions, %u before\n", path, module_ninstrs(document_module(new)),
        module_ninstrs(document_module(old)));
    if (m.lost)
        out(c, "%s found no tensor any more\n", counted(&c->arena, m.lost, "annotation"));
    if (moved && side_of(c, old, "before", &a) && side_of(c, new, "after", &b)) {
        c->sh->doc = new;
        diff_sides(c, &a, &b);
    }
    say_now(c);
    c->sh->doc = new;
    debug_forget(c->sh); /* it looks at a program of the old one */
    document_free(old);
}

/* ---- waiting --------------------------------------------------------------------------------------- */

/* Waits until a file of that name was written in the folder. false: interrupted, or an error. */
static bool wait_for(struct call *c, int fd, const char *base)
{
    _Alignas(struct inotify_event) char room[4096];
    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (c->sh->interrupted)
            return false;
        if (poll(&p, 1, -1) < 0) {
            if (errno == EINTR)
                continue;
            return false;
        }
        ssize_t n = read(fd, room, sizeof room);
        bool ours = false;
        for (ssize_t k = 0; k + (ssize_t)sizeof(struct inotify_event) <= n;) {
            const struct inotify_event *e = (const struct inotify_event *)(const void *)(room + k);
            ours |= e->len > 0 && !strcmp(e->name, base);
            k += (ssize_t)(sizeof *e + e->len);
        }
        if (ours)
            return true;
    }
}

int cmd_watch(struct call *c)
{
    struct shell *sh = c->sh;
    if (sh->sealed)
        return call_error(c, STATUS_INPUT, "io", "no file is opened here");
    const char *path =
        arena_strdup(&c->arena, c->n ? c->args[0].text : document_path(sh->doc));
    const char *times = call_option(c, "--times");
    int64_t limit = times ? strtoll(times, NULL, 10) : 0;
    if (!path[0] || path[0] == '<')
        return call_usage(c, -1, "this module is no file; watch FILE");
    char *for_folder = arena_strdup(&c->arena, path), *for_base = arena_strdup(&c->arena, path);
    const char *folder = dirname(for_folder), *base = basename(for_base);
    int fd = inotify_init1(IN_CLOEXEC);
    /* Writers write in place, or move a finished file over the old one. */
    if (fd < 0 || inotify_add_watch(fd, folder, IN_CLOSE_WRITE | IN_MOVED_TO) < 0) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return call_error(c, STATUS_RESOURCE, "io", "%s: %s", path, strerror(why));
    }
    out(c, "watching %s%s\n", path, sh->interactive ? "; Ctrl-C ends it" : "");
    say_now(c);
    for (int64_t k = 0; (limit <= 0 || k < limit) && wait_for(c, fd, base); k++)
        read_again(c, path);
    close(fd);
    /* Ctrl-C is how this ends. */
    if (sh->interactive)
        sh->interrupted = 0;
    return STATUS_OK;
}
