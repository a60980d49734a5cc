/* Counting what a permute between two tilings moves. */
#ifndef GSPMD_PARTITION_LIST_H
#define GSPMD_PARTITION_LIST_H

#include "partition/partition.h"

/* What one device sends for one run of a collective, as collectives_list counts it. */
int64_t collective_bytes(const struct module *m, int64_t num_partitions, instr_id id);

/* Cells whose device differs in a and b (equal dims). Not one step a device where both are digit
 * orders that have common digits. */
int64_t permute_moving(struct shardings *t, struct tiling a, struct tiling b);

#endif
