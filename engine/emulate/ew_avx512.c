/* Elementwise kernels with vectors of 512 bits. */
#include "emulate/ew.h"

#ifdef EW_X86
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")

#include "emulate/math_f32.h"

#define EW_SET ew_set_avx512
#include "emulate/ew_set.h"
#endif
