/* <complex.h> with CMPLX for every compiler: glibc keeps it from clang, which says that it is
 * gcc 4.2. Not x + y * I: that loses signed zeros. */
#ifndef GSPMD_EMULATE_CPLX_H
#define GSPMD_EMULATE_CPLX_H

#include <complex.h>

#ifndef CMPLX
#define CMPLX(x, y) __builtin_complex((double)(x), (double)(y))
#endif

#endif
