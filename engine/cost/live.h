/* Between memory.c, live.c and kinds.c: values of computations and when they are there. */
#ifndef GSPMD_COST_LIVE_H
#define GSPMD_COST_LIVE_H

#include "cost/internal.h"

/* Whose storage a value is kept in. */
enum place {
    PLACE_OWN,      /* a buffer of its own */
    PLACE_ARGUMENT, /* of the computation: the caller's */
    PLACE_CONSTANT,
    PLACE_RESULT    /* the caller's storage of a result leaf: a loop's carry, an output */
};

enum { MOST_OVER = 4 };

struct value {
    int64_t bytes;       /* 0: nobody's, or kept in the storage of another value */
    instr_id instr;
    int32_t leaf;
    uint32_t made, last; /* positions; last == norder: until the end */
    uint8_t place;       /* enum place */
    uint8_t nover;       /* operands that die where this is made and whose storage it may take */
    int32_t over[MOST_OVER];
    int32_t number;      /* ARGUMENT: leaf number; RESULT: leaf of the result */
    int32_t heir;        /* value that goes on in its storage (a loop's carry); -1 */
};

/* One computation. */
struct life {
    comp_id comp;
    int64_t nargs, nresults; /* leaves */
    int64_t *arg_first;      /* [nparams] number of the first leaf of each parameter */
    int32_t *arg_value;      /* [nargs] value of an argument leaf, -1: never looked at */
    int32_t *passes;         /* [nresults] argument leaf that comes out unchanged; -1: none */
    int64_t nvalues;
    struct value *values;
    int64_t *time;           /* [norder + 1] when each kernel starts, on one clock for the whole program */
    int64_t first_placed;    /* number of its first value among those of the whole program */
};

struct liver {
    const struct cost_plan *p;
    const struct cost_options *o;
    struct arena *arena;     /* of the result */
    struct arena tmp;
    struct life *lives;      /* [ncomps + 1] */
    int64_t *start;          /* [ninstrs + 1] first leaf of a kernel in leaves */
    VEC(int32_t) leaves;     /* value of each leaf of each kernel of the computation at hand */
    const int32_t *alias;    /* entry: argument leaf whose storage each result leaf takes; -1: none */
    /* The whole program: place.c. */
    int64_t nplaced;
    struct placed *placed;
    int64_t clock;           /* ticks of the whole program */
};

/* A value with storage of its own (or of an output that takes no argument's), on the program's clock. */
struct placed {
    const struct value *v;
    comp_id comp;
    int64_t from, to;        /* ticks, both included */
    int32_t host;            /* output allocation that it lies in; -1: the heap */
    bool output;
    bool gave;               /* its storage was taken over at `to` */
    int64_t over[MOST_OVER]; /* numbers of values that it may take over; -1 */
    uint8_t nover;
};

/* Fills lives[c]; those of what it calls are there already. */
void life_of(struct liver *l, comp_id c);
/* Puts all values on one clock. */
void place_values(struct liver *l);
/* Walks the clock. outputs: count results too. hosted: leave out what lies in output allocations. Most
 * bytes at once; *at: when. curve: [norder of the entry] or NULL. */
int64_t place_sweep(struct liver *l, bool outputs, bool hosted, int64_t *at, int64_t *curve);
/* Lets values lie in output allocations that are not in use yet, as XLA's buffer assignment does. */
void place_hosts(struct liver *l);
enum memory_kind buffer_kind(const struct cost_plan *p, const struct buffer *b,
                             const struct map *weights);
/* Kind of every entry parameter, and the local shapes of weights as a set for buffer_kind. */
void parameter_kinds(const struct cost_plan *p, struct arena *a, uint8_t *kinds, struct map *weights);

#endif
