/* diff: what two strategies, two modules or two programs do differently. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"
#include "repl/compare.h"

/* ---- shardings ------------------------------------------------------------------------------------- */

struct sharding_row {
    const char *name, *shape, *before, *after; /* before, after: as `set spelling` says */
    const char *hlo_before, *hlo_after;
};

struct sharding_diff {
    VEC(struct sharding_row) rows;
    int64_t matched, na, nb; /* instructions that are on both sides; of each side */
};

static sharding_id sharding_of(const struct side *s, instr_id i)
{
    const struct graph *g = s->prop->graph;
    uint32_t from = g->start[i.i], to = g->start[i.i + 1];
    return to > from ? s->prop->final[g->list[from].i] : (sharding_id){ 0 };
}

/* Sharding of an instruction in both spellings; no sharding and replicated are the same to everyone
 * but the pass. */
static const char *texts(struct call *c, const struct side *s, instr_id i, const char **hlo)
{
    struct document *before = side_enter(c, s);
    sharding_id id = sharding_of(s, i);
    struct shardings *t = document_ir(s->doc)->shardings;
    if (id.i && sharding_is_replicated(t, id))
        id = sharding_replicated(t);
    *hlo = id.i ? hlo_text(c, id) : "{replicated}";
    const char *text = id.i ? spelled(c, id) : "replicated";
    side_leave(c, before);
    return text;
}

static void diff_same_module(struct call *c, const struct side *a, const struct side *b,
                             struct sharding_diff *d)
{
    struct change *list;
    int64_t n = compare_shardings(c, a->prop, b->prop, &list);
    d->na = d->nb = d->matched = module_ninstrs(a->module);
    for (int64_t k = 0; k < n; k++) {
        struct sharding_row r = {
            .name = tensor_name(c, list[k].instr),
            .shape = shape_text(c, instr_at(a->module, list[k].instr)->shape),
            .before = spelled(c, list[k].before),
            .after = spelled(c, list[k].after),
            .hlo_before = hlo_text(c, list[k].before),
            .hlo_after = hlo_text(c, list[k].after),
        };
        vec_push(&c->arena, &d->rows, r);
    }
}

static void diff_modules(struct call *c, const struct side *a, const struct side *b,
                         struct sharding_diff *d)
{
    const uint32_t *to = match_modules(c, a->module, b->module);
    d->na = module_ninstrs(a->module);
    d->nb = module_ninstrs(b->module);
    for (uint32_t k = 1; k <= module_ninstrs(a->module); k++) {
        if (!to[k])
            continue;
        d->matched++;
        struct sharding_row r = { 0 };
        r.before = texts(c, a, (instr_id){ k }, &r.hlo_before);
        r.after = texts(c, b, (instr_id){ to[k] }, &r.hlo_after);
        if (!strcmp(r.hlo_before, r.hlo_after))
            continue;
        struct document *own = side_enter(c, a);
        r.name = tensor_name(c, (instr_id){ k });
        r.shape = shape_text(c, instr_at(a->module, (instr_id){ k })->shape);
        side_leave(c, own);
        vec_push(&c->arena, &d->rows, r);
    }
}

static void print_shardings(struct call *c, const struct sharding_diff *d)
{
    int64_t n = d->rows.n, shown = call_rows(c, n);
    if (c->json) {
        json_put_open(&c->js, "shardings", '[');
        for (int64_t k = 0; k < n; k++) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "name", d->rows.v[k].name);
            json_put_string(&c->js, "before", d->rows.v[k].hlo_before);
            json_put_string(&c->js, "after", d->rows.v[k].hlo_after);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        json_put_int(&c->js, "matched", d->matched);
        return;
    }
    if (d->matched < d->na || d->matched < d->nb)
        out(c, "%s of %s and %s instructions are on both sides\n", with_commas(&c->arena, d->matched),
            with_commas(&c->arena, d->na), with_commas(&c->arena, d->nb));
    static const char *const heads[] = { "tensor", "shape", "before", "", "after", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (int64_t k = 0; k < shown; k++) {
        const struct sharding_row *r = &d->rows.v[k];
        const char **row = table_row(&t);
        row[0] = r->name;
        row[1] = r->shape;
        row[2] = r->before;
        row[3] = "->";
        row[4] = r->after;
    }
    table_print(c, &t, true);
    call_more(c, shown, n, "shardings");
    if (n == 0)
        out(c, "the same shardings\n");
}

/* ---- collectives ----------------------------------------------------------------------------------- */

struct comm {
    const char *kind, *shape, *over, *serves, *layer; /* layer "": no scope */
    int64_t bytes, trips;
    int sign; /* -1: only in a, +1: only in b */
};

static int compare_comms(const void *x, const void *y)
{
    const struct comm *a = x, *b = y;
    int r = strcmp(a->kind, b->kind);
    r = r ? r : strcmp(a->shape, b->shape);
    r = r ? r : strcmp(a->over, b->over);
    return r ? r : (a->trips > b->trips) - (a->trips < b->trips);
}

