/* Chains of elementwise steps, run as one step over tiles that stay in the cache.
 *
 * A group is a set of elementwise steps over arrays of one number of elements, tied by the values that
 * they hand on. Its kernels are the same as without fusion, called on a tile of each array in turn: so
 * every value is rounded as ever, and memory sees one read of each operand and one write of each result.
 * Where some operations on bf16 or f16 follow one another, their tiles are f32, rounded after each operation.
 * What leaves the group is written once, however many read it; nothing is computed twice but broadcasts,
 * which are spread tile by tile wherever they are read (and are no step at all where every reader does).
 *
 * A group runs where its last member stood. It takes no more members once a step outside of it reads one
 * of its values, so no step waits for what it feeds; loops, calls and branches close every group, lest
 * operands live longer for it. Padding's shadow bits go the old way: with a shadowed operand the members
 * run one by one.
 */
#include <string.h>

#include "emulate/ew.h"
#include "emulate/lower.h"
#include "emulate/plan.h"

enum {
    SCRATCH = 24 << 10, /* bytes of a group's tiles: they share the first-level cache with operands */
    MOST_LANES = 1024,
    LEAST_LANES = 64,
    MOST_MEMBERS = 96,
    MOST_REGS = 256
};

#if defined(__GNUC__)
#define PREFETCH(p) __builtin_prefetch(p)
#else
#define PREFETCH(p) (void)(p)
#endif

enum reg_kind {
    REG_OPERAND, /* a tile of an operand */
    REG_SPREAD,  /* a tile of a broadcast: element i is operand element (i / inner) % n */
    REG_RESULT,  /* a tile of a result */
    REG_TILE     /* scratch */
};

struct reg {
    enum reg_kind kind;
    uint32_t index; /* of the operand or result */
    int size;       /* of an element */
    int64_t offset; /* in the scratch, lanes of one byte: times the tile's length */
    int64_t inner, n;
    bool once;      /* the same in every tile */
    bool kept;      /* a 16-bit float as f32 */
    bool stays;     /* a tile of its own: it may be the same in every turn */
};

struct fused_op {
    const struct ew *ew;
    int nin;
    uint32_t in[3], out; /* registers */
    uint8_t inplace;     /* bit k: the result may lie where operand k lies */
    bool once;           /* its operand is the same in every tile */
};

struct fused {
    uint32_t nops, nregs, nsteps, nmembers;
    const struct fused_op *ops;
    const struct reg *regs;
    int64_t count, tile;
    int8_t *reuse; /* [nout] the operand whose memory the result takes if nobody shares it; -1: none */
    const struct step *steps; /* the members one by one, for operands with shadow bits */
};

/* ---- running ------------------------------------------------------------------------------------
 */

static void spread_tile(const struct reg *r, char *to, const char *from, int64_t at, int64_t n)
{
    while (n > 0) {
        int64_t i = at / r->inner % r->n, run = min_i64(n, r->inner - at % r->inner);
        if (r->inner == 1) {
            run = min_i64(n, r->n - i);
            memcpy(to, from + i * r->size, (size_t)(run * r->size));
        } else {
            fill_elements(to, from + i * r->size, r->size, run);
        }
        to += run * r->size;
        at += run;
        n -= run;
    }
}

/* Asks for a part of the next tile's operands: a stream that stops at every tile is not foreseen. */
static void fetch_ahead(const struct fused *f, const void *const *in, int64_t at, uint32_t part)
{
    int64_t n = min_i64(f->tile, f->count - at);
    if (n <= 0)
        return;
    for (uint32_t k = 0; k < f->nregs; k++) {
        const struct reg *r = &f->regs[k];
        if (r->kind != REG_OPERAND)
            continue;
        int64_t bytes = n * r->size, to = bytes * (part + 1) / f->nops;
        const char *p = (const char *)in[r->index] + at * r->size;
        for (int64_t b = bytes * part / f->nops; b < to; b += 64)
            PREFETCH(p + b);
    }
}

