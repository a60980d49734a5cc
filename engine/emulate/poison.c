/* Shadow bits: an element is poisoned when it depends on padding. Rules for elementwise steps; what
 * moves elements moves their poison the same way (beside each kernel). */
#include "emulate/internal.h"

#include <string.h>

void poison_or(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
               const void *const *in)
{
    (void)in;
    for (uint32_t o = 0; o < s->nout; o++)
        for (uint32_t k = 0; k < s->nin; k++) {
            if (!pin[k])
                continue;
            if (s->lin[k].count == s->lout[o].count) {
                for (int64_t i = 0; i < s->lout[o].count; i++)
                    pout[o][i] |= pin[k][i];
            } else if (s->lin[k].count == 1 && pin[k][0]) {
                memset(pout[o], 1, (size_t)s->lout[o].count);
            }
        }
}

/* Anything poisoned in: everything poisoned out. */
void poison_all(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                const void *const *in)
{
    (void)in;
    bool any = false;
    for (uint32_t k = 0; k < s->nin; k++)
        any |= pin[k] && memchr(pin[k], 1, (size_t)s->lin[k].count);
    for (uint32_t o = 0; any && o < s->nout; o++)
        memset(pout[o], 1, (size_t)s->lout[o].count);
}

/* Only the branch that is taken counts: this is how masks clean padding. */
void poison_select(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                   const void *const *in)
{
    const uint8_t *p = in[0];
    bool one = s->lin[0].count == 1;
    for (int64_t i = 0; i < s->lout[0].count; i++) {
        int64_t at = one ? 0 : i;
        const uint8_t *branch = pin[p[at] ? 1 : 2];
        pout[0][i] = (pin[0] && pin[0][at]) || (branch && branch[i]);
    }
}

void poison_clamp(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                  const void *const *in)
{
    poison_or(s, pout, pin, in);
}

/* `and` with a clean false and `or` with a clean true do not depend on the other side. */
static bool decides(enum op_kind op, const struct leaf *l, const void *p, int64_t i)
{
    const uint8_t *at = (const uint8_t *)p + i * l->elem.size;
    if (l->elem.ct == CT_PRED)
        return op == OP_AND ? at[0] == 0 : at[0] != 0;
    for (int k = 0; k < l->elem.size; k++)
        if (at[k] != (op == OP_AND ? 0 : 0xff))
            return false;
    return true;
}

void poison_logic(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                  const void *const *in)
{
    enum op_kind op = ((const struct ew *)s->p)->op;
    for (int64_t i = 0; i < s->lout[0].count; i++) {
        bool a = pin[0] && pin[0][i], b = pin[1] && pin[1][i];
        if (a && !b && decides(op, &s->lin[1], in[1], i))
            a = false;
        else if (b && !a && decides(op, &s->lin[0], in[0], i))
            b = false;
        pout[0][i] = a || b;
    }
}
