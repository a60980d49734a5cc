/* One operation of StableHLO text: name, operands, attributes, the generic form, location; mlir_results.c has
 * its results and types, mlir_pretty.c the pretty forms. */
#include "text/mlir_op.h"

/* ---- attributes -------------------------------------------------------------------------------- */

/* A value up to a comma or closing bracket at its own level. In a dictionary a type may follow the
 * value (`1 : i64`), in pretty forms a colon ends it, and so does a brace behind something. */
bool mop_raw_value(struct mlir *r, bool pretty, const char **text, uint32_t *len)
{
    mskip(r);
    const char *from = r->p, *stop = r->p;
    for (;;) {
        char c = *r->p;
        if (c == '"' || c == '[' || c == '<' || c == '(' || (c == '{' && (!pretty || stop == from))) {
            if (pretty && c == '(' && stop > from)
                break; /* the block arguments of sdy's computations */
            const char *t;
            uint32_t l;
            if (!mskip_group(r, &t, &l))
                return false;
            stop = r->p;
        } else if (mis(c, MC_SPACE)) {
            r->p++;
            if (pretty && stop > from && !mis(*r->p, MC_SPACE) && *r->p != 'x' && *r->p != '<')
                break; /* `[0] x [1]` goes on; anything else is the next piece */
        } else if (c == ',' || c == '}' || c == ']' || c == ')' || c == '\0' || (c == ':' && pretty)) {
            break;
        } else if (c == '>' && r->p[-1] != '-') {
            break;
        } else {
            r->p++;
            stop = r->p;
            if (pretty && c == 'x' && stop - from > 1 && mis(from[stop - from - 2], MC_SPACE))
                mskip(r);
        }
    }
    if (stop == from)
        return mexpected(r, "a value");
    r->p = stop;
    *text = from;
    *len = (uint32_t)(stop - from);
    return true;
}

void mop_keep_attr(struct mlir *r, const char *key, uint32_t klen, const char *val, uint32_t vlen)
{
    struct mattr a = { key, val, klen, vlen };
    vec_push(&r->tmp, &r->attrs, a);
}

bool mlir_dict(struct mlir *r, char close)
{
    if (mtake(r, close))
        return true;
    do {
        mskip(r);
        const char *key = r->p;
        uint32_t n;
        if (*key == '"') {
            if (!mskip_group(r, &key, &n))
                return false;
            key++;
            n -= 2;
        } else {
            n = (uint32_t)mword(key);
            if (n == 0)
                return mexpected(r, "an attribute's name");
            r->p += n;
        }
        const char *val = NULL;
        uint32_t vlen = 0;
        if (mtake(r, '=') && !mop_raw_value(r, false, &val, &vlen))
            return false;
        mop_keep_attr(r, key, n, val, vlen);
    } while (mtake(r, ','));
    return mwant(r, close, "',' or the end of the attributes");
}

bool mlir_loc(struct mlir *r, const char **text, uint32_t *len)
{
    *text = NULL;
    *len = 0;
    mskip(r);
    if (r->p[0] != 'l' || r->p[1] != 'o' || r->p[2] != 'c' || r->p[3] != '(')
        return true;
    r->p += 3;
    return mskip_group(r, text, len);
}

/* One that is there; what was read before stays where there is none. */
bool mlir_op_loc(struct mlir *r, struct mop *op)
{
    const char *loc;
    uint32_t n;
    if (!mlir_loc(r, &loc, &n))
        return false;
    if (loc) {
        op->loc = (uint32_t)(loc - r->base);
        op->nloc = n;
    }
    return true;
}

/* ---- operands ---------------------------------------------------------------------------------- */

bool mop_use(struct mlir *r)
{
    uint32_t v;
    if (!mlir_use(r, &v))
        return false;
    vec_push(&r->tmp, &r->list, v);
    return true;
}