static void run_tiles(const struct fused *f, void *const *out, const void *const *in)
{
    _Alignas(64) char scratch[SCRATCH];
    char *reg[MOST_REGS];
    for (int64_t at = 0; at < f->count; at += f->tile) {
        int64_t n = min_i64(f->tile, f->count - at);
        for (uint32_t k = 0; k < f->nregs; k++) {
            const struct reg *r = &f->regs[k];
            char *tile = scratch + r->offset * f->tile;
            switch (r->kind) {
            case REG_OPERAND: memcpy(&tile, &in[r->index], sizeof tile); break; /* read only */
            case REG_RESULT: tile = out[r->index]; break;
            case REG_TILE: break;
            case REG_SPREAD:
                if (!r->once || at == 0)
                    spread_tile(r, tile, in[r->index], at, r->once ? f->tile : n);
                break;
            }
            reg[k] = r->kind == REG_OPERAND || r->kind == REG_RESULT ? tile + at * r->size : tile;
        }
        for (uint32_t k = 0; k < f->nops; k++) {
            const struct fused_op *o = &f->ops[k];
            fetch_ahead(f, in, at + f->tile, k);
            if (o->once && at > 0)
                continue;
            const void *args[3] = { reg[o->in[0]], reg[o->in[1]], reg[o->in[2]] };
            o->ew->fn(o->ew, reg[o->out], args, o->once ? f->tile : n);
        }
    }
}

static void run_members(const struct plan *p, struct pool *pool, struct buf **slots,
                        const struct fused *f)
{
    for (uint32_t k = 0; k < f->nsteps; k++) {
        step_run(p, pool, slots, &f->steps[k]);
        step_release(slots, pool, &f->steps[k]);
    }
}

void fused_run(const struct plan *p, struct pool *pool, struct buf **slots, const struct step *s)
{
    const struct fused *f = s->fused;
    const void *in[MOST_REGS];
    void *out[MOST_REGS];
    for (uint32_t k = 0; k < s->nin; k++) {
        const struct buf *b = slots[s->in[k]];
        if (b->poison) {
            run_members(p, pool, slots, f);
            return;
        }
        in[k] = b->data;
    }
    for (uint32_t k = 0; k < s->nout; k++) {
        struct buf *b = f->reuse[k] >= 0 ? slots[s->in[f->reuse[k]]] : NULL;
        if (b && buf_alone(b))
            slots[s->in[f->reuse[k]]] = NULL;
        else
            b = buf_new(pool, s->lout[k].bytes);
        slots[s->out[k]] = b;
        out[k] = b->data;
    }
    run_tiles(f, out, in);
}

uint32_t fused_members(const struct fused *f)
{
    return f->nmembers;
}

/* ---- which steps go together --------------------------------------------------------------------
 */

struct fusing {
    struct planner *p;
    struct arena *a; /* for the pass */
    uint32_t n, slot0, nslots;
    struct step *steps;
    uint32_t *maker;  /* [nslots] step + 1; 0: a parameter or a constant */
    uint32_t *reads;  /* [nslots] by steps and as results of the computation */
    uint32_t *parent; /* [n] union-find over steps */
    uint32_t *size;   /* [n] members of a group, at its head, which is its last member */
    bool *closed;     /* [n] at the head */
    uint32_t *first, *next; /* [n] members of a group in order; n: no more */
    uint32_t *spread; /* [nslots] reads by members of groups, which spread the value themselves */
};

static uint32_t head(struct fusing *f, uint32_t k)
{
    while (f->parent[k] != k)
        k = f->parent[k] = f->parent[f->parent[k]];
    return k;
}

static bool fusible(const struct step *s)
{
    return s->kind == STEP_KERNEL && s->nout == 1 && s->nin <= 3 && s->nin > 0 && lower_is_ew(s);
}

/* The step, by its place, whose result the slot is; n: none of this computation. */
static uint32_t maker_of(const struct fusing *f, uint32_t slot)
{
    uint32_t k = slot >= f->slot0 ? f->maker[slot - f->slot0] : 0;
    return k ? k - 1 : f->n;
}

static const struct spread *spread_of(const struct fusing *f, uint32_t slot)
{
    return f->p->spread.v[slot];
}

static void close_group(struct fusing *f, uint32_t slot)
{
    uint32_t k = maker_of(f, slot);
    if (k < f->n)
        f->closed[head(f, k)] = true;
}

static void join(struct fusing *f, uint32_t k, uint32_t with)
{
    uint32_t a = head(f, k), b = head(f, with);
    if (a == b)
        return;
    f->parent[b] = a; /* a is the later one */
    f->size[a] += f->size[b];
}

