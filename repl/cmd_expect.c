/* expect: what a review or a build holds a strategy to. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"
#include "repl/review.h"

/* The words of one expectation, with `for SEL` and `--update` taken off. */
struct wanted {
    int n;
    const struct word *words;
    const char *text;      /* as typed, for messages */
    const instr_id *among; /* instructions of the loaded module; NULL: all */
    int64_t namong;
    bool update;
};

static int verdict(struct call *c, const struct wanted *w, bool holds, const char *found)
{
    if (c->json) {
        json_put_string(&c->js, "expectation", w->text);
        json_put_bool(&c->js, "holds", holds);
        json_put_string(&c->js, "found", found);
        return holds ? STATUS_OK : STATUS_DIFFERS;
    }
    if (holds) {
        if (!c->sh->quiet)
            out(c, "ok: %s\n", w->text);
        return STATUS_OK;
    }
    diag_stage(c->d, "differs");
    diag_error(c->d, c->src, (struct span){ c->off, c->end - c->off }, "expected %s, found %s",
               w->text, found);
    return STATUS_DIFFERS;
}

static int malformed(struct call *c, int k, const char *example)
{
    call_usage(c, k, "that is no whole expectation");
    diag_hint(c->d, "expect %s", example);
    return STATUS_USAGE;
}

/* ---- amounts --------------------------------------------------------------------------------------- */

/* "64", "3k", "2.5MiB", "16GB": a count or bytes. false: no amount. */
static bool read_amount(const char *s, double *out_v)
{
    static const struct {
        const char *word;
        double factor;
    } units[] = { { "", 1 },
                  { "B", 1 },
                  { "k", 1e3 },
                  { "K", 1e3 },
                  { "M", 1e6 },
                  { "G", 1e9 },
                  { "KB", 1e3 },
                  { "kB", 1e3 },
                  { "MB", 1e6 },
                  { "GB", 1e9 },
                  { "TB", 1e12 },
                  { "KiB", 1024 },
                  { "MiB", 1024.0 * 1024 },
                  { "GiB", 1024.0 * 1024 * 1024 },
                  { "TiB", 1024.0 * 1024 * 1024 * 1024 },
                  { "bytes", 1 } };
    char *end;
    *out_v = strtod(s, &end);
    for (size_t k = 0; end != s && k < COUNTOF(units); k++)
        if (!strcmp(end, units[k].word)) {
            *out_v *= units[k].factor;
            return true;
        }
    return false;
}

enum relation { LESS, AT_MOST, EQUAL, UNEQUAL, AT_LEAST, MORE, NO_RELATION };

static enum relation read_relation(const char *s)
{
    static const char *const words[] = { "<", "<=", "==", "!=", ">=", ">" };
    for (size_t k = 0; k < COUNTOF(words); k++)
        if (!strcmp(s, words[k]))
            return (enum relation)k;
    return !strcmp(s, "=") ? EQUAL : NO_RELATION;
}

static bool related(enum relation r, double a, double b)
{
    switch (r) {
    case LESS: return a < b;
    case AT_MOST: return a <= b;
    case EQUAL: return !(a < b || a > b);
    case UNEQUAL: return a < b || a > b;
    case AT_LEAST: return a >= b;
    case MORE: return a > b;
    case NO_RELATION: break;
    }
    return false;
}

/* Words k, k+1 as a relation and an amount, the last of the expectation; reports what is wrong. */
static bool read_limit(struct call *c, const struct wanted *w, int k, enum relation *r,
                       double *limit)
{
    if (w->n != k + 2) {
        call_usage(c, w->n > k + 2 ? k + 2 : -1, "a comparison is wanted: expect %s <= N",
                   w->words[0].text);
        return false;
    }
    *r = read_relation(w->words[k].text);
    if (*r == NO_RELATION) {
        call_usage(c, k, "'%s' is no comparison: < <= == != >= >", w->words[k].text);
        return false;
    }
    if (!read_amount(w->words[k + 1].text, limit)) {
        call_usage(c, k + 1, "'%s' is no amount, as 3, 2.5MiB and 10GB are", w->words[k + 1].text);
        return false;
    }
    return true;
}

/* ---- collectives ----------------------------------------------------------------------------------- */

