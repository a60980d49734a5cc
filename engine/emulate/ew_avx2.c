/* Elementwise kernels with vectors of 256 bits. */
#include "emulate/ew.h"

#ifdef EW_X86
#pragma GCC optimize("O3")
#pragma GCC target("avx2")

#include "emulate/math_f32.h"

#define EW_SET ew_set_avx2
#include "emulate/ew_set.h"
#endif
