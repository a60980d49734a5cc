/* Modules, functions and meshes of StableHLO text. */
#include "text/mlir_op.h"

/* ---- module, func, mesh ------------------------------------------------------------------------ */

void mop_symbol(struct mlir *r, const char **text, uint32_t *n)
{
    mskip(r);
    if (*r->p == '@') {
        r->p++;
        if (*r->p == '"') {
            const char *t;
            uint32_t l;
            if (mskip_group(r, &t, &l)) {
                *text = t + 1;
                *n = l - 2;
            }
            return;
        }
        *text = r->p;
        *n = (uint32_t)mword(r->p);
        while ((*text)[*n] == '-')
            *n += 1 + (uint32_t)mword(*text + *n + 1);
        r->p += *n;
    }
}

bool mop_pretty_module(struct mlir *r, struct mop *op)
{
    mop_symbol(r, &op->sym, &op->nsym);
    mskip(r);
    if (mtext(r->p, mword(r->p), "attributes")) {
        r->p += 10;
        mskip(r);
        const char *t;
        uint32_t n;
        if (*r->p != '{')
            return mexpected(r, "'{' of the attributes");
        if (!mskip_group(r, &t, &n))
            return false;
        if (!r->module_attrs) {
            r->module_attrs = t;
            r->module_nattrs = n;
        }
    }
    if (!r->module_name) {
        r->module_name = op->sym;
        r->module_nname = op->nsym;
    }
    mskip(r);
    const char *at = r->p;
    if (!mwant(r, '{', "'{' of the module"))
        return false;
    mlir_push(r, op, FRAME_MODULE, at);
    return true;
}

static struct mfunc *new_func(struct mlir *r, const char *name, uint32_t n)
{
    struct mfunc *f = ARENA_NEW(&r->tmp, struct mfunc);
    f->name = name;
    f->nname = n;
    f->is_public = true;
    r->func++;
    r->first_value = r->vals.n;
    map_init(&r->constants, &r->tmp);
    vec_push(&r->tmp, &r->funcs, f);
    uint64_t k;
    uint64_t key = hash_bytes(name, n, 9);
    if (map_get(&r->func_by_name, key, &k))
        MFAIL(r, name, n, "two functions are called '%.*s': it is defined already", (int)n, name);
    map_put(&r->func_by_name, key, (uint64_t)r->funcs.n);
    r->current = f;
    r->closed.n = 0;
    r->constants_read.n = 0;
    return f;
}

static bool nested_func(struct mlir *r, const struct mop *op)
{
    MFAIL(r, op->at, op->nat, "a function inside a function");
    r->stop = true;
    return false;
}

static bool func_args(struct mlir *r, struct arena *tmp, struct mfunc *fn, struct mregion *g)
{
    VEC(struct mattr) attrs = { 0 };
    VEC(const char *) locs = { 0 };
    VEC(uint32_t) nlocs = { 0 };
    if (!mtake(r, ')')) {
        do {
            mskip(r);
            struct mattr a = { 0 };
            const char *loc = NULL, *name = NULL;
            uint32_t nloc = 0;
            size_t n = 0;
            if (*r->p == '%') {
                name = ++r->p;
                n = mvalue_word(name);
                r->p += n;
                if (!mwant(r, ':', "':' behind the argument's name"))
                    return false;
            }
            shape_id shape;
            if (!mlir_type(r, &shape))
                return false;
            uint32_t v = name ? mlir_define(r, name, n, shape) : mlir_value_new(r, NULL, g, shape);
            mval(r, v)->region = g->id;
            if (g->nargs++ == 0)
                g->arg0 = v;
            mskip(r);
            if (*r->p == '{' && !mskip_group(r, &a.val, &a.vlen))
                return false;
            if (!mlir_loc(r, &loc, &nloc))
                return false;
            vec_push(tmp, &attrs, a);
            vec_push(tmp, &locs, loc);
            vec_push(tmp, &nlocs, nloc);
        } while (mtake(r, ','));
        if (!mwant(r, ')', "',' or ')' behind an argument"))
            return false;
    }
    fn->arg_attrs = arena_copy(&r->tmp, attrs.v, attrs.n, sizeof *attrs.v);
    fn->arg_locs = arena_copy(&r->tmp, locs.v, locs.n, sizeof *locs.v);
    fn->arg_nlocs = arena_copy(&r->tmp, nlocs.v, nlocs.n, sizeof *nlocs.v);
    fn->nargs = g->nargs;
    return true;
}

static bool func_results(struct mlir *r, struct arena *tmp, struct mfunc *fn)
{
    VEC(struct mattr) attrs = { 0 };
    VEC(shape_id) shapes = { 0 };
    if (mop_take_arrow(r)) {
        bool parens = mtake(r, '(');
        if (!parens || !mtake(r, ')')) {
            do {
                struct mattr a = { 0 };
                shape_id s;
                const char *loc;
                uint32_t nloc;
                if (!mlir_type(r, &s))
                    return false;
                mskip(r);
                if (parens && *r->p == '{' && !mskip_group(r, &a.val, &a.vlen))
                    return false;
                if (parens && !mlir_loc(r, &loc, &nloc))
                    return false;
                vec_push(tmp, &attrs, a);
                vec_push(tmp, &shapes, s);
            } while (parens && mtake(r, ','));
            if (parens && !mwant(r, ')', "',' or ')' behind a result"))
                return false;
        }
    }
    fn->res_attrs = arena_copy(&r->tmp, attrs.v, attrs.n, sizeof *attrs.v);
    fn->results = arena_copy(&r->tmp, shapes.v, shapes.n, sizeof *shapes.v);
    fn->nresults = (uint32_t)shapes.n;
    return true;
}

