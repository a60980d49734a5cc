/* Counting what a permute between two tilings moves. */
#ifndef GSPMD_PARTITION_LIST_H
#define GSPMD_PARTITION_LIST_H

#include "partition/partition.h"

/* Cells whose device differs in a and b (equal dims). Not one step a device where both are digit
 * orders that have common digits. */
int64_t permute_moving(struct shardings *t, struct tiling a, struct tiling b);

#endif
