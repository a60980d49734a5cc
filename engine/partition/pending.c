/* Operations of ops.def's partition column that have no rule yet take the default action (S-127):
 * replicate, compute, slice. A rule that exists elsewhere takes the place of the weak one here. */
#include "partition/internal.h"

#define PENDING(name)                                                                              \
    __attribute__((weak)) void partition_##name(struct spmd *s, instr_id source)                   \
    {                                                                                              \
        partition_default(s, source, "no rule for this operation yet (S-127)");                    \
    }

PENDING(constant)
PENDING(iota)
PENDING(elementwise)
PENDING(bitcast_convert)
PENDING(map)
PENDING(broadcast)
PENDING(reshape)
PENDING(transpose)
PENDING(reverse)
PENDING(concatenate)
PENDING(pad)
PENDING(slice)
PENDING(dynamic_slice)
PENDING(dynamic_update_slice)
PENDING(gather)
PENDING(scatter)
PENDING(dot)
PENDING(convolution)
PENDING(reduce)
PENDING(reduce_window)
PENDING(select_and_scatter)
PENDING(sort)
PENDING(cholesky)
PENDING(triangular_solve)
PENDING(fft)
PENDING(rng)
PENDING(rng_bit_generator)
