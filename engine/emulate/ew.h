/* Between the files of elementwise kernels. */
#ifndef GSPMD_EMULATE_EW_H
#define GSPMD_EMULATE_EW_H

#include "emulate/internal.h"

/* Kernels built for one width of vectors; all sets give the same bits. */
struct ew_set {
    ew_fn (*kernel)(enum op_kind op, enum ctype ct);
    fold_fn (*fold)(enum op_kind op, enum ctype ct);
    rows_fn (*rows)(enum op_kind op, enum ctype ct);
    ew_fn (*half)(enum op_kind op, enum dtype t); /* bf16 and f16; NULL: strip by strip */
    ew_fn (*select)(int size);
    ew_fn (*convert)(enum dtype from, enum dtype to);
    void (*widen_bf16)(const uint16_t *in, float *out, int64_t n);
    void (*narrow_bf16)(const float *in, uint16_t *out, int64_t n);
    void (*widen_f16)(const uint16_t *in, float *out, int64_t n);
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

ew_fn ew_complex(enum op_kind op, enum ctype ct);
int compare_direction(const struct module *m, const struct instr *i); /* -1: unknown word */

#endif