static bool may_join(struct fusing *f, uint32_t k, uint32_t slot)
{
    uint32_t m = maker_of(f, slot);
    if (m == f->n || !fusible(&f->steps[m]) ||
        f->steps[m].lout[0].count != f->steps[k].lout[0].count)
        return false;
    uint32_t h = head(f, m);
    return !f->closed[h] && f->size[h] + f->size[head(f, k)] <= MOST_MEMBERS;
}

/* Operands that are too small for the array: scalars beside a clamp or a select. */
static bool is_single(const struct step *s, uint32_t k)
{
    return s->lin[k].count == 1 && s->lout[0].count != 1;
}

static void group_steps(struct fusing *f)
{
    for (uint32_t k = 0; k < f->n; k++) {
        struct step *s = &f->steps[k];
        bool member = fusible(s);
        f->parent[k] = k;
        f->size[k] = 1;
        f->closed[k] = !member;
        for (uint32_t j = 0; j < s->nin; j++) {
            if (member && !is_single(s, j) && may_join(f, k, s->in[j]))
                join(f, k, maker_of(f, s->in[j]));
        }
        for (uint32_t j = 0; j < s->nin; j++) {
            uint32_t m = maker_of(f, s->in[j]);
            if (m < f->n && head(f, m) != head(f, k))
                close_group(f, s->in[j]);
        }
        if (s->kind == STEP_WHILE || s->kind == STEP_CALL || s->kind == STEP_CONDITIONAL)
            for (uint32_t j = 0; j < k; j++)
                f->closed[head(f, j)] = true;
    }
}

/* A lone step is worth a group if it saves a broadcast. */
static bool is_group(struct fusing *f, uint32_t h)
{
    const struct step *s = &f->steps[h];
    if (!fusible(s))
        return false;
    if (f->size[h] > 1)
        return true;
    for (uint32_t j = 0; j < s->nin; j++)
        if (spread_of(f, s->in[j]) && maker_of(f, s->in[j]) < f->n)
            return true;
    return false;
}

/* ---- building one -------------------------------------------------------------------------------
 */

struct building {
    struct fusing *f;
    struct arena *keep; /* the plan's */
    uint32_t h;
    VEC(uint32_t) members;
    VEC(uint32_t) in, out; /* slots */
    VEC(struct leaf) lin, lout;
    VEC(struct reg) regs;
    VEC(uint32_t) reg_slot; /* what a register holds */
    VEC(struct fused_op) ops;
    VEC(struct step) steps;
    bool keeps; /* 16-bit floats as f32 */
};

static uint32_t operand_index(struct building *b, uint32_t slot, const struct leaf *leaf)
{
    for (int64_t k = 0; k < b->in.n; k++)
        if (b->in.v[k] == slot)
            return (uint32_t)k;
    vec_push(b->f->a, &b->in, slot);
    vec_push(b->f->a, &b->lin, *leaf);
    return (uint32_t)b->in.n - 1;
}

static uint32_t new_reg(struct building *b, struct reg r, uint32_t slot)
{
    vec_push(b->f->a, &b->regs, r);
    vec_push(b->f->a, &b->reg_slot, slot);
    return (uint32_t)b->regs.n - 1;
}

/* The members one by one spread a broadcast that is no step of its own any more. */
static uint32_t own_broadcast(struct building *b, uint32_t slot)
{
    struct fusing *f = b->f;
    uint32_t m = maker_of(f, slot);
    if (m == f->n)
        return slot; /* a constant: it is there */
    for (int64_t k = 0; k < b->steps.n; k++)
        if (b->steps.v[k].instr.i == f->steps[m].instr.i)
            return b->steps.v[k].out[0];
    struct step copy = f->steps[m];
    copy.out = plan_new_slots(f->p, 1);
    vec_push(f->a, &b->steps, copy);
    return copy.out[0];
}

/* The register + 1 in which a slot's value is f32; 0: none. */
static uint32_t find_kept_reg(const struct building *b, uint32_t slot)
{
    for (int64_t k = 0; k < b->regs.n; k++)
        if (b->reg_slot.v[k] == slot && b->regs.v[k].kept)
            return (uint32_t)k + 1;
    return 0;
}