/* Larger ones first; the rest of the order only keeps it the same everywhere. */
static int by_bytes(const void *x, const void *y)
{
    const struct comm *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    int r = compare_comms(x, y);
    r = r ? r : a->sign - b->sign;
    return r ? r : strcmp(a->serves, b->serves);
}

static struct comm comm_of(struct call *c, const struct side *s, const struct collective *k)
{
    const struct module *m = s->program ? s->program->module : s->module;
    const char *names[MESH_MAX_AXES];
    int naxes;
    const char *axes = collective_axes(c, k, &naxes, names), *groups = groups_text(c, k);
    instr_id loaded = { 0 };
    if (s->program && s->program->notes && s->program->notes[k->instr.i].source.i) {
        loaded = s->prop->graph->origin[s->program->notes[k->instr.i].source.i].source;
        if (loaded.i > module_ninstrs(s->module))
            loaded = (instr_id){ 0 };
    }
    const char *op = loaded.i ? instr_op_name(s->module, loaded) : instr_op_name(m, k->instr);
    return (struct comm){
        .kind = op_name(k->kind),
        .shape = shape_text(c, instr_at(m, k->instr)->shape),
        .over = axes[0] ? axes : groups ? groups : "pairs",
        .serves = loaded.i ? tensor_name(c, loaded) : op[0] ? op : "-",
        .layer = layer_of(&c->arena, op),
        .bytes = k->bytes,
        .trips = k->trip_count,
    };
}

static struct comm *comms_of(struct call *c, const struct side *s, int sign)
{
    struct comm *v = ARENA_ARRAY(&c->arena, struct comm, s->n + 1);
    struct document *before = side_enter(c, s);
    for (int64_t k = 0; k < s->n; k++) {
        v[k] = comm_of(c, s, &s->list[k]);
        v[k].sign = sign;
    }
    side_leave(c, before);
    qsort(v, (size_t)s->n, sizeof *v, compare_comms);
    return v;
}

/* Those that are on one side only. */
static struct comm *differing(struct call *c, const struct comm *x, int64_t nx,
                              const struct comm *y, int64_t ny, int64_t *n)
{
    struct comm *v = ARENA_ARRAY(&c->arena, struct comm, nx + ny + 1);
    *n = 0;
    int64_t i = 0, j = 0;
    while (i < nx || j < ny) {
        int r = i == nx ? 1 : j == ny ? -1 : compare_comms(&x[i], &y[j]);
        if (r == 0) {
            i++;
            j++;
        } else {
            v[(*n)++] = r < 0 ? x[i++] : y[j++];
        }
    }
    qsort(v, (size_t)*n, sizeof *v, by_bytes);
    return v;
}

static void print_differing(struct call *c, const struct comm *v, int64_t n)
{
    int64_t shown = call_rows(c, n);
    if (c->json) {
        json_put_open(&c->js, "differing", '[');
        for (int64_t k = 0; k < n; k++) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "side", v[k].sign < 0 ? "before" : "after");
            json_put_string(&c->js, "kind", v[k].kind);
            json_put_string(&c->js, "shape", v[k].shape);
            json_put_string(&c->js, "over", v[k].over);
            json_put_int(&c->js, "trip_count", v[k].trips);
            json_put_int(&c->js, "bytes", v[k].bytes);
            json_put_string(&c->js, "for", v[k].serves);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return;
    }
    static const char *const heads[] = { "", "collective", "shape", ">bytes", "over", "for", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (int64_t k = 0; k < shown; k++) {
        const char **row = table_row(&t);
        row[0] = v[k].sign < 0 ? "-" : "+";
        row[1] = v[k].kind;
        row[2] = v[k].shape;
        row[3] = with_commas(&c->arena, v[k].bytes);
        row[4] = v[k].over;
        row[5] = v[k].serves;
    }
    table_print(c, &t, true);
    call_more(c, shown, n, "collectives");
}

/* Bytes by layer, where op_names tell layers. */
struct layer {
    const char *name;
    int64_t before, after;
};

static int by_layer_name(const void *x, const void *y)
{
    const struct layer *a = x, *b = y;
    return strverscmp(a->name, b->name);
}

static struct layer *layers_of(struct call *c, const struct comm *x, int64_t nx,
                               const struct comm *y, int64_t ny, int64_t *n)
{
    struct layer *v = ARENA_ARRAY(&c->arena, struct layer, nx + ny + 1);
    int64_t all = 0;
    for (int64_t k = 0; k < nx; k++)
        v[all++] = (struct layer){ x[k].layer, x[k].bytes, 0 };
    for (int64_t k = 0; k < ny; k++)
        v[all++] = (struct layer){ y[k].layer, 0, y[k].bytes };
    qsort(v, (size_t)all, sizeof *v, by_layer_name);
    *n = 0;
    for (int64_t k = 0; k < all; k++) {
        if (*n && !strcmp(v[*n - 1].name, v[k].name)) {
            v[*n - 1].before += v[k].before;
            v[*n - 1].after += v[k].after;
        } else {
            v[(*n)++] = v[k];
        }
    }
    return v;
}