static bool use_list(struct mlir *r, char close)
{
    if (mtake(r, close))
        return true;
    do
        if (!mop_use(r))
            return false;
    while (mtake(r, ','));
    return mwant(r, close, "',' or ')' behind an operand");
}

void mop_take_operands(struct mlir *r, struct mop *op)
{
    op->noperands = (uint32_t)r->list.n;
    if (r->list.n)
        op->operands = memcpy(mlir_op_alloc(r, r->list.n, sizeof *r->list.v), r->list.v,
                              (size_t)r->list.n * sizeof *r->list.v);
    r->list.n = 0;
}

void mop_take_attrs(struct mlir *r, struct mop *op)
{
    if (!r->attrs.n)
        return;
    struct mattr *v = mlir_op_alloc(r, op->nattrs + r->attrs.n, sizeof *v);
    if (op->nattrs)
        memcpy(v, op->attrs, op->nattrs * sizeof *v);
    memcpy(v + op->nattrs, r->attrs.v, (size_t)r->attrs.n * sizeof *v);
    op->attrs = v;
    op->nattrs += (uint32_t)r->attrs.n;
    r->attrs.n = 0;
}

bool mop_attributes(struct mlir *r, struct mop *op)
{
    mskip(r);
    if (!mtext(r->p, mword(r->p), "attributes"))
        return true;
    r->p += 10;
    if (!mwant(r, '{', "'{'") || !mlir_dict(r, '}'))
        return false;
    mop_take_attrs(r, op);
    return true;
}

/* ---- generic form ------------------------------------------------------------------------------ */

static bool generic(struct mlir *r, struct mop *op, bool *region)
{
    op->generic = true;
    *region = false;
    if (!mwant(r, '(', "'(' of the operands") || !use_list(r, ')'))
        return false;
    mop_take_operands(r, op);
    const char *t;
    uint32_t n;
    mskip(r);
    if (*r->p == '[' && !mskip_group(r, &t, &n))
        return false;
    mskip(r);
    if (r->p[0] == '<' && r->p[1] == '{') {
        r->p += 2;
        if (!mlir_dict(r, '}') || !mwant(r, '>', "'>' behind the properties"))
            return false;
        mop_take_attrs(r, op);
    }
    mskip(r);
    const char *at = r->p;
    if (*r->p != '(')
        return true;
    r->p++;
    if (!mwant(r, '{', "'{' of a region"))
        return false;
    *region = true;
    if (op->kind == M_MODULE) {
        const struct mattr *a = mattr(op, "sym_name");
        if (!r->module_name && a)
            (void)mstring(a, &r->module_name, &r->module_nname);
        mlir_push(r, op, FRAME_GENERIC, at);
        r->frames.v[r->frames.n - 1].region = NULL;
        return true;
    }
    if (op->kind == M_FUNC && !mop_generic_func(r, op))
        return false;
    mop_save_results(r, op);
    if (op->kind != M_FUNC)
        mlir_append(r, op);
    mlir_push(r, op, FRAME_GENERIC, at);
    return true;
}

/* ---- an operation ------------------------------------------------------------------------------ */

/* What has become a constant, or another value by simplification, is checked now and not kept: in the
 * programs that JAX writes that is every second operation. What fails is kept, and reported in its turn. */
static void leave_out(struct mlir *r, struct mop *op, uint32_t nth)
{
    struct mregion *g = op->block;
    bool replaced = op->nresults == 1 && mval(r, op->result)->is_alias && !op->nregions;
    if (!g || g->last != op || !replaced || (op->prev && op->prev->kind == M_RETURN))
        return;
    if (op->kind == M_CONSTANT)
        mlir_note_constant(r, op->result);
    else if (op->kind != M_HLO || mlir_has_effect(op) || !mlir_passes(r, op))
        return;
    g->last = op->prev;
    if (op->prev)
        op->prev->next = NULL;
    else
        g->first = NULL;
    mset_def(r, op->result, NULL);
    if (r->nops == nth)
        mlir_op_forget(r, op);
    else
        mlir_op_done(r, op);
}