/* A register's value in its other form. */
static uint32_t other_form(struct building *b, struct elem half, uint32_t reg, bool keep)
{
    struct reg r = { .kind = REG_TILE, .size = keep ? 4 : half.size, .kept = keep };
    struct fused_op o = { .ew = keep ? ew_keep(b->keep, half) : ew_unkeep(b->keep, half), .nin = 1 };
    o.in[0] = o.in[1] = o.in[2] = reg;
    o.out = new_reg(b, r, b->reg_slot.v[reg]);
    vec_push(b->f->a, &b->ops, o);
    return o.out;
}

static uint32_t operand_reg(struct building *b, const struct step *s, uint32_t j)
{
    uint32_t slot = s->in[j];
    for (int64_t k = 0; k < b->regs.n; k++)
        if (b->reg_slot.v[k] == slot && !b->regs.v[k].kept)
            return (uint32_t)k;
    uint32_t kept = find_kept_reg(b, slot);
    if (kept) /* made in this group and wanted as it is */
        return other_form(b, s->lin[j].elem, kept - 1, false);
    const struct spread *sp = spread_of(b->f, slot);
    struct reg r = { .kind = REG_OPERAND, .size = s->lin[j].elem.size };
    if (is_single(s, j)) {
        r.kind = REG_SPREAD;
        r.inner = s->lout[0].count;
        r.n = 1;
        r.index = operand_index(b, slot, &s->lin[j]);
    } else if (sp) {
        r.kind = REG_SPREAD;
        r.inner = sp->inner;
        r.n = sp->n;
        r.index = operand_index(b, sp->slot, &sp->leaf);
    } else {
        r.index = operand_index(b, slot, &s->lin[j]);
    }
    return new_reg(b, r, slot);
}

static bool leaves_group(struct building *b, uint32_t slot)
{
    uint32_t inside = 0;
    for (int64_t k = 0; k < b->members.n; k++) {
        const struct step *s = &b->f->steps[b->members.v[k]];
        for (uint32_t j = 0; j < s->nin; j++)
            inside += s->in[j] == slot;
    }
    return b->f->reads[slot - b->f->slot0] > inside;
}

static uint32_t kept_reg(struct building *b, const struct step *s, uint32_t j)
{
    uint32_t kept = find_kept_reg(b, s->in[j]);
    return kept ? kept - 1 : other_form(b, s->lin[j].elem, operand_reg(b, s, j), true);
}

static void add_member(struct building *b, const struct step *s)
{
    const struct ew *kept = b->keeps ? ew_kept(b->keep, s->p) : NULL;
    struct fused_op o = { .ew = kept ? kept : s->p, .nin = (int)s->nin, .inplace = s->inplace };
    struct step alone = *s;
    uint32_t *in = arena_copy(b->keep, s->in, s->nin, sizeof *in);
    for (uint32_t j = 0; j < s->nin; j++) {
        o.in[j] = kept && elem_is_half(s->lin[j].elem) ? kept_reg(b, s, j) : operand_reg(b, s, j);
        if (!is_single(s, j) && spread_of(b->f, s->in[j]))
            in[j] = own_broadcast(b, s->in[j]);
    }
    struct reg r = { .kind = REG_TILE, .size = s->lout[0].elem.size };
    bool leaves = leaves_group(b, s->out[0]);
    if (leaves) {
        r.kind = REG_RESULT;
        r.index = (uint32_t)b->out.n;
        vec_push(b->f->a, &b->out, s->out[0]);
        vec_push(b->f->a, &b->lout, s->lout[0]);
    }
    bool f32 = kept && elem_is_half(s->lout[0].elem);
    struct reg tile = { .kind = REG_TILE, .size = 4, .kept = true };
    o.out = new_reg(b, f32 ? tile : r, s->out[0]);
    for (uint32_t j = s->nin; j < 3; j++)
        o.in[j] = o.in[0];
    alone.in = in;
    alone.inplace = 0;
    vec_push(b->f->a, &b->ops, o);
    if (f32 && leaves) {
        uint32_t out = other_form(b, s->lout[0].elem, o.out, false);
        b->regs.v[out].kind = REG_RESULT;
        b->regs.v[out].index = r.index;
    }
    vec_push(b->f->a, &b->steps, alone);
}

/* Tiles of one element size, by number. */
struct tiles {
    int64_t n;
    VEC(int64_t) room; /* those whose last reader is done */
};

static int64_t take_tile(struct tiles *t)
{
    return t->room.n ? t->room.v[--t->room.n] : t->n++;
}

