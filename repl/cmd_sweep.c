/* sweep: memory and time of many strategies, on all cores, as a table and the front of those that no
 * other one beats in both.
 *
 * Workers are processes: each begins with this one's document (module, strings, shardings, what was
 * derived so far) as copy-on-write pages, takes every n-th strategy and sends a record for each. What a
 * strategy shares with the current one is not computed again: propagation starts from the nearest kept
 * one, and strategies whose shardings come out the same are computed once. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "repl/costs.h"
#include "viz/scene.h"

/* ---- what is tried ------------------------------------------------------------------------------------ */

enum choice_kind { CHOICE_MODEL, CHOICE_MESH, CHOICE_TENSOR, CHOICE_OPTION };

/* One dimension of the sweep. */
struct choice {
    enum choice_kind kind;
    const char *what; /* tensor or option */
    int64_t n;
    const char **values;
};

struct record {
    int64_t number;
    bool ok;
    double step, compute, exposed, utilisation;
    int64_t peak, bytes;
    char error[160];
};

struct sweep {
    struct call *c;
    const struct hardware *hardware;
    VEC(struct choice) choices;
    int64_t total;
    int nworkers;
    int64_t ndone, nfailed;
    struct record *records; /* [total], by number; .step < 0: not done */
    bool stopped;
};

static struct choice *new_choice(struct sweep *s, enum choice_kind kind, const char *what)
{
    struct choice fresh = { .kind = kind, .what = what };
    vec_push(&s->c->arena, &s->choices, fresh);
    return &s->choices.v[s->choices.n - 1];
}

/* Values between bars; none inside brackets. */
static void split_values(struct call *c, struct choice *to, const char *text)
{
    VEC(const char *) v = { 0 };
    int depth = 0;
    const char *from = text;
    for (const char *p = text;; p++) {
        depth += *p == '[' || *p == '(' || *p == '{';
        depth -= *p == ']' || *p == ')' || *p == '}';
        if (*p && !(*p == '|' && depth == 0))
            continue;
        vec_push(&c->arena, &v, arena_strndup(&c->arena, from, (size_t)(p - from)));
        from = p + 1;
        if (!*p)
            break;
    }
    to->values = v.v;
    to->n = v.n;
}

/* mesh=data,model: all ways to cut the devices into these axes. */
static void factor(struct call *c, const char *const *axes, int n, int64_t devices, const char *before, struct arena *a,
                   const char ***list, int64_t *count, int64_t *cap)
{
    struct step {
        int axis;
        int64_t left;
        const char *text;
    };
    VEC(struct step) stack = { 0 };
    struct step first = { 0, devices, before };
    vec_push(a, &stack, first);
    while (stack.n > 0) {
        struct step s = stack.v[--stack.n];
        if (s.axis == n - 1) {
            if (*count == *cap)
                *list = vec_grow(&c->arena, *list, *count, cap, sizeof **list);
            (*list)[(*count)++] = arena_printf(&c->arena, "%s%s%s=%" PRId64, s.text, s.text[0] ? " " : "", axes[n - 1], s.left);
            continue;
        }
        for (int64_t f = s.left; f >= 1; f--) {
            if (s.left % f != 0)
                continue;
            struct step deeper = { s.axis + 1, s.left / f,
                                   arena_printf(&c->arena, "%s%s%s=%" PRId64, s.text, s.text[0] ? " " : "", axes[s.axis], f) };
            vec_push(a, &stack, deeper);
        }
    }
}

