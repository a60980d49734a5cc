/* Gather and scatter, section 12: roles of their dimensions and what their strategies share. */
#ifndef GSPMD_PARTITION_GS_H
#define GSPMD_PARTITION_GS_H

#include "partition/ops.h"

/* Paired dims: of the operand, the indices, the output (gather) or updates (scatter). -1: none. */
struct gs_pairs {
    int n;
    int operand[OPS_MAX_RANK], indices[OPS_MAX_RANK], output[OPS_MAX_RANK];
};

/* The operation as the source has it, S-203. */
struct gs {
    struct spmd *s;
    instr_id source;
    bool scatter;
    int n;                   /* operands of a scatter; 1 */
    int operand_rank, indices_rank, output_rank;
    int vector_dim;          /* index_vector_dim; = indices_rank: none */
    int nmap;
    int map[OPS_MAX_RANK];   /* operand dim of each index component */
    uint64_t offset;         /* offset / update window dims of the output */
    uint64_t batching;       /* explicit batch dims of the operand */
    uint64_t dropped;        /* collapsed / inserted or batching dims of the operand */
    struct gs_pairs batch;   /* explicit batch dims */
    struct gs_pairs parallel;/* S-204 */
    struct gs_pairs all;     /* every indices dim but the vector's with its output dim */
    struct gs_pairs through; /* index pass-through dims */
    bool dry;                /* S-206: inner operations fall back at once */
};

/* One level of the recursion: values as the groups in force see them. */
struct gs_state {
    struct pval *operand; /* [n] */
    struct pval indices;
    struct pval *update;  /* [n]; scatter */
    shape_id base;        /* output; gather */
    sharding_id out;
    int64_t sizes[OPS_MAX_RANK]; /* slice sizes */
};

/* Results: one for gather, n for scatter. */
typedef bool (*gs_strategy)(struct gs *g, const struct gs_state *st, struct pval *res);

/* S-205: chooses among the strategies; always answers. */
void gs_run(struct gs *g, const struct gs_state *st, struct pval *res);
/* Fills the roles from the source; false: ranks beyond our limit. */
bool gs_read(struct gs *g, struct spmd *s, instr_id source, bool scatter, struct gs_state *st);

/* Operand pass-through dims at this level, with their output dims. */
struct gs_pairs gs_pass_through(const struct gs *g, const struct gs_state *st);
/* Operand dims that an index component names with slice size 1; how many. */
int gs_sliced(const struct gs *g, const struct gs_state *st, int *dims);
/* Dims of class to give up first when a value is grouped without being moved, S-214. */
int gs_operand_priority(const struct gs *g, const struct gs_state *st, int *dims);
int gs_indices_priority(const struct gs *g, int *dims);
int gs_output_priority(const struct gs *g, const struct gs_state *st, int *dims);

/* S-45 with the value brought there, and as the groups see it. */
struct pval gs_group_copies(struct gs *g, struct pval v, const struct sharding_group *ref,
                            int nprio, const int *prio, struct sharding_group *out);
struct pval gs_inside(struct gs *g, struct pval v, const struct sharding_group *grp);
int64_t gs_groups(const struct sharding_group *g);
/* The output's (or updates') value or target of this level: its base. */
shape_id gs_output_base(const struct gs *g, const struct gs_state *st);
/* sh of the indices put on the output dims that they become. */
sharding_id gs_output_of_indices(struct gs *g, sharding_id sh, const struct gs_pairs *pairs);
/* A vector of one number an index component, spread over the local indices. */
instr_id gs_component_vector(struct gs *g, instr_id like, const instr_id *components);
/* Indices in the padding of the listed dims name nothing (scatter). */
struct pval gs_mask_indices(struct gs *g, struct pval indices, int n, const int *dims);

/* ops: operands, indices, updates of a local scatter. Where one update meets operands that were cut, a
 * second one that falls outside keeps XLA's compilers from the wrong folding of bounded.c. The index
 * vector's dim if something was changed; -1. */
int bounded_scatter(struct gs *g, instr_id *ops);

bool gs_by_batch(struct gs *g, const struct gs_state *st, struct pval *res);
bool gs_by_parallel(struct gs *g, const struct gs_state *st, struct pval *res);
bool gs_by_operand(struct gs *g, const struct gs_state *st, struct pval *res);
bool gs_by_slices(struct gs *g, const struct gs_state *st, struct pval *res);
bool gs_by_indices(struct gs *g, const struct gs_state *st, struct pval *res);

/* S-204, over the source's graph. */
void gs_find_parallel(struct gs *g, const int64_t *sizes);

#endif
