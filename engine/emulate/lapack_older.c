/* LAPACK's custom calls as JAX made them before its typed interface: "lapack_spotrf", "blas_strsm". Sizes and
 * flags are operands, constants in JAX's text, in front of the arrays; work space stands among the results,
 * and some results stand in another order. The step is that of the call of today over the arrays alone.
 */
#include <string.h>

#include "emulate/linalg.h"
#include "emulate/plan.h"

enum { MOST = 9 };

/* flags[k]: what operand k says, see spell_config; 'a': an array. results: places of today's results, for
 * real and for complex matrices. */
static const struct {
    const char *name, *flags;
    int8_t narrays, nresults[2], results[2][6];
} forms[] = {
    { "potrf", "u..a", 1, { 2, 2 }, { { 0, 1 }, { 0, 1 } } },
    { "getrf", "...a", 1, { 3, 3 }, { { 0, 1, 2 }, { 0, 1, 2 } } },
    { "geqrf", "....a", 1, { 2, 2 }, { { 0, 1 }, { 0, 1 } } },
    { "orgqr", ".....aa", 2, { 1, 1 }, { { 0 }, { 0 } } },
    { "ungqr", ".....aa", 2, { 1, 1 }, { { 0 }, { 0 } } },
    { "syevd", "u..a", 1, { 3, 3 }, { { 0, 1, 2 }, { 0, 1, 2 } } },
    { "heevd", "u..a", 1, { 3, 3 }, { { 0, 1, 2 }, { 0, 1, 2 } } },
    { "gesdd", "fv....a", 1, { 5, 5 }, { { 0, 1, 2, 3, 4 }, { 0, 1, 2, 3, 4 } } },
    { "geev", "..lra", 1, { 5, 4 }, { { 3, 4, 5, 6, 7 }, { 2, 3, 4, 5 } } },
    { "gees", "..m.a", 1, { 6, 5 }, { { 0, 3, 1, 2, 4, 5 }, { 0, 3, 2, 4, 5 } } },
    { "gehrd", ".ih...a", 1, { 3, 3 }, { { 0, 1, 2 }, { 0, 1, 2 } } },
    { "sytrd", ".u...a", 1, { 5, 5 }, { { 0, 1, 2, 3, 4 }, { 0, 1, 2, 3, 4 } } },
    { "hetrd", ".u...a", 1, { 5, 5 }, { { 0, 1, 2, 3, 4 }, { 0, 1, 2, 3, 4 } } },
    { "trsm", "sutd...aaa", 3, { 1, 1 }, { { 0 }, { 0 } } },
};

struct older {
    struct step today;
    uint8_t in[3], out[6]; /* places of its operands and results among the call's */
};

static int form_of(const char *target)
{
    bool blas = strncmp(target, "blas_", 5) == 0;
    if (!blas && strncmp(target, "lapack_", 7) != 0)
        return -1;
    const char *type = target + (blas ? 5 : 7);
    if (!*type || !strchr("sdcz", *type))
        return -1;
    for (size_t k = 0; k < COUNTOF(forms); k++)
        if (strcmp(type + 1, forms[k].name) == 0 && blas == (strcmp(forms[k].name, "trsm") == 0))
            return (int)k;
    return -1;
}

static const char *name_of_today(struct arena *a, const char *target)
{
    const char *type = strchr(target, '_') + 1;
    return arena_printf(a, "lapack_%s_ffi", type);
}

bool lapack_older_known(const char *target)
{
    struct arena tmp = { 0 };
    bool known = form_of(target) >= 0 && lapack_known(name_of_today(&tmp, target));
    arena_free(&tmp);
    return known;
}

static void map_pointers(const struct older *p, void *const *out, const void *const *in, void **to,
                         const void **from)
{
    for (uint32_t k = 0; k < p->today.nin; k++)
        from[k] = in[p->in[k]];
    for (uint32_t k = 0; k < p->today.nout; k++)
        to[k] = out[p->out[k]];
}

static void run_older(const struct step *s, void *const *out, const void *const *in)
{
    const struct older *p = s->p;
    void *to[6];
    const void *from[3];
    for (uint32_t k = 0; k < s->nout; k++)
        memset(out[k], 0, (size_t)s->lout[k].bytes); /* work space */
    map_pointers(p, out, in, to, from);
    p->today.fn(&p->today, to, from);
}

