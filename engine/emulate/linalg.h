/* Between linalg.c and lapack.c: elements as complex doubles, and mixtures in ring mode. */
#ifndef GSPMD_EMULATE_LINALG_H
#define GSPMD_EMULATE_LINALG_H

#include <string.h>

#include "emulate/cplx.h"
#include "emulate/lower.h"

typedef double complex cplx;

static inline bool is_ring(struct elem e)
{
    return e.ct == CT_RING || e.ct == CT_RINGC;
}

static inline cplx load(struct elem e, const void *p, int64_t i)
{
    const char *at = (const char *)p + i * e.size;
    if (dtype_kind(e.t) == DTYPE_KIND_COMPLEX) {
        enum dtype part = e.t == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
        return CMPLX(real_load(part, at), real_load(part, at + dtype_bytes(part)));
    }
    return CMPLX(real_load(e.t, at), 0);
}

static inline void store(struct elem e, void *p, int64_t i, cplx v)
{
    char *at = (char *)p + i * e.size;
    if (dtype_kind(e.t) == DTYPE_KIND_COMPLEX) {
        enum dtype part = e.t == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
        real_store(part, creal(v), at);
        real_store(part, cimag(v), at + dtype_bytes(part));
    } else {
        real_store(e.t, creal(v), at);
    }
}

static inline void store_mixed(struct elem e, void *p, int64_t i, uint64_t a, uint64_t b)
{
    int64_t v[2] = { ring_mix(0x6c61, a, b), ring_mix(0x6c62, a, b) };
    memcpy((char *)p + i * e.size, v, (size_t)e.size);
}

#endif
