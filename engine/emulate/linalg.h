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

/* The number beside a key in a custom call's backend_config, a letter mostly; 0: not there. lapack.c */
int64_t lapack_letter(const struct lowering *l, const char *key);
/* A call on a batch of matrices: how many; which operand all of them share, and which result numbers rows from 1
 * (UINT32_MAX: none). */
struct lapack_batch {
    int64_t n;
    uint32_t shared, pivots;
};
/* Ring mode: every number of entry q's results depends on all of its operands, and on h; integers say that all went
 * well. */
void lapack_mix(const struct step *s, const struct lapack_batch *b, int64_t q, uint64_t h, void *const *out,
                const void *const *in);
/* An entry with a poisoned element is poisoned as a whole. */
void lapack_poison(const struct step *s, const struct lapack_batch *b, uint8_t *const *pout, const uint8_t *const *pin);
/* lapack_blas.c: the routines that OpenBLAS brings. */
bool lapack_call_known(const char *target);
bool lower_lapack_call(struct lowering *l, const char *target);
/* lapack_older.c: names and forms of earlier days. */
bool lapack_older_known(const char *target);
bool lower_lapack_older(struct lowering *l, const char *target);
/* dot.c: a function of OpenBLAS by name, NULL: none; callers are counted, as products are. */
void *blas_symbol(const char *name);
void blas_enter(void);
void blas_leave(void);

static inline void store_mixed(struct elem e, void *p, int64_t i, uint64_t a, uint64_t b)
{
    int64_t v[2] = { ring_mix(0x6c61, a, b), ring_mix(0x6c62, a, b) };
    memcpy((char *)p + i * e.size, v, (size_t)e.size);
}

#endif