/* The value's text and the type behind it, for attributes like `value = dense<0> : tensor<f32>`. */
static bool finish(struct mlir *r, struct mop *op)
{
    switch ((enum mkind)op->kind) {
    case M_CONSTANT: return mlir_constant(r, op);
    case M_CONSTRAINT: return mlir_constraint(r, op);
    case M_MANUAL:
    case M_NAMED: return mlir_sdy_region(r, op);
    case M_GROUP: return mlir_group(r, op);
    case M_MESH: return mlir_mesh(r, op);
    case M_IDENTITY:
        if (op->noperands == 1 && op->nresults == 1)
            mreplace(r, op, 0, op->operands[0]);
        return true;
    case M_NONE:
    case M_HLO:
    case M_RETURN:
    case M_CALL:
    case M_CUSTOM:
    case M_MODULE:
    case M_FUNC:
    case M_CHLO:
    case M_COMPOSITE:
    case M_IF:
    case M_RAW:
    case M_UNKNOWN: break;
    }
    mlir_fold(r, op);
    return true;
}

/* Behind the last region: attributes, types, location. */
bool mlir_op_tail(struct mlir *r, struct mop *op, const struct mframe *f)
{
    if (!op)
        return true;
    mskip(r);
    if (*r->p == '{' && f->form == FRAME_GENERIC) {
        const char *from = r->p++;
        if (!mlir_dict(r, '}'))
            return false;
        if (op->kind == M_MODULE && !r->module_attrs) {
            r->module_attrs = from;
            r->module_nattrs = (uint32_t)(r->p - from);
        }
        mop_take_attrs(r, op);
    }
    if (f->form == FRAME_GENERIC || f->form == FRAME_SDY) {
        mop_restore_results(r, op);
        if (op->kind == M_FUNC) {
            const struct mregion *g = r->current ? r->current->body : NULL;
            if (g && r->current->nargs != g->nargs)
                return MFAIL(r, op->at, op->nat, "the function's type has %u arguments, its body %u",
                             r->current->nargs, g->nargs);
        }
        if (mtake(r, ':') && !mop_read_types(r, op))
            return false;
    } else if (f->form == FRAME_WHILE_BODY) {
        mop_restore_results(r, op);
        r->shapes.n = 0;
        for (uint32_t i = 0; i < op->noperands; i++)
            vec_push(&r->tmp, &r->shapes, mval(r, op->operands[i])->shape);
        if (!mop_define_results(r, op, r->shapes.n, r->shapes.v))
            return false;
    }
    if (!mlir_op_loc(r, op))
        return false;
    if (f->form == FRAME_FUNC || f->form == FRAME_MODULE || op->kind == M_FUNC || op->kind == M_MODULE)
        return true;
    return finish(r, op);
}