/* Where scratch tiles lie, counted in bytes for one lane: wide elements first, so that each is aligned
 * whatever the tile's length. Returns the bytes of all. */
static int64_t place_tiles(struct building *b)
{
    struct tiles of[17] = { 0 };
    int64_t base[17], top = 0;
    uint32_t *last = ARENA_ARRAY(b->f->a, uint32_t, b->regs.n + 1); /* op + 1 */
    for (int64_t k = 0; k < b->ops.n; k++)
        for (int j = 0; j < b->ops.v[k].nin; j++)
            last[b->ops.v[k].in[j]] = (uint32_t)k + 1;
    for (int64_t k = 0; k < b->ops.n; k++) {
        const struct fused_op *o = &b->ops.v[k];
        b->regs.v[o->out].stays = b->regs.v[o->out].kept && o->nin == 1 && b->regs.v[o->in[0]].kind == REG_SPREAD &&
                                  !b->regs.v[o->in[0]].kept;
    }
    for (int64_t k = 0; k < b->regs.n; k++)
        if (b->regs.v[k].kind == REG_SPREAD || b->regs.v[k].stays)
            b->regs.v[k].offset = of[b->regs.v[k].size].n++;
    for (int64_t k = 0; k < b->ops.n; k++) {
        const struct fused_op *o = &b->ops.v[k];
        struct reg *r = &b->regs.v[o->out];
        if (r->kind == REG_TILE && !r->stays)
            r->offset = take_tile(&of[r->size]);
        for (int j = 0; j < o->nin; j++) {
            const struct reg *x = &b->regs.v[o->in[j]];
            bool again = (j > 0 && o->in[j] == o->in[0]) || (j > 1 && o->in[j] == o->in[1]);
            if (x->kind == REG_TILE && !x->stays && last[o->in[j]] == (uint32_t)k + 1 && !again)
                vec_push(b->f->a, &of[x->size].room, x->offset);
        }
    }
    for (int size = 16; size > 0; size--) {
        base[size] = top;
        top += of[size].n * size;
    }
    for (int64_t k = 0; k < b->regs.n; k++)
        b->regs.v[k].offset = base[b->regs.v[k].size] + b->regs.v[k].offset * b->regs.v[k].size;
    return top;
}

/* Lanes of a tile: as the scratch has room for; rows that are spread whole make equal tiles. */
static int64_t choose_tile(struct building *b, int64_t lane_bytes, int64_t count)
{
    int64_t most = min_i64(lane_bytes ? SCRATCH / lane_bytes : MOST_LANES, MOST_LANES);
    int64_t tile = most >= LEAST_LANES ? most / LEAST_LANES * LEAST_LANES : most;
    for (int64_t k = 0; k < b->regs.n; k++) {
        const struct reg *r = &b->regs.v[k];
        if (r->kind == REG_SPREAD && r->inner == 1 && r->n <= most) {
            tile = most / r->n * r->n;
            break;
        }
    }
    tile = max_i64(min_i64(tile, count), 1);
    for (int64_t k = 0; k < b->regs.n; k++) {
        struct reg *r = &b->regs.v[k];
        r->once = r->kind == REG_SPREAD && (r->n == 1 || (r->inner == 1 && tile % r->n == 0));
    }
    for (int64_t k = 0; k < b->ops.n; k++) {
        struct fused_op *o = &b->ops.v[k];
        o->once = b->regs.v[o->out].stays && b->regs.v[o->in[0]].once;
    }
    return tile;
}

static bool reads_slot(const struct step *s, uint32_t slot)
{
    for (uint32_t j = 0; j < s->nin; j++)
        if (s->in[j] == slot)
            return true;
    return false;
}

/* A member's value that stays inside goes once its last reader has run. */
static void release_inside(struct building *b)
{
    struct arena *a = b->f->a;
    uint32_t n = (uint32_t)b->steps.n;
    for (uint32_t k = 0; k < n; k++) {
        VEC(uint32_t) gone = { 0 };
        for (uint32_t q = 0; q <= k; q++) {
            uint32_t slot = b->steps.v[q].out[0], last = q;
            bool out = false;
            for (int64_t j = 0; j < b->out.n; j++)
                out |= b->out.v[j] == slot;
            for (uint32_t t = q + 1; t < n; t++)
                last = reads_slot(&b->steps.v[t], slot) ? t : last;
            if (!out && last == k)
                vec_push(a, &gone, slot);
        }
        b->steps.v[k].release = arena_copy(b->keep, gone.v, gone.n, sizeof(uint32_t));
        b->steps.v[k].nrelease = (uint32_t)gone.n;
    }
}