bool mop_pretty_func(struct mlir *r, struct mop *op)
{
    bool is_public = true;
    for (;;) {
        mskip(r);
        size_t n = mword(r->p);
        if (!n)
            break;
        if (mtext(r->p, n, "private") || mtext(r->p, n, "nested"))
            is_public = false;
        r->p += n;
    }
    mop_symbol(r, &op->sym, &op->nsym);
    if (!op->nsym)
        return mexpected(r, "the function's name, like @main");
    if (r->current)
        return nested_func(r, op);
    struct mfunc *fn = new_func(r, op->sym, op->nsym);
    fn->is_public = is_public;
    op->at = op->sym;
    op->nat = op->nsym;
    const char *at = r->p;
    struct mframe *f = mlir_push(r, op, FRAME_FUNC, at);
    struct mregion *g = f->region;
    if (!mwant(r, '(', "'(' of the arguments"))
        return false;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    bool ok = func_args(r, &tmp, fn, g) && func_results(r, &tmp, fn);
    arena_close(&tmp);
    if (!ok)
        return false;
    if (!mop_attributes(r, op))
        return false;
    mskip(r);
    if (*r->p == '{') {
        r->frames.v[r->frames.n - 1].open_at = r->p++;
        return true;
    }
    r->frames.n--; /* a declaration */
    r->current = NULL;
    return mlir_op_loc(r, op);
}

/* @mesh = <["x"=2]> {..}; or = #alias */
bool mop_pretty_mesh(struct mlir *r, struct mop *op)
{
    const char *v;
    uint32_t n;
    if (!mwant(r, '=', "'=' behind the mesh's name"))
        return false;
    mskip(r);
    if (*r->p == '<') {
        if (!mskip_group(r, &v, &n))
            return false;
    } else if (!mop_raw_value(r, true, &v, &n)) {
        return false;
    }
    mop_keep_attr(r, "<", 1, v, n);
    mskip(r);
    if (*r->p == '{') {
        r->p++;
        if (!mlir_dict(r, '}'))
            return false;
    }
    mop_take_attrs(r, op);
    return true;
}

/* The n-th element of an array attribute of dictionaries, [{..}, {}]. */
static void split_dicts(struct mlir *r, const struct mattr *a, uint32_t n, struct mattr **out)
{
    *out = ARENA_ARRAY(&r->tmp, struct mattr, n ? n : 1);
    if (!a || !a->val)
        return;
    const char *p = a->val + 1, *end = a->val + a->vlen;
    for (uint32_t k = 0; k < n && p < end; k++) {
        while (p < end && *p != '{')
            p++;
        const char *q = p < end ? mbalanced(p, end) : NULL;
        if (!q)
            return;
        (*out)[k].val = p;
        (*out)[k].vlen = (uint32_t)(q - p);
        p = q;
    }
}

/* "func.func"() <{function_type = (..) -> .., sym_name = "main", ..}> ({ */
bool mop_generic_func(struct mlir *r, struct mop *op)
{
    const struct mattr *name = mattr(op, "sym_name"), *type = mattr(op, "function_type");
    const struct mattr *vis = mattr(op, "sym_visibility");
    if (!name || !type || !mstring(name, &op->sym, &op->nsym))
        return MFAIL(r, op->at, op->nat, "this function has no sym_name and function_type");
    if (r->current)
        return nested_func(r, op);
    struct mfunc *fn = new_func(r, op->sym, op->nsym);
    const char *text;
    uint32_t n;
    fn->is_public = !vis || !mstring(vis, &text, &n) || mtext(text, n, "public");
    const char *back = r->p;
    r->p = type->val;
    r->shapes.n = 0;
    bool ok = mwant(r, '(', "'('") && mop_type_list(r, true);
    fn->nargs = (uint32_t)r->shapes.n;
    ok = ok && mop_take_arrow(r) && mop_result_types(r);
    r->p = back;
    if (!ok)
        return false;
    fn->nresults = (uint32_t)r->shapes.n - fn->nargs;
    fn->results = arena_copy(&r->tmp, r->shapes.v + fn->nargs, fn->nresults, sizeof(shape_id));
    split_dicts(r, mattr(op, "arg_attrs"), fn->nargs, &fn->arg_attrs);
    split_dicts(r, mattr(op, "res_attrs"), fn->nresults, &fn->res_attrs);
    fn->arg_locs = ARENA_ARRAY(&r->tmp, const char *, fn->nargs + 1);
    fn->arg_nlocs = ARENA_ARRAY(&r->tmp, uint32_t, fn->nargs + 1);
    return true;
}
