/* Elementwise kernels with what every machine has, and the choice among the sets that were built. */
/* The vectorizer pays here, whatever the build's own level is. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "emulate/ew.h"

#include "emulate/math_f32.h"

#define EW_SET ew_set_plain
#include "emulate/ew_set.h"

const struct ew_set *ew_set_at(int level)
{
#ifdef EW_X86
    if (level == 2)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
                   ? &ew_set_avx512
                   : NULL;
    if (level == 1)
        return __builtin_cpu_supports("avx2") ? &ew_set_avx2 : NULL;
#endif
    return level == 0 ? &ew_set_plain : NULL;
}

static const struct ew_set *chosen;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    for (int level = EW_LEVELS - 1; level >= 0 && !chosen; level--)
        chosen = ew_set_at(level);
}

const struct ew_set *ew_set_best(void)
{
    pthread_once(&chosen_once, choose);
    return chosen;
}

ew_fn ew_arith(enum op_kind op, enum ctype ct)
{
    return ew_set_best()->kernel(op, ct);
}

fold_fn fold_kernel(enum op_kind op, enum ctype ct)
{
    return ew_set_best()->fold(op, ct);
}

rows_fn fold_rows_kernel(enum op_kind op, enum ctype ct)
{
    return ew_set_best()->rows(op, ct);
}