static bool selected(const struct wanted *w, instr_id i)
{
    if (!w->among)
        return true;
    /* Selections are in module order (select_instrs), ids grow along it. */
    for (int64_t lo = 0, hi = w->namong; lo < hi;) {
        int64_t mid = lo + (hi - lo) / 2;
        if (w->among[mid].i == i.i)
            return true;
        if (w->among[mid].i < i.i)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

/* Collectives that a word means: a kind, or an axis; "" and "collectives" all. */
static bool counts(struct call *c, const struct collective *k, const char *only)
{
    if (!only[0] || !strcmp(only, "collectives") || !strcmp(only, op_name(k->kind)))
        return true;
    const char *names[MESH_MAX_AXES];
    int n;
    collective_axes(c, k, &n, names);
    for (int a = 0; a < n; a++)
        if (!strncmp(names[a], only, strlen(only)) &&
            (names[a][strlen(only)] == '\0' || names[a][strlen(only)] == ':'))
            return true;
    return false;
}

static bool known_word(struct call *c, const char *only)
{
    enum op_kind op = op_find(only, strlen(only));
    const struct mesh *m = document_mesh(c->sh->doc);
    return !only[0] || !strcmp(only, "collectives") || (op != OP_NONE && op_is_collective(op)) ||
           (m && mesh_find_axis(m, only, strlen(only)) >= 0);
}

struct tally {
    int64_t count, bytes;
    const char *first; /* label of the first one */
};

/* Sums the collectives that `only` and `for SEL` leave and that move more than `over` bytes. */
static bool tally(struct call *c, const struct wanted *w, const char *only, enum relation r,
                  double over, struct tally *t)
{
    const struct collective *list;
    int64_t n, total;
    *t = (struct tally){ .first = "" };
    if (!known_word(c, only)) {
        call_usage(c, -1, "'%s' is neither a kind of collective nor an axis of the mesh", only);
        return false;
    }
    if (!document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), c->d))
        return false;
    bool dump = document_is_partitioned(c->sh->doc);
    const struct program *p = dump ? NULL : document_program(c->sh->doc, NULL, NULL);
    for (int64_t k = 0; k < n; k++) {
        if (!counts(c, &list[k], only) || !related(r, (double)list[k].bytes, over))
            continue;
        if (w->among && !selected(w, dump ? list[k].instr : served_by(c, p, list[k].instr)))
            continue;
        if (t->count++ == 0)
            t->first =
                collective_label(c, p ? p->module : document_module(c->sh->doc), &list[k]);
        t->bytes += list[k].bytes;
    }
    /* Without a filter the total is that of comms: a conditional counts its costliest branch. */
    if (!w->among && r == AT_LEAST && over <= 0 && (!only[0] || !strcmp(only, "collectives")))
        t->bytes = total;
    return true;
}

/* expect comms OP N, expect bytes(AXIS) OP N, expect all-reduce OP N */
static int expect_amount(struct call *c, const struct wanted *w, bool of_bytes, const char *only)
{
    struct tally t;
    enum relation r;
    double limit;
    if (!known_word(c, only))
        return call_usage(c, 0, "'%s' is neither a kind of collective nor an axis of the mesh",
                          only);
    if (!read_limit(c, w, 1, &r, &limit))
        return STATUS_USAGE;
    if (!tally(c, w, only, AT_LEAST, 0, &t))
        return call_failed(c);
    int64_t value = of_bytes ? t.bytes : t.count;
    return verdict(c, w, related(r, (double)value, limit),
                   arena_printf(&c->arena, "%" PRId64, value));
}

/* expect memory OP SIZE: the peak of one device */
static int expect_memory(struct call *c, const struct wanted *w)
{
    enum relation r;
    double limit;
    const struct cost_plan *plan;
    const struct memory *m;
    if (!read_limit(c, w, 1, &r, &limit))
        return STATUS_USAGE;
    if (!document_memory(c->sh->doc, &plan, &m, call_tick(c), c->d))
        return call_failed(c);
    return verdict(c, w, related(r, (double)m->peak, limit),
                   arena_printf(&c->arena, "%s at the peak", nice_bytes(&c->arena, m->peak)));
}

static int expect_no_remat(struct call *c, const struct wanted *w)
{
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    int64_t n;
    (void)program_remats(p, &n);
    return verdict(c, w, n == 0,
                   arena_printf(&c->arena, "%s made whole%s (doctor names them)",
                                counted(&c->arena, n, "array"), p->nxla_remats ? " by XLA" : ""));
}