static void poison_older(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                         const void *const *in)
{
    const struct older *p = s->p;
    uint8_t *to[6];
    const uint8_t *shadow[3];
    const void *from[3];
    for (uint32_t k = 0; k < p->today.nin; k++) {
        shadow[k] = pin[p->in[k]];
        from[k] = in[p->in[k]];
    }
    for (uint32_t k = 0; k < p->today.nout; k++)
        to[k] = pout[p->out[k]];
    p->today.poison(&p->today, to, shadow, from);
}

/* What the flags say, in the words of today's backend_config. False: one is no constant. */
static bool spell_config(struct lowering *l, const char *flags, struct str *s)
{
    bool full = false;
    for (uint32_t k = 0; flags[k] != 'a'; k++) {
        const struct buf *b = l->planner->value.v[l->step->in[k]];
        if (flags[k] == '.')
            continue;
        if (!b)
            return false;
        int v = (int)read_index(l->step->lin[k].elem, b->data, 0);
        switch (flags[k]) {
        case 'u': str_addf(s, "uplo = %d, ", v ? 'L' : 'U'); break;
        case 's': str_addf(s, "side = %d, ", v ? 'L' : 'R'); break;
        case 't': str_addf(s, "trans_x = %d, ", v == 2 ? 'C' : v ? 'T' : 'N'); break;
        case 'd': str_addf(s, "diag = %d, ", v ? 'U' : 'N'); break;
        case 'f': full = v != 0; break;
        case 'v': str_addf(s, "mode = %d, ", !v ? 'N' : full ? 'A' : 'S'); break;
        case 'm': str_addf(s, "mode = %d, ", v); break;
        case 'l': str_addf(s, "compute_left = %d, ", v); break;
        case 'r': str_addf(s, "compute_right = %d, ", v); break;
        case 'i': str_addf(s, "low = %d, ", v); break;
        case 'h': str_addf(s, "high = %d, ", v); break;
        default: break;
        }
    }
    return true;
}

bool lower_lapack_older(struct lowering *l, const char *target)
{
    int form = form_of(target);
    const char *flags = forms[form].flags;
    struct step *s = l->step;
    uint32_t nflags = (uint32_t)strcspn(flags, "a"), n = (uint32_t)forms[form].narrays;
    int pairs = strchr("cz", strchr(target, '_')[1]) != NULL;
    struct older *p = ARENA_NEW(l->a, struct older);
    struct step *t = &p->today;
    struct str config = STR_IN(l->a);
    t->nout = (uint32_t)forms[form].nresults[pairs];
    if (s->nin != nflags + n || l->i->noperands != s->nin || s->nout <= (uint32_t)forms[form].results[pairs][t->nout - 1])
        return lower_missing(l, "this form");
    if (!spell_config(l, flags, &config))
        return lower_missing(l, "flags that are no constants");
    uint32_t *in = ARENA_ARRAY(l->a, uint32_t, n), *out = ARENA_ARRAY(l->a, uint32_t, t->nout);
    struct leaf *lin = ARENA_ARRAY(l->a, struct leaf, n), *lout = ARENA_ARRAY(l->a, struct leaf, t->nout);
    instr_id *operands = ARENA_ARRAY(l->a, instr_id, n);
    for (uint32_t k = 0; k < n; k++) {
        p->in[k] = (uint8_t)(nflags + (n == 3 ? (k + 1) % 3 : k)); /* a factor stands before trsm's matrices */
        in[k] = s->in[p->in[k]];
        lin[k] = s->lin[p->in[k]];
        operands[k] = l->i->operands[p->in[k]];
    }
    for (uint32_t k = 0; k < t->nout; k++) {
        p->out[k] = (uint8_t)forms[form].results[pairs][k];
        out[k] = s->out[p->out[k]];
        lout[k] = s->lout[p->out[k]];
    }
    t->instr = s->instr;
    t->nin = n;
    t->in = in;
    t->lin = lin;
    t->out = out;
    t->lout = lout;
    struct instr today = *l->i;
    struct lowering inner = *l;
    today.operands = operands;
    today.noperands = n;
    inner.i = &today;
    inner.step = t;
    inner.config = str_text(&config);
    if (!lower_lapack(&inner, name_of_today(l->a, target)))
        return false;
    s->fn = run_older;
    s->poison = poison_older;
    s->p = p;
    return true;
}
