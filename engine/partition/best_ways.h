/* Ways that partitioner=best tries for one instruction. */
#ifndef GSPMD_PARTITION_BEST_WAYS_H
#define GSPMD_PARTITION_BEST_WAYS_H

#include "partition/best_emit.h"

best_way best_way_of(enum op_kind op); /* NULL: XLA's is the only one */
/* Runs `usual`, then the ways; the cheapest becomes the instruction's value. true: one of the ways. */
bool best_handler(struct spmd *s, instr_id source, best_way way,
                  void (*usual)(struct spmd *, instr_id));

#endif