/* expect no KIND|AXIS|collectives|remat [> SIZE] */
static int expect_none(struct call *c, const struct wanted *w)
{
    if (w->n < 2)
        return malformed(c, -1, "no all-gather > 1MiB");
    const char *kind = w->words[1].text;
    if (!strcmp(kind, "remat") && w->n == 2)
        return expect_no_remat(c, w);
    enum relation r = AT_LEAST;
    double over = 0;
    if (!known_word(c, kind))
        return call_usage(c, 1, "'%s' is neither a kind of collective nor an axis of the mesh",
                          kind);
    if (w->n > 2 && !read_limit(c, w, 2, &r, &over))
        return STATUS_USAGE;
    struct tally t;
    if (!tally(c, w, kind, r, over, &t))
        return call_failed(c);
    return verdict(c, w, t.count == 0,
                   t.count ? arena_printf(&c->arena, "%" PRId64 " (%s, for one; blame %s)",
                                          t.count, t.first, t.first)
                           : "none");
}

/* ---- shardings ------------------------------------------------------------------------------------- */

/* The sharding of one tensor (a leaf of it) against the text behind the relation. */
static int check_sharding(struct call *c, instr_id i, int64_t leaf, const struct span *text,
                          bool *same, const char **found)
{
    struct tensor_view v;
    if (!document_view(c->sh->doc, i, 0, &v, call_tick(c), c->d))
        return call_failed(c);
    struct ir *ir = document_ir(c->sh->doc);
    shape_id shape = instr_at(document_module(c->sh->doc), i)->shape;
    sharding_id have = v.sharding.i ? v.sharding : sharding_replicated(ir->shardings), want;
    if (leaf >= 0) {
        const struct sharding *all = sharding_get(ir->shardings, have);
        shape = shape_leaf(ir, shape, leaf);
        have = all->kind == SHARDING_TUPLE && leaf < all->nelems ? all->elems[leaf] : have;
    }
    uint64_t open;
    if (!read_spec(c, c->src->text + text->off, text->len, text->off, shape, &want, &open))
        return STATUS_USAGE;
    *same = have.i == want.i;
    *found = spelled(c, have);
    return STATUS_OK;
}

static int expect_sharding(struct call *c, const struct wanted *w)
{
    enum relation r = w->n < 4 ? NO_RELATION : read_relation(w->words[2].text);
    if (r != EQUAL && r != UNEQUAL)
        return malformed(c, -1, "sharding T == [data,_]");
    const struct word *last = &w->words[w->n - 1];
    struct span text = { w->words[3].off, last->off + last->len - w->words[3].off };
    instr_id one, *list = &one;
    int64_t n = 1, leaf = -1;
    bool several = word_is_selection(&w->words[1]) && !strchr(w->words[1].text, '{');
    if (several ? !arg_select(c, 1, &list, &n) : !arg_tensor(c, 1, &one, &leaf))
        return call_failed(c);
    for (int64_t k = 0; k < n; k++) {
        bool same = false;
        const char *found = "";
        int status = check_sharding(c, list[k], leaf, &text, &same, &found);
        if (status)
            return status;
        if (same != (r == EQUAL))
            return verdict(c, w, false,
                           n == 1 ? found
                                  : arena_printf(&c->arena, "%s at %s", found,
                                                 tensor_name(c, list[k])));
    }
    return verdict(c, w, true, n == 1 ? "so" : counted(&c->arena, n, "tensor"));
}

static int expect_even(struct call *c, const struct wanted *w)
{
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    struct uneven *list;
    int64_t n = find_uneven(c, p, &list), count = 0, first = 0;
    for (int64_t k = 0; k < n; k++)
        if (selected(w, list[k].instr) && count++ == 0)
            first = k;
    return verdict(c, w, count == 0,
                   count ? arena_printf(&c->arena, "%" PRId64 " uneven (%s, for one)", count,
                                        working_label(c, p->graph, list[first].working))
                         : "even");
}

static int expect_verify(struct call *c, const struct wanted *w)
{
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    struct verify_result r = { 0 };
    diag_stage(c->d, "run");
    const struct options *o = &document_strategy(c->sh->doc)->options;
    if (!verify_program(document_propagation(c->sh->doc, NULL, NULL), p, RUN_RING, o->seed,
                        o->threads, &r, call_tick(c), c->d)) {
        verify_result_free(&r);
        return call_failed(c);
    }
    bool equal = r.equal;
    verify_result_free(&r);
    return verdict(c, w, equal, equal ? "equal" : "a difference; verify tells where");
}

/* ---- unchanged ------------------------------------------------------------------------------------- */

/* The first line that differs, for the message. */
static const char *first_difference(struct call *c, const char *was, const char *is)
{
    int line = 1;
    while (*was && *is) {
        size_t a = strcspn(was, "\n"), b = strcspn(is, "\n");
        if (a != b || memcmp(was, is, a) != 0)
            break;
        was += a + (was[a] != '\0');
        is += b + (is[b] != '\0');
        line++;
    }
    return arena_printf(&c->arena, "line %d: was '%.*s', is '%.*s'", line,
                        (int)strcspn(was, "\n"), was, (int)strcspn(is, "\n"), is);
}