static bool add_meshes(struct sweep *s, const char *text)
{
    struct call *c = s->c;
    struct choice *m = new_choice(s, CHOICE_MESH, "mesh");
    if (strchr(text, '=')) { /* data=2,model=4|data=4,model=2 */
        split_values(c, m, text);
        for (int64_t k = 0; k < m->n; k++) {
            char *v = arena_strdup(&c->arena, m->values[k]);
            for (char *p = v; *p; p++)
                *p = *p == ',' ? ' ' : *p;
            m->values[k] = v;
        }
        return true;
    }
    const char *axes[MESH_MAX_AXES];
    int n = 0;
    char *copy = arena_strdup(&c->arena, text), *rest = NULL;
    for (char *w = strtok_r(copy, ",", &rest); w && n < MESH_MAX_AXES; w = strtok_r(NULL, ",", &rest))
        axes[n++] = w;
    int64_t devices = document_devices(c->sh->doc), cap = 0;
    if (n == 0 || devices <= 0) {
        call_usage(c, -1, n == 0 ? "mesh=data,model names the axes" : "how many devices? name a mesh first");
        return false;
    }
    if (devices > 1 << 20) {
        call_usage(c, -1, "more than 1,048,576 devices are not cut in every way; name the meshes: mesh=x=2,y=4|x=4,y=2");
        return false;
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    factor(c, axes, n, devices, "", &tmp, &m->values, &m->n, &cap);
    arena_close(&tmp);
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_model(const char *name)
{
    static const char *const ends[] = { ".hlo", ".hlo.gz", ".mlir", ".mlir.gz" };
    size_t n = strlen(name);
    for (size_t k = 0; k < COUNTOF(ends); k++)
        if (n > strlen(ends[k]) && strcmp(name + n - strlen(ends[k]), ends[k]) == 0)
            return true;
    return false;
}

static bool add_models(struct sweep *s, const char *folder)
{
    struct call *c = s->c;
    struct choice *m = new_choice(s, CHOICE_MODEL, "models");
    VEC(const char *) v = { 0 };
    DIR *d = c->sh->sealed ? NULL : opendir(folder);
    if (!d) {
        (void)call_error(c, STATUS_INPUT, "io", "%s: no such folder", folder);
        return false;
    }
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (is_model(e->d_name))
            vec_push(&c->arena, &v, arena_printf(&c->arena, "%s/%s", folder, e->d_name));
    (void)closedir(d);
    if (v.n)
        qsort(v.v, (size_t)v.n, sizeof *v.v, by_text);
    m->values = v.v;
    m->n = v.n;
    if (v.n == 0)
        (void)call_error(c, STATUS_INPUT, "io", "%s: no .hlo, .mlir or .gz of them there", folder);
    return v.n > 0;
}

/* T:[..]|[..] a tensor, -: as it is; OPTION=a|b. */
static bool add_word(struct sweep *s, const char *text)
{
    struct call *c = s->c;
    const char *colon = strstr(text, ":["), *eq = strchr(text, '=');
    if (!colon)
        colon = strstr(text, ":-|");
    if (!colon)
        colon = strstr(text, ":replicated");
    if (!colon)
        colon = strstr(text, ":{");
    if (colon && (!eq || eq > colon)) {
        struct choice *t = new_choice(s, CHOICE_TENSOR, arena_strndup(&c->arena, text, (size_t)(colon - text)));
        split_values(c, t, colon + 1);
        return true;
    }
    if (eq && eq > text) {
        struct choice *o = new_choice(s, CHOICE_OPTION, arena_strndup(&c->arena, text, (size_t)(eq - text)));
        split_values(c, o, eq + 1);
        return true;
    }
    call_usage(c, -1, "'%s' says nothing to vary: mesh=AXES, models=FOLDER, TENSOR:[..]|[..] or OPTION=a|b", text);
    return false;
}

static bool read_choices(struct sweep *s)
{
    struct call *c = s->c;
    for (int k = 0; k < c->n; k++) {
        const char *w = c->args[k].text;
        bool ok = strncmp(w, "mesh=", 5) == 0     ? add_meshes(s, w + 5)
                  : strncmp(w, "models=", 7) == 0 ? add_models(s, w + 7)
                                                  : add_word(s, w);
        if (!ok)
            return false;
    }
    s->total = 1;
    for (int64_t k = 0; k < s->choices.n; k++)
        if (!mul_ok(s->total, s->choices.v[k].n, &s->total) || s->total > 1000000) {
            call_usage(c, -1, "more than a million strategies");
            return false;
        }
    return true;
}

/* Which value of each choice strategy `number` takes: models slowest, then in the order given. */
static const char *value_of(const struct sweep *s, int64_t number, int64_t which)
{
    int64_t at = number;
    for (int64_t k = s->choices.n; k-- > 0;) {
        const struct choice *x = &s->choices.v[k];
        if (k == which)
            return x->values[at % x->n];
        at /= x->n;
    }
    return "";
}

/* ---- one strategy, in a worker ---------------------------------------------------------------------------- */

struct worker {
    struct sweep *s;
    struct map known; /* what depends on shardings and options -> number of a record */
    struct arena arena;
    const char *model; /* loaded now */
    int out;
};

static bool apply_mesh(struct call *c, const char *text)
{
    struct mesh m = { .name = "" };
    struct source *src = ARENA_NEW(&c->arena, struct source);
    *src = (struct source){ "<sweep>", text, strlen(text) };
    return mesh_parse(document_ir(c->sh->doc)->shardings, &c->arena, src, 0, text, strlen(text), &m, c->d) &&
           edit_mesh(c->sh->doc, &m, text, c->d);
}

static bool apply_tensor(struct call *c, const char *name, const char *spec)
{
    struct document *doc = c->sh->doc;
    if (strcmp(spec, "-") == 0)
        return true;
    struct source *src = ARENA_NEW(&c->arena, struct source);
    *src = (struct source){ "<sweep>", name, strlen(name) };
    instr_id *list;
    int64_t n;
    if (!select_instrs(doc, name, strlen(name), src, 0, false, &c->arena, &list, &n, c->d))
        return false;
    struct annotation *all = ARENA_ARRAY(&c->arena, struct annotation, n + 1);
    const struct source *former = c->src;
    struct source *said = ARENA_NEW(&c->arena, struct source);
    *said = (struct source){ "<sweep>", spec, strlen(spec) };
    c->src = said;
    bool ok = n < INT32_MAX;
    for (int64_t k = 0; k < n && ok; k++) {
        all[k] = (struct annotation){ .kind = ANNOTATE_SHARD, .target = list[k], .leaf = -1 };
        shape_id shape = instr_at(document_module(doc), list[k])->shape;
        ok = read_spec(c, spec, strlen(spec), 0, shape, &all[k].sharding, &all[k].open);
        if (all[k].open)
            all[k].kind = ANNOTATE_CONSTRAIN;
    }
    ok = ok && edit_annotate(doc, (int)n, all, spec, "sweep", c->d);
    c->src = former;
    return ok;
}

static bool apply_option(struct call *c, const char *name, const char *value)
{
    const char *line = arena_printf(&c->arena, "set %s=%s", name, value);
    return call_run(c, "<sweep>", line, strlen(line)) == STATUS_OK;
}

static bool apply(struct worker *w, int64_t number)
{
    struct call *c = w->s->c;
    for (int64_t k = 0; k < w->s->choices.n; k++) {
        const struct choice *x = &w->s->choices.v[k];
        const char *v = value_of(w->s, number, k);
        bool ok = true;
        if (x->kind == CHOICE_MODEL && (!w->model || strcmp(w->model, v) != 0)) {
            ok = document_load(c->sh->doc, v, NULL, c->d) && edit_save(c->sh->doc, "sweep", c->d);
            w->model = ok ? v : NULL;
            arena_free(&w->arena);
            map_init(&w->known, &w->arena);
        } else if (x->kind == CHOICE_MESH) {
            ok = apply_mesh(c, v);
        } else if (x->kind == CHOICE_TENSOR) {
            ok = apply_tensor(c, x->what, v);
        } else if (x->kind == CHOICE_OPTION) {
            ok = apply_option(c, x->what, v);
        }
        if (!ok)
            return false;
    }
    return true;
}

/* Everything that memory and time depend on: the options and the shardings that came out. */
static uint64_t result_key(struct document *doc, const struct propagation *p)
{
    const struct strategy *s = document_strategy(doc);
    const struct module *m = p->graph->module;
    uint64_t h = hash_bytes(p->final, ((size_t)module_ninstrs(m) + 1) * sizeof *p->final, 7);
    h = hash_bytes(&s->options.partition, sizeof s->options.partition, h);
    h ^= hash_u64((uint64_t)document_devices(doc) * 31 + module_ninstrs(m));
    return h;
}

/* The figures of the strategy at hand; r->ok stays false where it has none. */
static void measure(struct worker *w, struct record *r)
{
    struct call *c = w->s->c;
    struct document *doc = c->sh->doc;
    const struct cost_plan *plan;
    const struct memory *memory;
    const struct collective *list;
    int64_t n;
    if (!document_memory(doc, &plan, &memory, NULL, c->d) ||
        !document_collectives(doc, &list, &n, &r->bytes, NULL, c->d))
        return;
    struct cost *x = strategy_cost(doc, document_strategy(doc), w->s->hardware, c->sh->nshape,
                                   c->sh->nshape ? c->sh->shape : NULL, OVERLAP_NONE, NULL, c->d);
    if (!x)
        return;
    r->ok = true;
    r->step = x->step;
    r->compute = x->compute;
    r->exposed = x->exposed;
    r->utilisation = x->utilisation;
    r->peak = memory->peak;
    cost_free(x);
}

/* The same, taken over where another strategy came to the same shardings under the same options. */
static void measure_once(struct worker *w, struct record *r)
{
    struct call *c = w->s->c;
    struct document *doc = c->sh->doc;
    if (document_is_partitioned(doc)) {
        measure(w, r);
        return;
    }
    const struct propagation *p = document_propagation(doc, NULL, c->d);
    uint64_t key, found;
    if (!p)
        return;
    key = result_key(doc, p);
    if (map_get(&w->known, key, &found)) {
        int64_t number = r->number;
        *r = *(struct record *)(uintptr_t)found;
        r->number = number;
        return;
    }
    measure(w, r);
    map_put(&w->known, key, (uint64_t)(uintptr_t)arena_copy(&w->arena, r, 1, sizeof *r));
}

static bool put(int fd, const struct record *r)
{
    const char *p = (const char *)r;
    size_t left = sizeof *r;
    while (left > 0) {
        ssize_t n = write(fd, p, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        left -= (size_t)n;
    }
    return true;
}

static void swallow(void *context, bool message, const char *bytes, size_t n)
{
    (void)context;
    (void)message;
    (void)bytes;
    (void)n;
}

/* A worker's whole life. The document is its own from here on. */
_Noreturn static void work(struct sweep *s, int which, int fd)
{
    struct call *c = s->c;
    struct worker w = { .s = s, .out = fd };
    (void)signal(SIGINT, SIG_IGN); /* the first process tells when to stop */
    c->sh->sink.write = swallow;
    c->sh->log = NULL;
    c->sh->json = false;
    c->json = false;
    map_init(&w.known, &w.arena);
    if (!edit_save(c->sh->doc, "sweep", c->d))
        _exit(1);
    for (int64_t k = which; k < s->total; k += s->nworkers) {
        struct record r = { .number = k, .step = -1 };
        diag_clear(c->d);
        bool ok = edit_restore(c->sh->doc, "sweep", c->d) && apply(&w, k);
        if (ok)
            measure_once(&w, &r);
        r.number = k;
        if (!r.ok && c->d->msgs.n)
            snprintf(r.error, sizeof r.error, "%s", c->d->msgs.v[0].text);
        if (!put(fd, &r))
            break;
    }
    _exit(0);
}

/* ---- all of them ---------------------------------------------------------------------------------------------- */

struct pool {
    pid_t pid[64];
    int fd[64];
    char *partial[64];
    size_t have[64];
};

static bool start(struct sweep *s, struct pool *p)
{
    for (int k = 0; k < s->nworkers; k++) {
        int ends[2];
        if (pipe(ends) != 0)
            return k > 0;
        pid_t pid = fork();
        if (pid == 0) {
            close(ends[0]);
            for (int j = 0; j < k; j++)
                close(p->fd[j]);
            work(s, k, ends[1]);
        }
        close(ends[1]);
        if (pid < 0) {
            close(ends[0]);
            s->nworkers = k; /* those that run were told another number: start over with fewer is not worth it */
            return false;
        }
        p->pid[k] = pid;
        p->fd[k] = ends[0];
        p->partial[k] = arena_alloc(&s->c->arena, 1, sizeof(struct record));
    }
    return true;
}

static void take(struct sweep *s, const struct record *r)
{
    if (r->number < 0 || r->number >= s->total)
        return;
    s->records[r->number] = *r;
    s->ndone++;
    s->nfailed += !r->ok;
}

static void receive(struct sweep *s, struct pool *p, int k)
{
    char buffer[64 * sizeof(struct record)];
    ssize_t n = read(p->fd[k], buffer, sizeof buffer);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        close(p->fd[k]);
        p->fd[k] = -1;
        return;
    }
    for (ssize_t at = 0; at < n;) {
        size_t room = sizeof(struct record) - p->have[k];
        size_t part = (size_t)(n - at) < room ? (size_t)(n - at) : room;
        memcpy(p->partial[k] + p->have[k], buffer + at, part);
        p->have[k] += part;
        at += (ssize_t)part;
        if (p->have[k] == sizeof(struct record)) {
            struct record r;
            memcpy(&r, p->partial[k], sizeof r);
            take(s, &r);
            p->have[k] = 0;
        }
    }
}

static void run_all(struct sweep *s, struct pool *p)
{
    struct tick *tick = call_tick(s->c);
    for (;;) {
        struct pollfd fds[64];
        int n = 0, who[64];
        for (int k = 0; k < s->nworkers; k++)
            if (p->fd[k] >= 0) {
                fds[n] = (struct pollfd){ .fd = p->fd[k], .events = POLLIN };
                who[n++] = k;
            }
        if (n == 0)
            return;
        int ready = poll(fds, (nfds_t)n, 50);
        if (!tick_now(tick, "sweep", s->ndone, s->total)) {
            s->stopped = true;
            for (int k = 0; k < s->nworkers; k++)
                if (p->pid[k] > 0)
                    (void)kill(p->pid[k], SIGTERM);
            return;
        }
        for (int k = 0; ready > 0 && k < n; k++)
            if (fds[k].revents)
                receive(s, p, who[k]);
    }
}

static void finish(struct sweep *s, struct pool *p)
{
    for (int k = 0; k < s->nworkers; k++) {
        if (p->fd[k] >= 0)
            close(p->fd[k]);
        int status;
        while (p->pid[k] > 0 && waitpid(p->pid[k], &status, 0) < 0 && errno == EINTR)
            ;
    }
}

/* ---- the front -------------------------------------------------------------------------------------------------- */

struct ranked {
    const struct record *r;
    bool front, fits;
};

static int by_step(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->r->step != y->r->step)
        return x->r->step < y->r->step ? -1 : 1;
    if (x->r->peak != y->r->peak)
        return x->r->peak < y->r->peak ? -1 : 1;
    return x->r->number < y->r->number ? -1 : x->r->number > y->r->number;
}

/* Fastest first; in front: less memory than every faster one. */
static struct ranked *rank(struct sweep *s, int64_t *n)
{
    struct ranked *v = ARENA_ARRAY(&s->c->arena, struct ranked, s->total + 1);
    *n = 0;
    for (int64_t k = 0; k < s->total; k++)
        if (s->records[k].ok)
            v[(*n)++] = (struct ranked){ &s->records[k], false, s->records[k].peak <= (int64_t)s->hardware->memory.value };
    if (*n)
        qsort(v, (size_t)*n, sizeof *v, by_step);
    int64_t least = INT64_MAX;
    for (int64_t k = 0; k < *n; k++)
        if (v[k].r->peak < least) {
            least = v[k].r->peak;
            v[k].front = true;
        }
    return v;
}

static const char *words_of(struct sweep *s, int64_t number)
{
    struct str t = STR_IN(&s->c->arena);
    for (int64_t k = 0; k < s->choices.n; k++) {
        const struct choice *x = &s->choices.v[k];
        const char *v = value_of(s, number, k), *slash = strrchr(v, '/');
        if (t.n)
            str_adds(&t, "  ");
        if (x->kind == CHOICE_MODEL)
            str_adds(&t, slash ? slash + 1 : v);
        else if (x->kind == CHOICE_MESH)
            str_adds(&t, v);
        else
            str_addf(&t, "%s%s%s", x->what, x->kind == CHOICE_TENSOR ? " " : "=", v);
    }
    return t.n ? str_text(&t) : "the current strategy";
}

/* Same figures: seen from outside the same strategy. They follow one another. */
static bool same_figures(const struct record *a, const struct record *b)
{
    return a->step == b->step && a->peak == b->peak && a->exposed == b->exposed && a->utilisation == b->utilisation && a->bytes == b->bytes;
}

/* What most come for, in words: the fastest that fits, and the smallest. */
static void say_ends(struct sweep *s, const struct ranked *v, int64_t n)
{
    struct call *c = s->c;
    int64_t fastest = 0, smallest = 0;
    while (fastest < n && !v[fastest].fits)
        fastest++;
    for (int64_t k = 1; k < n; k++)
        smallest = v[k].r->peak < v[smallest].r->peak ? k : smallest;
    if (fastest == n)
        out(c, "none fits in the %s of %s\n", nice_bytes(&c->arena, (int64_t)s->hardware->memory.value), s->hardware->name);
    else
        out(c, "fastest that fits: %s, %s: %s\n", nice_seconds(&c->arena, v[fastest].r->step), nice_bytes(&c->arena, v[fastest].r->peak),
            words_of(s, v[fastest].r->number));
    if (smallest != fastest)
        out(c, "least memory: %s, %s: %s\n", nice_seconds(&c->arena, v[smallest].r->step), nice_bytes(&c->arena, v[smallest].r->peak),
            words_of(s, v[smallest].r->number));
}

static void say_table(struct sweep *s, const struct ranked *v, int64_t n)
{
    struct call *c = s->c;
    static const char *const heads[] = { "", ">step", ">peak", "", ">waits", ">FLOPs", ">sent", "strategy", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t most = c->all ? n : 24, shown = 0, told = 0, next;
    for (int64_t k = 0; k < n; k = next) {
        const struct record *r = v[k].r;
        for (next = k + 1; !c->all && next < n && same_figures(r, v[next].r);)
            next++;
        if (shown >= most && !(v[k].front && shown < most + 24))
            continue;
        const char **row = table_row(&t);
        row[0] = v[k].front ? "*" : "";
        row[1] = nice_seconds(&c->arena, r->step);
        row[2] = nice_bytes(&c->arena, r->peak);
        row[3] = v[k].fits ? "" : "too much";
        row[4] = nice_percent(&c->arena, r->exposed, r->step);
        row[5] = nice_percent(&c->arena, r->utilisation, 1);
        row[6] = nice_bytes(&c->arena, r->bytes);
        row[7] = next - k == 1 ? words_of(s, r->number)
                               : arena_printf(&c->arena, "%s  (and %" PRId64 " alike)", words_of(s, r->number), next - k - 1);
        told += next - k;
        shown++;
    }
    table_print(c, &t, true);
    call_more(c, told, n, "");
    out(c, "* no other strategy is both faster and smaller; waits: share of the step for links; FLOPs: share of the peak\n");
}

/* Time against memory as characters: what is in front as *, the rest as dots. */
static void say_plot(struct sweep *s, const struct ranked *v, int64_t n)
{
    enum { W = 64, H = 14 };
    struct call *c = s->c;
    double t0 = v[0].r->step, t1 = v[n - 1].r->step, m0 = 1e300, m1 = 0;
    for (int64_t k = 0; k < n; k++) {
        double m = (double)v[k].r->peak;
        m0 = m < m0 ? m : m0;
        m1 = m > m1 ? m : m1;
    }
    if (n < 3 || t1 <= t0 || m1 <= m0)
        return;
    char grid[H][W + 1];
    memset(grid, ' ', sizeof grid);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = 0; k < n; k++) {
            int x = (int)((v[k].r->step - t0) / (t1 - t0) * (W - 1)), y = (int)(((double)v[k].r->peak - m0) / (m1 - m0) * (H - 1));
            if (v[k].front == (pass == 1))
                grid[H - 1 - y][x] = v[k].front ? '*' : '.';
        }
    out(c, "\n%s at the peak\n", nice_bytes(&c->arena, (int64_t)m1));
    for (int y = 0; y < H; y++) {
        grid[y][W] = '\0';
        int last = W - 1;
        while (last >= 0 && grid[y][last] == ' ')
            grid[y][last--] = '\0';
        out(c, "|%s\n", grid[y]);
    }
    out(c, "+%.*s\n%s; %s to %s a step\n", W, "----------------------------------------------------------------",
        nice_bytes(&c->arena, (int64_t)m0), nice_seconds(&c->arena, t0), nice_seconds(&c->arena, t1));
}

static void label(struct scene *p, double x, double y, enum scene_align align, const char *text)
{
    struct scene_item *i = scene_add(p, SCENE_TEXT, ROLE_LABEL);
    i->x = x;
    i->y = y;
    i->text = text;
    i->align = align;
    i->size = 11;
}

static void line(struct scene *p, double x, double y, double w, double h, enum scene_role role)
{
    struct scene_item *i = scene_add(p, SCENE_LINE, role);
    i->x = x;
    i->y = y;
    i->w = w;
    i->h = h;
}

static void dot(struct scene *p, double x, double y, bool front, const char *hint)
{
    double r = front ? 4 : 2;
    struct scene_item *i = scene_add(p, SCENE_BOX, front ? ROLE_HIGHLIGHT : ROLE_NODE);
    i->x = x - r;
    i->y = y - r;
    i->w = i->h = 2 * r;
    i->hint = hint;
    i->device = -1;
    i->axis = -1;
}

static int draw(struct sweep *s, const struct ranked *v, int64_t n, const char *path)
{
    struct call *c = s->c;
    struct scene *p = scene_new(&c->arena);
    const double x0 = 70, y0 = 30, w = 560, h = 340;
    double t1 = 0, m1 = 0;
    for (int64_t k = 0; k < n; k++) {
        t1 = v[k].r->step > t1 ? v[k].r->step : t1;
        m1 = (double)v[k].r->peak > m1 ? (double)v[k].r->peak : m1;
    }
    p->width = 700;
    p->height = 430;
    p->title = "Step time against peak memory of the strategies";
    line(p, x0, y0 + h, w, 0, ROLE_RULER);
    line(p, x0, y0, 0, h, ROLE_RULER);
    for (int k = 0; k <= 4; k++) {
        label(p, x0 + w * k / 4, y0 + h + 18, ALIGN_CENTER, nice_seconds(&c->arena, t1 * k / 4));
        label(p, x0 - 6, y0 + h - h * k / 4 + 4, ALIGN_RIGHT, nice_bytes(&c->arena, (int64_t)(m1 * k / 4)));
    }
    label(p, x0 + w / 2, y0 + h + 40, ALIGN_CENTER, "step time");
    label(p, x0, y0 - 10, ALIGN_CENTER, "peak memory");
    double capacity = s->hardware->memory.value;
    if (capacity < m1) {
        line(p, x0, y0 + h - h * capacity / m1, w, 0, ROLE_AXIS);
        label(p, x0 + w, y0 + h - h * capacity / m1 - 4, ALIGN_RIGHT, arena_printf(&c->arena, "memory of %s", s->hardware->name));
    }
    for (int64_t k = n; k-- > 0;)
        dot(p, x0 + w * v[k].r->step / t1, y0 + h - h * (double)v[k].r->peak / m1, v[k].front, words_of(s, v[k].r->number));
    struct str svg = STR_IN(&c->arena);
    scene_svg(p, &svg);
    if (!write_file(c, path, str_text(&svg), svg.n))
        return call_failed(c);
    if (!c->json)
        out(c, "%s: %s\n", path, counted(&c->arena, n, "point"));
    return STATUS_OK;
}

static void json_results(struct sweep *s, const struct ranked *v, int64_t n)
{
    struct json *j = &s->c->js;
    json_put_string(j, "hardware", s->hardware->name);
    json_put_int(j, "strategies", s->total);
    json_put_int(j, "done", s->ndone);
    json_put_int(j, "failed", s->nfailed);
    json_put_bool(j, "stopped", s->stopped);
    json_put_open(j, "results", '[');
    for (int64_t k = 0; k < n; k++) {
        const struct record *r = v[k].r;
        json_open(j, '{');
        json_put_int(j, "number", r->number);
        for (int64_t x = 0; x < s->choices.n; x++)
            json_put_string(j, s->choices.v[x].what, value_of(s, r->number, x));
        json_put_real(j, "step", r->step);
        json_put_real(j, "exposed", r->exposed);
        json_put_real(j, "utilisation", r->utilisation);
        json_put_int(j, "peak", r->peak);
        json_put_int(j, "bytes", r->bytes);
        json_put_bool(j, "fits", v[k].fits);
        json_put_bool(j, "front", v[k].front);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_put_open(j, "failures", '[');
    for (int64_t k = 0; k < s->total; k++)
        if (!s->records[k].ok && s->records[k].error[0]) {
            json_open(j, '{');
            json_put_int(j, "number", k);
            json_put_string(j, "message", s->records[k].error);
            json_close(j, '}');
        }
    json_close(j, ']');
}

static void say_failures(struct sweep *s)
{
    const struct record *first = NULL;
    for (int64_t k = 0; k < s->total && !first; k++)
        if (!s->records[k].ok && s->records[k].error[0])
            first = &s->records[k];
    if (s->nfailed && first)
        diag_warn(s->c->d, NULL, (struct span){ 0, 0 }, "%s could not be computed; the first (%s): %s",
                  s->nfailed == 1 ? "1 strategy" : arena_printf(&s->c->arena, "%s strategies", with_commas(&s->c->arena, s->nfailed)), words_of(s, first->number), first->error);
}

static int answer(struct sweep *s)
{
    struct call *c = s->c;
    int64_t n;
    struct ranked *v = rank(s, &n);
    const char *path = call_option(c, "-o");
    int status = STATUS_OK;
    if (c->json) {
        json_results(s, v, n);
    } else {
        out(c, "%s of %s strategies on %s\n", with_commas(&c->arena, s->ndone), with_commas(&c->arena, s->total), s->hardware->name);
        if (n > 0) {
            say_ends(s, v, n);
            say_table(s, v, n);
            say_plot(s, v, n);
        }
        say_failures(s);
    }
    if (path && n > 0)
        status = draw(s, v, n, path);
    if (s->stopped && status == STATUS_OK)
        diag_warn(c->d, NULL, (struct span){ 0, 0 }, "stopped after %s of %s; these are what was there", with_commas(&c->arena, s->ndone),
                  with_commas(&c->arena, s->total));
    return s->stopped && !c->sh->interactive ? STATUS_INTERRUPTED : status;
}

static int workers(struct call *c)
{
    int threads = document_strategy(c->sh->doc)->options.threads;
    long cores = threads > 0 ? threads : sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > 64 ? 64 : (int)cores;
}

int cmd_sweep(struct call *c)
{
    struct sweep s = { .c = c };
    if (c->sh->sealed)
        return call_error(c, STATUS_RESOURCE, "limit", "no workers are started here");
    s.hardware = costs_hardware(c);
    if (!s.hardware || !read_choices(&s))
        return call_failed(c);
    bool models = s.choices.n > 0 && s.choices.v[0].kind == CHOICE_MODEL;
    if (!models && !document_module(c->sh->doc))
        return call_error(c, STATUS_USAGE, "usage", "no module is loaded, and no models=FOLDER comes first");
    s.records = ARENA_ARRAY(&c->arena, struct record, s.total + 1);
    s.nworkers = (int)min_i64(workers(c), s.total);
    /* What all share is there before they start. */
    if (!models && document_devices(c->sh->doc) > 0 && !document_is_partitioned(c->sh->doc) &&
        !document_propagation(c->sh->doc, call_tick(c), c->d))
        diag_clear(c->d);
    struct pool p = { 0 };
    if (!start(&s, &p)) {
        for (int k = 0; k < s.nworkers; k++)
            if (p.pid[k] > 0)
                (void)kill(p.pid[k], SIGTERM);
        finish(&s, &p);
        return call_error(c, STATUS_RESOURCE, "limit", "workers cannot be started: %s", strerror(errno));
    }
    run_all(&s, &p);
    finish(&s, &p);
    return answer(&s);
}
