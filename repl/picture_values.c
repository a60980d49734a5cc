/* Numbers for the cells of a layout: the module runs on one device, up to the array in question. */
#include <stdlib.h>
#include <string.h>

#include "repl/pictures.h"
#include "repl/run.h"

/* The loaded module with another root of its entry. */
static struct module *cut_at(const struct module *m, instr_id root)
{
    struct module *clone = module_clone(m);
    struct computation *entry = comp_at(clone, clone->entry);
    comp_set_instrs(clone, clone->entry, entry->ninstrs, entry->instrs, root);
    return clone;
}

static bool run_cut(struct picture *p, const struct module *m, struct tensor *out)
{
    struct call *c = p->c;
    const struct computation *entry = comp_at(m, m->entry);
    shape_id *params = ARENA_ARRAY(&c->arena, shape_id, entry->nparams);
    for (uint32_t k = 0; k < entry->nparams; k++)
        params[k] = instr_at(m, entry->params[k])->shape;
    struct leaves inputs = { 0 };
    struct run_options o = run_options_of(c, 1);
    struct run_result r = { 0 };
    int64_t seed = (int64_t)document_strategy(c->sh->doc)->options.seed;
    bool ok = run_inputs(c, m, params, entry->nparams, 1, NULL, (uint64_t)seed, &inputs);
    diag_stage(c->d, "run");
    ok = ok && run_module(m, inputs.v, inputs.n, &o, &r, call_tick(c), c->d);
    leaves_free(&inputs);
    if (ok && r.nleaves == 1) {
        *out = r.out[0];
        r.out[0] = (struct tensor){ 0 };
    }
    run_result_free(&r);
    return ok && out->data;
}

bool picture_values(struct picture *p, const struct picture_tensor *t, struct picture_values *out)
{
    enum { MOST = 4096 };
    struct call *c = p->c;
    const struct module *m = document_module(c->sh->doc);
    const struct shape *s = shape_get(m->ir, t->shape);
    *out = (struct picture_values){ .a = p->a };
    if (s->count > MOST || s->count < 0) {
        call_usage(c, -1, "%s has too many elements to show their numbers (at most %d)", t->name, MOST);
        return false;
    }
    if (instr_at(m, t->instr)->comp.i != m->entry.i || shape_get(m->ir, instr_at(m, t->instr)->shape)->kind != SHAPE_ARRAY) {
        call_usage(c, -1, "numbers are shown for arrays of the entry computation");
        return false;
    }
    struct module *cut = cut_at(m, t->instr);
    bool ok = run_cut(p, cut, &out->t);
    module_free(cut);
    return ok;
}

void picture_values_free(struct picture_values *v)
{
    tensor_free(&v->t);
}

static double load_real(const struct tensor *t, int64_t at)
{
    return float_load(t->dtype, (const char *)t->data + at * dtype_bytes(t->dtype));
}

const char *picture_value(void *values, const int64_t *index)
{
    struct picture_values *v = values;
    int64_t at = 0;
    for (int d = 0; d < v->t.rank; d++)
        at = at * v->t.dims[d] + index[d];
    const char *p = (const char *)v->t.data + at * dtype_bytes(v->t.dtype);
    if (v->t.dtype == DTYPE_PRED)
        return *p ? "1" : "0";
    if (dtype_kind(v->t.dtype) == DTYPE_KIND_COMPLEX)
        return "..";
    if (dtype_kind(v->t.dtype) == DTYPE_KIND_FLOAT)
        return arena_printf(v->a, "%.4g", load_real(&v->t, at));
    int64_t n = 0;
    size_t size = (size_t)dtype_bytes(v->t.dtype);
    memcpy(&n, p, size); /* little-endian hosts; signed types are extended below */
    if (dtype_kind(v->t.dtype) == DTYPE_KIND_SIGNED && size < 8 && (n >> (8 * size - 1)) & 1)
        n -= INT64_C(1) << (8 * size);
    return arena_printf(v->a, "%" PRId64, n);
}