static int expect_unchanged(struct call *c, const struct wanted *w)
{
    if (w->n != 2)
        return malformed(c, -1, "unchanged FILE, and once: expect unchanged FILE --update");
    if (c->sh->sealed)
        return call_error(c, STATUS_INPUT, "io", "no file is opened here");
    const char *path = w->words[1].text;
    struct str now = STR_IN(&c->arena);
    if (!review_snapshot(c, &now))
        return call_failed(c);
    if (w->update) {
        if (c->sh->safe)
            return call_usage(c, -1, "--safe: no file is written");
        if (!write_file(c, path, str_text(&now), now.n))
            return call_failed(c);
        if (c->json)
            json_put_string(&c->js, "written", path);
        else if (!c->sh->quiet)
            out(c, "written: %s\n", path);
        return STATUS_OK;
    }
    struct source *src;
    diag_stage(c->d, "io");
    if (!file_read(path, &src, c->d)) {
        diag_hint(c->d, "expect unchanged %s --update writes it", path);
        return call_failed(c);
    }
    bool same = src->len == now.n && !memcmp(src->text, str_text(&now), now.n);
    const char *was = arena_strndup(&c->arena, src->text, src->len);
    source_free(src);
    return verdict(c, w, same,
                   same ? "unchanged"
                        : arena_printf(&c->arena,
                                       "a change, %s (expect unchanged %s --update accepts it)",
                                       first_difference(c, was, str_text(&now)), path));
}

/* ---- the command ----------------------------------------------------------------------------------- */

/* Moves `for SEL` to the end of the words, wherever it stands. */
static void selection_last(struct wanted *w, struct word *words)
{
    for (int k = 1; k + 2 < w->n; k++) {
        if (words[k].quoted || strcmp(words[k].text, "for") != 0)
            continue;
        struct word taken[2] = { words[k], words[k + 1] };
        memmove(&words[k], &words[k + 2], (size_t)(w->n - k - 2) * sizeof *words);
        words[w->n - 2] = taken[0];
        words[w->n - 1] = taken[1];
        return;
    }
}

/* Takes `--update` and `for SEL` off. */
static bool read_tail(struct call *c, struct wanted *w)
{
    if (w->n > 1 && !strcmp(w->words[w->n - 1].text, "--update")) {
        w->update = true;
        w->n--;
    }
    selection_last(w, c->args);
    if (w->n > 2 && !w->words[w->n - 2].quoted && !strcmp(w->words[w->n - 2].text, "for")) {
        instr_id *list;
        if (!arg_select(c, w->n - 1, &list, &w->namong))
            return false;
        w->among = list;
        w->n -= 2;
    }
    return true;
}

int cmd_expect(struct call *c)
{
    struct wanted w = { .n = c->n, .words = c->args, .text = call_rest(c, 0, NULL) };
    if (!read_tail(c, &w))
        return call_failed(c);
    char *what = arena_strdup(&c->arena, w.words[0].text);
    const char *only = "";
    char *paren = strchr(what, '(');
    if (paren && what[strlen(what) - 1] == ')') {
        what[strlen(what) - 1] = '\0';
        *paren = '\0';
        only = paren + 1;
    }
    if (!strcmp(what, "no"))
        return expect_none(c, &w);
    if (!strcmp(what, "sharding"))
        return expect_sharding(c, &w);
    if (!strcmp(what, "even"))
        return expect_even(c, &w);
    if (!strcmp(what, "no-remat"))
        return expect_no_remat(c, &w);
    if (!strcmp(what, "verify"))
        return expect_verify(c, &w);
    if (!strcmp(what, "memory"))
        return expect_memory(c, &w);
    if (!strcmp(what, "unchanged"))
        return expect_unchanged(c, &w);
    if (!strcmp(what, "bytes") || !strcmp(what, "comms") || !strcmp(what, "collectives"))
        return expect_amount(c, &w, what[0] == 'b', only);
    enum op_kind op = op_find(what, strlen(what));
    if (op != OP_NONE && op_is_collective(op))
        return expect_amount(c, &w, false, what);
    call_usage(c, 0, "'%s' is nothing that can be expected", what);
    diag_hint(c->d, "expect no KIND, collectives, bytes, memory, KIND OP N, sharding T == S, "
                    "even, no remat, verify, unchanged FILE");
    return STATUS_USAGE;
}
