/* Functions of a shard's ordinal, and exchanges of halos between the shards of one dimension.
 * Sections 7.1 to 7.4. */
#ifndef GSPMD_PARTITION_HALO_H
#define GSPMD_PARTITION_HALO_H

#include "partition/ops.h"

/* m*i + o + sum of c * ((tm*i + to) / td), truncating: closed under what S-93 needs, and a maximum
 * over any number of shards costs no more than the divisors (S-95). */
struct ofs {
    int64_t m, o;
    int n;
    struct ofs_term {
        int64_t c, m, o, d;
    } t[6];
};

struct ofs ofs_const(int64_t o);
struct ofs ofs_mad(int64_t m, int64_t o, int64_t d); /* S-92 */
struct ofs ofs_add(struct ofs a, struct ofs b);
struct ofs ofs_sub(struct ofs a, struct ofs b);
struct ofs ofs_scale(struct ofs a, int64_t c);
int64_t ofs_at(const struct ofs *f, int64_t i);
int64_t ofs_max(const struct ofs *f, int64_t from, int64_t to); /* over [from, to), not empty */
bool ofs_is_const(const struct ofs *f);
instr_id ofs_node(struct spmd *s, const struct ofs *f, instr_id ordinal); /* S-94 */

/* The shards that take part along one dimension: ordinals 0 .. n - 1 of sh's axis, or, with a gap,
 * those below `from` and those from `from + gap` on (S-103), numbered without the gap. */
struct ring {
    sharding_id sh;
    int axis;
    int64_t n;
    int64_t from, gap;
    uint64_t key; /* of the windowed input that this is part of: exchanges of equal ones are shared */
};

/* x of the shard `distance` places before this one (behind, when negative): S-96's permutes. none:
 * cannot be said without a list of devices that is too long. */
instr_id ring_shift(struct spmd *s, instr_id x, const struct ring *r, int64_t distance);
/* Ordinal of this device in the ring. */
instr_id ring_ordinal(struct spmd *s, const struct ring *r);

/* S-96; none: it fails. *size: elements along dim. */
instr_id halo_concat(struct spmd *s, instr_id x, const struct ofs *left, const struct ofs *right,
                     int dim, const struct ring *r);

struct halo_spec {
    int dim;
    int64_t base;        /* size that the ring's shards cover */
    struct ofs left, right;
    int64_t low;         /* E: explicit padding in front of the whole dimension */
    int64_t padded;      /* its size with all padding */
    int64_t want;        /* W */
    int64_t shard;       /* size of a shard before a part of it was cut off (S-103); 0: as it is */
    struct ofs offset;   /* start of a shard's piece in the padded dimension */
    instr_id pad;        /* scalar */
    bool mask, force;
};
/* S-98; none: it fails. */
instr_id halo_valid(struct spmd *s, instr_id x, const struct halo_spec *h, const struct ring *r);

/* S-97 for h's dimension; none: the ring has too many devices for lists. */
instr_id ring_compact(struct spmd *s, instr_id x, const struct halo_spec *h, const struct ring *r);
/* Pairs of `list` (n of them: from, to as real ordinals along the axis) in every other position of
 * the tile assignment. false: too many. */
bool ring_list_pairs(struct spmd *s, const struct ring *r, int64_t n, const int64_t *list,
                     struct permute_pairs *out);
int64_t ring_real(const struct ring *r, int64_t i);
instr_id slice_dim(struct spmd *s, instr_id x, int dim, int64_t a, int64_t b);
instr_id pad_dim(struct spmd *s, instr_id x, instr_id value, int dim, int64_t low, int64_t high);
instr_id dynamic_slice_dim(struct spmd *s, instr_id x, int dim, instr_id start, int64_t size);

/* Largest number of devices for which lists of pairs and tables are made. */
enum { HALO_LIST_LIMIT = 65536 };

#endif
