/* Ring mode: every float is a 64-bit wrapping integer (DESIGN.md section 5).
 *
 * Sums and products are exact and associative there, so two programs that compute the same thing in
 * another order agree bit for bit. What is no ring operation becomes a fixed function of the bits
 * of its operands that mixes them well: equal operands give equal results, different ones (but for
 * 64 bits of chance) different results.
 */
#include "emulate/internal.h"

#include <math.h>
#include <string.h>

#include "base/map.h"

int64_t ring_mix(uint64_t tag, uint64_t a, uint64_t b)
{
    uint64_t h = hash_u64(a + 0x9e3779b97f4a7c15ULL * (tag + 1));
    h = hash_u64(h ^ (b + 0xd1b54a32d192ed03ULL));
    return (int64_t)(h + (h == 0));
}

/* 0 and 1 are the ring's own; the identities of max and min are its ends; the rest is mixed. */
int64_t ring_from_double(enum dtype t, double v)
{
    if (v == 0)
        return 0;
    if (v == 1)
        return 1;
    double top = dtype_kind(t) == DTYPE_KIND_FLOAT ? real_max(t) : HUGE_VAL;
    if (v >= top)
        return INT64_MAX;
    if (v <= -top)
        return INT64_MIN;
    uint64_t bits;
    if (isnan(v))
        v = (double)NAN;
    memcpy(&bits, &v, 8);
    return ring_mix(0x636f6e7374, bits, 0);
}

void ring_from_floats(enum dtype t, const void *in, int64_t *out, int64_t n)
{
    if (dtype_kind(t) == DTYPE_KIND_COMPLEX) {
        enum dtype part = t == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
        ring_from_floats(part, in, out, 2 * n);
        return;
    }
    int size = dtype_bytes(t);
    for (int64_t i = 0; i < n; i++)
        out[i] = ring_from_double(t, real_load(t, (const char *)in + i * size));
}

struct elem elem_of(enum dtype t, enum emu_mode mode)
{
    static const uint8_t plain[DTYPE_COUNT] = {
        [DTYPE_PRED] = CT_PRED, [DTYPE_S2] = CT_S2,   [DTYPE_S4] = CT_S4,   [DTYPE_S8] = CT_S8,
        [DTYPE_S16] = CT_S16,   [DTYPE_S32] = CT_S32, [DTYPE_S64] = CT_S64, [DTYPE_U2] = CT_U2,
        [DTYPE_U4] = CT_U4,     [DTYPE_U8] = CT_U8,   [DTYPE_U16] = CT_U16, [DTYPE_U32] = CT_U32,
        [DTYPE_U64] = CT_U64,   [DTYPE_F32] = CT_F32, [DTYPE_F64] = CT_F64, [DTYPE_C64] = CT_C64,
        [DTYPE_C128] = CT_C128,
    };
    enum dtype_kind k = dtype_kind(t);
    if (k == DTYPE_KIND_NONE)
        return (struct elem){ CT_TOKEN, 1, t };
    if (k == DTYPE_KIND_FLOAT && mode == EMU_RING)
        return (struct elem){ CT_RING, 8, t };
    if (k == DTYPE_KIND_COMPLEX && mode == EMU_RING)
        return (struct elem){ CT_RINGC, 16, t };
    if (k == DTYPE_KIND_FLOAT && t != DTYPE_F32 && t != DTYPE_F64)
        return (struct elem){ CT_SMALL, dtype_bytes(t), t };
    return (struct elem){ (enum ctype)plain[t], dtype_bytes(t), t };
}
