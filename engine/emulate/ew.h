/* Between the files of elementwise kernels. */
#ifndef GSPMD_EMULATE_EW_H
#define GSPMD_EMULATE_EW_H

#include "emulate/internal.h"

/* How f32 becomes a type of eight bits or fewer: see narrow_byte. */
struct byte_codes {
    int mantissa, sign_at;
    uint32_t rebias, tiny;   /* what an exponent's field is lessened by; f32 bits of the smallest normal number */
    float units;             /* added, it leaves multiples of the smallest subnormal one in the last bits */
    uint32_t most, over, nan; /* code of the largest finite number; of what is larger; of NaN */
    uint32_t over_sign, nan_sign, zero_sign; /* all ones: these have a sign; 0: they do not */
};

/* Kernels built for one width of vectors; all sets give the same bits. */
struct ew_set {
    ew_fn (*kernel)(enum op_kind op, enum ctype ct);
    fold_fn (*fold)(enum op_kind op, enum ctype ct);
    rows_fn (*rows)(enum op_kind op, enum ctype ct);
    ew_fn (*half)(enum op_kind op, enum dtype t); /* bf16 and f16; NULL: strip by strip */
    /* The same on values that are kept as f32, rounded after each operation; OP_CONVERT: from f32. */
    ew_fn (*kept)(enum op_kind op, enum dtype t);
    ew_fn (*select)(int size);
    ew_fn (*convert)(enum dtype from, enum dtype to);
    void (*widen_bf16)(const uint16_t *in, float *out, int64_t n);
    void (*narrow_bf16)(const float *in, uint16_t *out, int64_t n);
    void (*cut_bf16)(const float *in, uint16_t *out, int64_t n); /* of values that are bf16 */
    void (*widen_f16)(const uint16_t *in, float *out, int64_t n);
    void (*narrow_byte)(const struct byte_codes *c, const float *in, uint8_t *out, int64_t n);
    void (*narrow_f16)(const float *in, uint16_t *out, int64_t n);
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EW_X86
#endif
enum { EW_LEVELS = 3 };
extern const struct ew_set ew_set_plain, ew_set_avx2, ew_set_avx512;
/* 0: plain, 1: 256 bits, 2: 512. NULL: not built, or not for this machine. */
const struct ew_set *ew_set_at(int level);
const struct ew_set *ew_set_best(void);

/* e on operands of bf16 or f16 that are kept as f32, its result likewise; others as they are. NULL: none. */
const struct ew *ew_kept(struct arena *a, const struct ew *e);
bool elem_is_half(struct elem e); /* bf16, f16 */
/* Between the two forms. */
const struct ew *ew_keep(struct arena *a, struct elem half);
const struct ew *ew_unkeep(struct arena *a, struct elem half);
ew_fn ew_complex(enum op_kind op, enum ctype ct);
int compare_direction(const struct module *m, const struct instr *i); /* -1: unknown word */

#endif