/* Keeping f32 pays where what is saved between operations is more than the conversions at the ends. */
static bool keeps_f32(const struct building *b)
{
    int halves = 0;
    for (int64_t k = 0; k < b->members.n; k++) {
        const struct step *s = &b->f->steps[b->members.v[k]];
        const struct ew *e = s->p;
        halves += elem_is_half(s->lout[0].elem) && elem_is_half(s->lin[s->nin - 1].elem) && e->op != OP_CONVERT;
    }
    return halves >= 3;
}

/* False: too many operands or tiles for one group; its members stay steps. */
static bool build(struct building *b, struct step *to)
{
    struct fusing *f = b->f;
    for (uint32_t k = f->first[b->h]; k < f->n; k = f->next[k])
        vec_push(f->a, &b->members, k);
    b->keeps &= keeps_f32(b);
    for (int64_t k = 0; k < b->members.n; k++)
        add_member(b, &f->steps[b->members.v[k]]);
    int64_t lane = place_tiles(b);
    if (b->regs.n > MOST_REGS || b->in.n > 127 || lane > SCRATCH / 8)
        return false;
    struct fused *u = ARENA_NEW(b->keep, struct fused);
    u->count = f->steps[b->h].lout[0].count;
    u->tile = choose_tile(b, lane, u->count);
    release_inside(b);
    u->nops = (uint32_t)b->ops.n;
    u->nmembers = (uint32_t)b->members.n;
    u->nregs = (uint32_t)b->regs.n;
    u->nsteps = (uint32_t)b->steps.n;
    u->ops = arena_copy(b->keep, b->ops.v, b->ops.n, sizeof *b->ops.v);
    u->regs = arena_copy(b->keep, b->regs.v, b->regs.n, sizeof *b->regs.v);
    u->steps = arena_copy(b->keep, b->steps.v, b->steps.n, sizeof *b->steps.v);
    u->reuse = ARENA_ARRAY(b->keep, int8_t, b->out.n + 1);
    memset(u->reuse, -1, (size_t)b->out.n);
    *to = (struct step){ .kind = STEP_KERNEL,
                         .instr = f->steps[b->h].instr,
                         .nin = (uint32_t)b->in.n,
                         .nout = (uint32_t)b->out.n,
                         .fused = u };
    to->in = arena_copy(b->keep, b->in.v, b->in.n, sizeof(uint32_t));
    to->out = arena_copy(b->keep, b->out.v, b->out.n, sizeof(uint32_t));
    to->lin = arena_copy(b->keep, b->lin.v, b->lin.n, sizeof(struct leaf));
    to->lout = arena_copy(b->keep, b->lout.v, b->lout.n, sizeof(struct leaf));
    return true;
}

/* ---- the pass -----------------------------------------------------------------------------------
 */

static void count_reads(struct fusing *f, const uint32_t *roots, uint32_t nroots)
{
    for (uint32_t k = 0; k < f->n; k++) {
        const struct step *s = &f->steps[k];
        for (uint32_t j = 0; j < s->nout; j++)
            f->maker[s->out[j] - f->slot0] = k + 1;
        for (uint32_t j = 0; j < s->nin; j++)
            if (s->in[j] >= f->slot0)
                f->reads[s->in[j] - f->slot0]++;
    }
    for (uint32_t k = 0; k < nroots; k++)
        if (roots[k] >= f->slot0)
            f->reads[roots[k] - f->slot0]++;
}

static void list_members(struct fusing *f)
{
    for (uint32_t k = 0; k < f->n; k++)
        f->first[k] = f->n;
    for (uint32_t k = f->n; k-- > 0;) {
        uint32_t h = head(f, k);
        f->next[k] = f->first[h];
        f->first[h] = k;
    }
}

