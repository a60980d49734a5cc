/* partitioner=best: from one sharding to another by the path of fewest bytes, then fewest collectives.
 *
 * The devices are cut into *atoms*: digits of the device number, fine enough that both shardings are
 * lists of atoms. A state says where every atom stands: on which dimension and how far from the major
 * end, among the copies, or among those over which a sum is still owed. Four kinds of steps lead on:
 *
 *     slice     an atom of the copies becomes the minor end of a dimension       nothing is sent
 *     gather    the minor end of a dimension joins the copies                    (g - 1) L
 *     exchange  minor ends of dimensions move to those of others, all at once    (g - 1) / g L
 *     permute   shards move as they are: any order of atoms of equal radixes     L
 *     scatter, reduce: a sum that is owed is made, kept in pieces or whole       (g-1)/g L, twice that
 *
 * L: bytes of a shard at that moment, g: devices of a group; as collectives_list counts. States hold
 * no list of devices, so that a plan costs the same for 8 and for 1,048,576.
 *
 * A path never needs two permutes: whatever lies between two can be done with the atoms renamed. So
 * there are two searches: one without a permute over atoms by name, one with exactly one permute,
 * for which atoms of equal radix are alike.
 */
#ifndef GSPMD_PARTITION_BEST_H
#define GSPMD_PARTITION_BEST_H

#include "sharding/sharding.h"

enum { BEST_ATOMS = 16, BEST_DIMS = 8, BEST_STEPS = 24 };
enum { BEST_COPIES = 0xff, BEST_OWED = 0xfe }; /* places that are no dimension */

enum best_kind { BEST_SLICE, BEST_GATHER, BEST_EXCHANGE, BEST_PERMUTE, BEST_SCATTER, BEST_REDUCE };

/* at[a]: dimension << 4 | position from the major end, or a place above. size: a tile, in elements of
 * the dimension. */
struct best_state {
    uint8_t at[BEST_ATOMS];
    int64_t size[BEST_DIMS];
};

struct best_step {
    enum best_kind kind;
    int64_t bytes;
    struct best_state before, after;
    int system; /* whose atoms: 1 behind a permute. A permute's `after` is of system 1 */
    int nmoved;
    uint8_t moved[BEST_ATOMS]; /* atoms that move, in the order of the members of a group */
};

struct best_plan {
    int64_t bytes, collectives;
    int64_t tried;        /* states looked at: a counter for tests */
    bool complete;        /* false: the search was cut short */
    int ndims;            /* dimensions that take part */
    int dim[BEST_DIMS];   /* which of the array's */
    int natoms[2];
    struct digit atom[2][BEST_ATOMS];
    int nsteps;
    struct best_step steps[BEST_STEPS];
};

struct best_problem {
    struct shardings *t;
    int rank;
    const int64_t *dims; /* of the whole array */
    int64_t bytes;       /* of an element */
    int64_t ndevices;
    sharding_id from, to;
    int nowed;           /* a sum is owed over these digits, which `from` counts among its copies */
    const struct digit *owed;
    int64_t limit_bytes, limit_collectives; /* only a better plan is wanted; limit_bytes < 0: any */
};

/* false: there is no (better) plan, or the shardings are not lists of digits. */
bool best_plan(const struct best_problem *p, struct best_plan *out);

/* "all-to-all, then all-gather". */
void best_plan_words(const struct best_plan *p, struct str *out);
const char *best_kind_name(enum best_kind k);

/* ---- between best_atoms.c and best_search.c ------------------------------------------------------- */

struct best_setup {
    int ndims, dim[BEST_DIMS];
    int64_t whole[BEST_DIMS]; /* size of the dimension */
    int64_t unit;             /* bytes of one element of the dims that take part, all others whole */
    int natoms[2];
    struct digit atom[2][BEST_ATOMS];
    bool mixed;
    bool common; /* both states below are of the same atoms, the flags of which agree */
    struct best_state from, to;
    bool use[BEST_ATOMS]; /* copies on both ends: may be used on the way all the same */
};
/* variant: how digits of several primes are cut. 0 and 1: the least at the minor, at the major end;
 * 2 and 3: one way in `from`, the other in `to` (for a permute). Matters where `mixed` is set. */
bool best_setup_make(const struct best_problem *p, int variant, struct best_setup *out);

#endif