static void print_layers(struct call *c, const struct layer *v, int64_t n)
{
    int64_t changed = 0;
    int64_t before[2] = { 0 }, after[2] = { 0 }; /* without a scope, with one */
    for (int64_t k = 0; k < n; k++) {
        changed += v[k].before != v[k].after;
        before[v[k].name[0] != '\0'] += v[k].before;
        after[v[k].name[0] != '\0'] += v[k].after;
    }
    if (c->json) {
        json_put_open(&c->js, "layers", '[');
        for (int64_t k = 0; k < n; k++) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "layer", v[k].name);
            json_put_int(&c->js, "bytes_before", v[k].before);
            json_put_int(&c->js, "bytes_after", v[k].after);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return;
    }
    /* Dumps late in XLA's pipeline have no op_names: nothing to compare by. */
    bool unnamed = (before[0] && !before[1]) || (after[0] && !after[1]);
    if (changed == 0 || unnamed)
        return;
    static const char *const heads[] = { "layer", ">bytes before", ">after", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = call_rows(c, changed), row_count = 0;
    for (int64_t k = 0; k < n && row_count < shown; k++) {
        if (v[k].before == v[k].after)
            continue;
        const char **row = table_row(&t);
        row[0] = v[k].name[0] ? v[k].name : "(no scope)";
        row[1] = with_commas(&c->arena, v[k].before);
        row[2] = with_commas(&c->arena, v[k].after);
        row_count++;
    }
    table_print(c, &t, true);
    call_more(c, shown, changed, "layers");
}

static void print_totals(struct call *c, const struct side *a, const struct side *b)
{
    int64_t x[OP_COUNT] = { 0 }, y[OP_COUNT] = { 0 };
    for (int64_t k = 0; k < a->n; k++)
        x[a->list[k].kind]++;
    for (int64_t k = 0; k < b->n; k++)
        y[b->list[k].kind]++;
    if (c->json) {
        json_put_open(&c->js, "collectives", '[');
        for (int op = 0; op < OP_COUNT; op++) {
            if (x[op] == y[op])
                continue;
            json_open(&c->js, '{');
            json_put_string(&c->js, "kind", op_name((enum op_kind)op));
            json_put_int(&c->js, "before", x[op]);
            json_put_int(&c->js, "after", y[op]);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        json_put_int(&c->js, "bytes_before", a->total);
        json_put_int(&c->js, "bytes_after", b->total);
        if (a->peak >= 0 && b->peak >= 0) {
            json_put_int(&c->js, "memory_before", a->peak);
            json_put_int(&c->js, "memory_after", b->peak);
        }
        return;
    }
    for (int op = 0; op < OP_COUNT; op++)
        if (x[op] != y[op])
            out(c, "%s: %" PRId64 " -> %" PRId64 "\n", op_name((enum op_kind)op), x[op], y[op]);
    out(c, "bytes a device: %s -> %s\n", nice_bytes(&c->arena, a->total),
        nice_bytes(&c->arena, b->total));
    if (a->peak >= 0 && b->peak >= 0)
        out(c, "memory at the peak: %s -> %s\n", nice_bytes(&c->arena, a->peak),
            nice_bytes(&c->arena, b->peak));
}

static void diff_comms(struct call *c, const struct side *a, const struct side *b)
{
    struct comm *x = comms_of(c, a, -1), *y = comms_of(c, b, 1);
    int64_t n, nlayers;
    struct comm *v = differing(c, x, a->n, y, b->n, &n);
    print_differing(c, v, n);
    struct layer *l = layers_of(c, x, a->n, y, b->n, &nlayers);
    print_layers(c, l, nlayers);
    print_totals(c, a, b);
}

/* ---- the command ----------------------------------------------------------------------------------- */

void diff_sides(struct call *c, const struct side *a, const struct side *b)
{
    if (a->prop && b->prop) {
        struct sharding_diff d = { 0 };
        if (a->module == b->module)
            diff_same_module(c, a, b, &d);
        else
            diff_modules(c, a, b, &d);
        print_shardings(c, &d);
    } else if (!c->json) {
        out(c, "%s is partitioned already: programs are compared, not shardings\n",
            a->prop ? b->name : a->name);
    }
    if (a->has_comms && b->has_comms)
        diff_comms(c, a, b);
}

int cmd_diff(struct call *c)
{
    struct side a, b;
    if (!side_open(c, 0, &a)) {
        side_close(&a);
        return call_failed(c);
    }
    bool ok = side_open(c, 1, &b);
    if (ok)
        diff_sides(c, &a, &b);
    side_close(&a);
    side_close(&b);
    return ok ? STATUS_OK : call_failed(c);
}