/* Groups that are built, by head; others keep their steps. */
static struct step **build_groups(struct fusing *f)
{
    struct step **made = ARENA_ARRAY(f->a, struct step *, f->n + 1);
    for (uint32_t k = 0; k < f->n; k++) {
        if (head(f, k) != k || !is_group(f, k))
            continue;
        struct building b = { .f = f, .keep = &f->p->plan->arena, .h = k, .keeps = true };
        struct step *to = ARENA_NEW(f->a, struct step);
        if (!build(&b, to)) {
            bool again = b.keeps;
            b = (struct building){ .f = f, .keep = &f->p->plan->arena, .h = k };
            if (!again || !build(&b, to))
                continue;
        }
        made[k] = to;
        for (int64_t j = 0; j < b.members.n; j++) {
            const struct step *s = &f->steps[b.members.v[j]];
            for (uint32_t q = 0; q < s->nin; q++)
                if (s->in[q] >= f->slot0 && !is_single(s, q) && spread_of(f, s->in[q]))
                    f->spread[s->in[q] - f->slot0]++;
        }
    }
    return made;
}

static bool nobody_reads(const struct fusing *f, const struct step *s)
{
    if (s->nout != 1 || !spread_of(f, s->out[0]))
        return false;
    return f->spread[s->out[0] - f->slot0] == f->reads[s->out[0] - f->slot0];
}

void plan_fuse(struct planner *p, uint32_t slot0, const uint32_t *roots, uint32_t nroots)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    uint32_t n = (uint32_t)p->steps.n, nslots = p->plan->nslots - slot0;
    struct fusing f = { .p = p, .a = &tmp, .n = n, .slot0 = slot0, .nslots = nslots, .steps = p->steps.v };
    f.maker = ARENA_ARRAY(&tmp, uint32_t, nslots + 1);
    f.reads = ARENA_ARRAY(&tmp, uint32_t, nslots + 1);
    f.spread = ARENA_ARRAY(&tmp, uint32_t, nslots + 1);
    f.parent = ARENA_ARRAY(&tmp, uint32_t, n + 1);
    f.size = ARENA_ARRAY(&tmp, uint32_t, n + 1);
    f.first = ARENA_ARRAY(&tmp, uint32_t, n + 1);
    f.next = ARENA_ARRAY(&tmp, uint32_t, n + 1);
    f.closed = ARENA_ARRAY(&tmp, bool, n + 1);
    count_reads(&f, roots, nroots);
    group_steps(&f);
    list_members(&f);
    struct step **made = build_groups(&f);
    uint32_t kept = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t h = head(&f, k);
        if (made[h] ? h != k : nobody_reads(&f, &f.steps[k]))
            continue;
        p->steps.v[kept++] = made[h] ? *made[h] : f.steps[k];
    }
    p->steps.n = kept;
    arena_close(&tmp);
}

/* ---- memory that is taken over ------------------------------------------------------------------
 */

/* Result k may lie where operand i lay: every other reader in a tile comes before its maker. */
static bool may_reuse(const struct fused *f, uint32_t result, uint32_t operand)
{
    const struct fused_op *maker = NULL;
    for (uint32_t k = 0; k < f->nops; k++) {
        const struct fused_op *o = &f->ops[k];
        const struct reg *r = &f->regs[o->out];
        bool makes = r->kind == REG_RESULT && r->index == result;
        for (int j = 0; j < o->nin; j++) {
            const struct reg *x = &f->regs[o->in[j]];
            if (x->index != operand || (x->kind != REG_OPERAND && x->kind != REG_SPREAD))
                continue;
            bool apart = makes && (x->size != r->size || !(o->inplace & 1u << j));
            if (x->kind == REG_SPREAD || maker || apart)
                return false;
        }
        maker = makes ? o : maker;
    }
    return maker != NULL;
}

int64_t fused_settle(struct step *s, const uint32_t *entry_params, uint32_t nparams)
{
    const struct fused *f = s->fused;
    bool taken[128] = { false };
    int64_t saved = 0;
    for (uint32_t k = 0; k < s->nout; k++)
        for (uint32_t i = 0; i < s->nin && f->reuse[k] < 0; i++) {
            if (taken[i] || s->lin[i].bytes != s->lout[k].bytes ||
                !slot_in(s->release, s->nrelease, s->in[i]) || !may_reuse(f, k, i))
                continue;
            taken[i] = true;
            f->reuse[k] = (int8_t)i;
            if (!slot_in(entry_params, nparams, s->in[i]))
                saved += s->lout[k].bytes;
        }
    return saved;
}