static bool read_name(struct mlir *r, struct mop *op, bool *quoted)
{
    *quoted = *r->p == '"';
    if (*quoted) {
        if (!mskip_group(r, &op->name, &op->nname))
            return false;
        op->name++;
        op->nname -= 2;
    } else {
        op->name = r->p;
        op->nname = (uint32_t)mword(r->p);
        if (op->nname == 0)
            return mexpected(r, "an operation, like %0 = stablehlo.add %a, %b : tensor<8xf32>, or '}'");
        r->p += op->nname;
    }
    const struct opname *o = mlir_find_opname(r, op->name, op->nname);
    if (o) {
        op->kind = o->kind;
        op->hlo = o->hlo;
        return true;
    }
    if (op->nname > 5 && memcmp(op->name, "chlo.", 5) == 0) {
        op->kind = M_CHLO;
        return true;
    }
    op->kind = M_UNKNOWN;
    if (op->nname > 9 && memcmp(op->name, "vhlo.func", 9) == 0) {
        MFAIL(r, op->name, op->nname, "this is VHLO, the form in which StableHLO is stored, not StableHLO text");
        diag_hint(r->d, "turn it into StableHLO: stablehlo-opt --vhlo-to-version=target=current "
                        "--vhlo-legalize-to-stablehlo FILE");
        r->stop = true;
        return false;
    }
    if (memchr(op->name, '.', op->nname) == NULL && !*quoted)
        return MFAIL(r, op->name, op->nname, "no such operation: '%.*s'", (int)op->nname, op->name);
    if (op->nname > 10 && memcmp(op->name, "stablehlo.", 10) == 0) {
        MFAIL(r, op->name, op->nname, "no such operation: '%.*s'", (int)op->nname, op->name);
        const char *best = NULL;
        int least = 4;
        char word[64];
        if (op->nname >= sizeof word)
            return false;
        memcpy(word, op->name, op->nname);
        word[op->nname] = '\0';
        for (uint32_t i = 0; i < OPNAMES; i++) {
            int e = r->opnames[i].text ? edit_distance(word, r->opnames[i].text, 3) : 4;
            if (e < least) {
                least = e;
                best = r->opnames[i].text;
            }
        }
        if (best)
            diag_hint(r->d, "did you mean '%s'?", best);
        return false;
    }
    return true;
}

bool mlir_op(struct mlir *r)
{
    r->list.n = r->attrs.n = 0;
    struct mop *op = mlir_op_new(r, M_NONE);
    uint32_t nth = r->nops;
    const char *start = r->p;
    if (!mop_read_results(r))
        return false;
    mskip(r);
    bool quoted, region = false;
    if (!read_name(r, op, &quoted))
        return false;
    if (op->nname > 3 && memcmp(op->name, "cf.", 3) == 0)
        return MFAIL(r, op->name, op->nname, "control flow between blocks (cf) has no counterpart in HLO");
    if (op->kind == M_MODULE || op->kind == M_FUNC || op->kind == M_MESH)
        mlir_op_done(r, op); /* they stand in no block */
    op->at = r->nresults ? r->results[0].text : start;
    op->nat = r->nresults ? r->results[0].len : (uint32_t)(quoted ? op->nname + 2 : op->nname);
    if (quoted) {
        if (!generic(r, op, &region))
            return false;
    } else if (op->kind == M_MODULE) {
        return mop_pretty_module(r, op);
    } else if (op->kind == M_FUNC) {
        return mop_pretty_func(r, op);
    } else if (op->kind == M_HLO && op->hlo == OP_WHILE) {
        return mop_pretty_while(r, op);
    } else if (op->kind == M_HLO && op->hlo == OP_REDUCE) {
        if (!mop_pretty_reduce(r, op, &region))
            return false;
        if (region)
            return true;
        if (!mlir_op_loc(r, op))
            return false;
        return finish(r, op);
    } else if (op->kind == M_MESH) {
        mop_symbol(r, &op->sym, &op->nsym);
        if (!mop_pretty_mesh(r, op))
            return false;
    } else if (!mop_pretty_pieces(r, op, &region)) {
        return false;
    }
    if (region)
        return true;
    mskip(r);
    if (quoted && *r->p == '{') {
        r->p++;
        if (!mlir_dict(r, '}'))
            return false;
        mop_take_attrs(r, op);
    }
    if (op->kind == M_UNKNOWN && !quoted) {
        mskip(r);
        if (*r->p == '{') {
            r->p++;
            if (!mlir_dict(r, '}'))
                return false;
            mop_take_attrs(r, op);
        }
    }
    if (op->kind != M_MESH)
        mlir_append(r, op);
    if (mtake(r, ':')) {
        if (!mop_read_types(r, op))
            return false;
    } else if (r->nresults) {
        return mexpected(r, "':' and the types");
    }
    if (!mlir_op_loc(r, op))
        return false;
    if (!finish(r, op))
        return false;
    leave_out(r, op, nth);
    return true;
}
