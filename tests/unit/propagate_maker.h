/* Modules made up at random, and shardings for them. */
#ifndef GSPMD_TESTS_PROPAGATE_MAKER_H
#define GSPMD_TESTS_PROPAGATE_MAKER_H

#include "propagate_support.h"

static uint64_t state_of_random = 1;

static uint32_t random_below(uint32_t n)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((state_of_random >> 33) % n) : 0;
}

/* ---- shardings ---------------------------------------------------------------------------------------- */

/* Splits some dimensions over `devices`, in a random order, with copies or without. */
static sharding_id random_sharding(struct bed *b, const struct shape *shape, int64_t devices)
{
    struct str s = STR_IN(&b->arena);
    int64_t left = devices, dims[64];
    if (shape->rank > 60 || !random_below(8))
        return sharding_replicated(b->ir->shardings);
    for (int d = 0; d < shape->rank; d++) {
        dims[d] = 1;
        while (left % 2 == 0 && !random_below(3)) {
            dims[d] *= 2;
            left /= 2;
        }
    }
    if (left == devices)
        return sharding_replicated(b->ir->shardings);
    str_adds(&s, "{devices=[");
    for (int d = 0; d < shape->rank; d++)
        str_addf(&s, "%s%d", d ? "," : "", (int)dims[d]);
    if (left > 1)
        str_addf(&s, ",%d", (int)left);
    if (devices % 2 == 0 && random_below(2))
        str_addf(&s, "]<=[2,%d]T(1,0)", (int)(devices / 2));
    else
        str_addf(&s, "]<=[%d]", (int)devices);
    str_adds(&s, left > 1 ? " last_tile_dim_replicate}" : "}");
    return bed_sharding(b, str_text(&s), s.n);
}

/* Any sharding that an instruction may carry: also unknown, of one device, manual, tuples of these. */
static sharding_id any_sharding(struct bed *b, const struct instr *ins, int64_t devices)
{
    struct shardings *t = b->ir->shardings;
    const struct shape *shape = shape_get(b->ir, ins->shape);
    if (shape->kind == SHAPE_TUPLE) {
        sharding_id *leaves = ARENA_ARRAY(&b->arena, sharding_id, shape->nleaves + 1);
        for (int64_t k = 0; k < shape->nleaves; k++) {
            const struct shape *leaf = shape_get(b->ir, shape_leaf(b->ir, ins->shape, k));
            leaves[k] = leaf->kind != SHAPE_ARRAY || random_below(2) ? sharding_replicated(t) : random_sharding(b, leaf, devices);
            if (random_below(6) == 0)
                leaves[k] = sharding_unknown(t);
        }
        return shape->nleaves ? sharding_tuple(t, shape->nleaves, leaves) : sharding_tuple_of(t, 1, sharding_replicated(t));
    }
    if (shape->kind != SHAPE_ARRAY)
        return sharding_replicated(t);
    switch (random_below(24)) {
    case 0:
        return sharding_unknown(t);
    case 1:
        return sharding_maximal(t, random_below(2));
    case 2:
        return ins->op == OP_CUSTOM_CALL ? random_sharding(b, shape, devices) : sharding_manual(t);
    default:
        return random_sharding(b, shape, devices);
    }
}

/* Which edits make sense: what carries notes would lose them, a Sharding call has a sharding, and what
 * borders a manual region keeps it. */
static bool may_edit(const struct module *m, instr_id i)
{
    const struct instr *ins = instr_at(m, i);
    return !(ins->note && ins->note->leaves) && strncmp(instr_target(m, ins), "SPMD", 4) != 0;
}

/* ---- modules ------------------------------------------------------------------------------------------ */

struct maker {
    struct str *s;
    int next;        /* number of the next instruction */
    bool special;    /* open dimensions, manual regions, shard groups */
    bool wide;       /* tuples of many */
    int square[64], n; /* f32[8,8] values of the computation in the making */
    int zero;        /* of the entry; 0: none */
};

static int pick(const struct maker *k)
{
    /* Chains of only users are what the look-ahead follows: mostly the last. */
    return k->square[random_below(2) ? k->n - 1 : (int)random_below((uint32_t)k->n)];
}

static void add_value(struct maker *k)
{
    if (k->n < 64)
        k->square[k->n++] = k->next;
    else
        k->square[random_below(64)] = k->next;
    k->next++;
}

static const char *partly(uint32_t k)
{
    static const char *const list[] = { "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{devices=[1,2,4]<=[8] last_tile_dim_replicate}",
                                        "{devices=[1,4,2]<=[8] last_tile_dim_replicate}", "{replicated}" };
    return list[k % COUNTOF(list)];
}

static const char *open_dims(uint32_t k)
{
    static const char *const list[] = { ", backend_config=\"unspecified_dims=[1]\"", ", backend_config=\"unspecified_dims=[0]\"",
                                        ", backend_config=\"unspecified_dims=[0,1]\"", "" };
    return list[k % COUNTOF(list)];
}

#define CALL(target) "custom-call(v%d), custom_call_target=\"" target "\", sharding=%s%s\n"

/* Open dimensions, alone or at the border of a manual region; shard groups. */
static void make_special(struct maker *k, int a)
{
    int i = k->next;
    uint32_t open = random_below(4), other = random_below(5) ? open : random_below(4);
    switch (random_below(3)) {
    case 0:
        str_addf(k->s, " v%d = f32[8,8] " CALL("Sharding"), i, a, partly(random_below(4)), open_dims(open));
        break;
    case 1:
        str_addf(k->s, " v%d = f32[8,8] " CALL("Sharding"), i, a, partly(random_below(3)), open_dims(open));
        str_addf(k->s, " v%d = f32[4,8] " CALL("SPMDFullToShardShape"), i + 1, i, "{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}",
                 open_dims(other));
        str_addf(k->s, " v%d = f32[4,8] negate(v%d)\n", i + 2, i + 1);
        str_addf(k->s, " v%d = f32[4,8] " CALL("Sharding"), i + 3, i + 2, "{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}",
                 open_dims(open));
        str_addf(k->s, " v%d = f32[8,8] " CALL("SPMDShardToFullShape"), i + 4, i + 3, partly(random_below(3)), open_dims(other));
        k->next += 4;
        break;
    default:
        str_addf(k->s, " v%d = f32[8,8] negate(v%d)\n v%d = f32[8,8] custom-call(v%d), custom_call_target=\"Sharding\", sharding={unknown shard_%s %d}\n",
                 i, a, i + 1, i, random_below(2) ? "as" : "like", (int)random_below(2));
        k->next += 1;
        break;
    }
    add_value(k);
}

/* A tuple of many, of which some are taken. */
static void make_wide(struct maker *k)
{
    int list[70], n = 64 + (int)random_below(6), tuple = k->next++;
    for (int j = 0; j < n; j++)
        list[j] = pick(k);
    str_addf(k->s, " v%d = (f32[8,8]", tuple);
    for (int j = 1; j < n; j++)
        str_adds(k->s, ", f32[8,8]");
    str_addf(k->s, ") tuple(v%d", list[0]);
    for (int j = 1; j < n; j++)
        str_addf(k->s, ", v%d", list[j]);
    str_adds(k->s, ")\n");
    for (uint32_t j = 1 + random_below(4); j > 0; j--) {
        str_addf(k->s, " v%d = f32[8,8] get-tuple-element(v%d), index=%d\n", k->next, tuple, (int)random_below((uint32_t)n));
        add_value(k);
    }
}

static void make_op(struct maker *k, bool calls)
{
    int a = pick(k), b = pick(k), i = k->next;
    if (k->special && random_below(4) == 0) {
        make_special(k, a);
        return;
    }
    if (k->wide && random_below(8) == 0) {
        make_wide(k);
        return;
    }
    switch (random_below(calls ? 20 : 18)) {
    case 0:
    case 1:
        str_addf(k->s, " v%d = f32[8,8] add(v%d, v%d)\n", i, a, b);
        break;
    case 2:
        str_addf(k->s, " v%d = f32[8,8] negate(v%d)\n", i, a);
        break;
    case 3:
    case 4:
    case 5:
        str_addf(k->s, " v%d = f32[8,8] dot(v%d, v%d), lhs_contracting_dims={%d}, rhs_contracting_dims={%d}\n", i, a, b,
                 (int)random_below(2), (int)random_below(2));
        break;
    case 6:
        str_addf(k->s, " v%d = f32[8,8] transpose(v%d), dimensions={1,0}\n", i, a);
        break;
    case 7:
        str_addf(k->s, " v%d = f32[64] reshape(v%d)\n", k->next++, a);
        str_addf(k->s, " v%d = f32[8,8] reshape(v%d)\n", k->next, i);
        break;
    case 11: /* one initial value for many */
        if (!k->zero)
            str_addf(k->s, " v%d = f32[] constant(1)\n", k->zero = k->next++);
        i = k->next;
        str_addf(k->s, " v%d = f32[8] reduce(v%d, v%d), dimensions={%d}, to_apply=sum\n", i, a, k->zero, (int)random_below(2));
        str_addf(k->s, " v%d = f32[8,8] broadcast(v%d), dimensions={%d}\n", ++k->next, i, (int)random_below(2));
        break;
    case 12:
        if (!k->zero)
            str_addf(k->s, " v%d = f32[] constant(1)\n", k->zero = k->next++);
        i = k->next;
        str_addf(k->s, " v%d = f32[8,10] pad(v%d, v%d), padding=0_0x1_1\n v%d = f32[8,8] slice(v%d), slice={[0:8], [1:9]}\n", i, a, k->zero, i + 1, i);
        k->next++;
        break;
    case 13:
        if (!k->zero)
            str_addf(k->s, " v%d = f32[] constant(1)\n", k->zero = k->next++);
        i = k->next;
        str_addf(k->s, " v%d = f32[8,8] broadcast(v%d), dimensions={}\n v%d = f32[8,8] multiply(v%d, v%d)\n", i, k->zero, i + 1, i, a);
        k->next++;
        break;
    case 14:
        str_addf(k->s, " v%d = s32[] constant(0)\n v%d = f32[4,8] dynamic-slice(v%d, v%d, v%d), dynamic_slice_sizes={4,8}\n", i, i + 1, a, i, i);
        str_addf(k->s, " v%d = f32[8,8] dynamic-update-slice(v%d, v%d, v%d, v%d)\n", i + 2, b, i + 1, i, i);
        k->next += 2;
        break;
    case 15:
        str_addf(k->s, " v%d = s32[8,1] iota(), iota_dimension=0\n v%d = f32[8,8] gather(v%d, v%d), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}\n",
                 i, i + 1, a, i);
        k->next++;
        break;
    case 16:
        str_addf(k->s, " v%d = s32[8,1] iota(), iota_dimension=0\n v%d = f32[8,8] scatter(v%d, v%d, v%d), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n",
                 i, i + 1, a, i, b);
        k->next++;
        break;
    case 17:
        str_addf(k->s, " v%d = f32[8,8] reverse(v%d), dimensions={%d}\n", i, a, (int)random_below(2));
        break;
    case 8:
        str_addf(k->s, " v%d = f32[] constant(0)\n v%d = f32[8] reduce(v%d, v%d), dimensions={%d}, to_apply=sum\n", i, i + 1, a, i,
                 (int)random_below(2));
        k->next += 2;
        str_addf(k->s, " v%d = f32[8,8] broadcast(v%d), dimensions={%d}\n", k->next, i + 1, (int)random_below(2));
        break;
    case 9:
        str_addf(k->s, " v%d = (f32[8,8], f32[8,8]) tuple(v%d, v%d)\n", i, a, b);
        k->next++;
        str_addf(k->s, " v%d = f32[8,8] get-tuple-element(v%d), index=%d\n", k->next, i, (int)random_below(2));
        break;
    case 10:
        if (random_below(3))
            str_addf(k->s, " v%d = f32[16,8] concatenate(v%d, v%d), dimensions={0}\n v%d = f32[8,8] slice(v%d), slice={[0:8], [0:8]}\n", i, a,
                     b, i + 1, i);
        else
            str_addf(k->s, " v%d = f32[8,8] copy(v%d)\n v%d = f32[8,8] custom-call(v%d), custom_call_target=\"Sharding\", sharding={devices=[%s]<=[8] last_tile_dim_replicate}\n",
                     i, a, i + 1, i, random_below(2) ? "2,1,4" : "1,4,2");
        k->next++;
        break;
    case 18:
        str_addf(k->s, " v%d = (f32[8,8], f32[8,8]) tuple(v%d, v%d)\n v%d = (f32[8,8], f32[8,8]) while(v%d), condition=cond%d, body=body%d\n", i, a,
                 b, i + 1, i, calls ? (int)random_below(2) : 0, calls ? (int)random_below(2) : 0);
        k->next += 2;
        str_addf(k->s, " v%d = f32[8,8] get-tuple-element(v%d), index=%d\n", k->next, i + 1, (int)random_below(2));
        break;
    default:
        str_addf(k->s, " v%d = pred[] constant(true)\n v%d = f32[8,8] conditional(v%d, v%d, v%d), true_computation=left, false_computation=right\n", i,
                 i + 1, i, a, b);
        k->next++;
        break;
    }
    add_value(k);
}

static void make_loop(struct maker *k, int number)
{
    str_addf(k->s, "cond%d {\n c%d = (f32[8,8], f32[8,8]) parameter(0)\n ROOT t%d = pred[] constant(true)\n}\n", number, number, number);
    str_addf(k->s, "body%d {\n v%d = (f32[8,8], f32[8,8]) parameter(0)\n", number, k->next);
    int p = k->next++;
    k->n = k->zero = 0;
    for (int e = 0; e < 2; e++) {
        str_addf(k->s, " v%d = f32[8,8] get-tuple-element(v%d), index=%d\n", k->next, p, e);
        add_value(k);
    }
    for (uint32_t j = 1 + random_below(6); j > 0; j--)
        make_op(k, false);
    str_addf(k->s, " ROOT v%d = (f32[8,8], f32[8,8]) tuple(v%d, v%d)\n}\n", k->next, pick(k), pick(k));
    k->next++;
}

static void make_branch(struct maker *k, const char *name)
{
    str_addf(k->s, "%s {\n v%d = f32[8,8] parameter(0)\n", name, k->next);
    k->n = k->zero = 0;
    add_value(k);
    for (uint32_t j = random_below(4); j > 0; j--)
        make_op(k, false);
    str_addf(k->s, " ROOT v%d = f32[8,8] abs(v%d)\n}\n", k->next, pick(k));
    k->next++;
}

static const char *flag(void)
{
    return random_below(2) ? "true" : "false";
}

static void make_module(struct str *s, bool special)
{
    struct maker k = { .s = s, .special = special, .wide = !special && random_below(3) == 0 };
    str_addf(s, "HloModule m, allow_spmd_sharding_propagation_to_parameters={%s,%s,%s}, allow_spmd_sharding_propagation_to_output={%s}, num_partitions=8\n"
                COMMON_COMPUTATIONS, flag(), flag(), flag(), flag());
    make_loop(&k, 0);
    make_loop(&k, 1);
    make_branch(&k, "left");
    make_branch(&k, "right");
    str_adds(s, "ENTRY e {\n");
    k.n = k.zero = 0;
    for (int j = 0; j < 3; j++) {
        str_addf(s, " v%d = f32[8,8] parameter(%d)%s\n", k.next, j,
                 random_below(3) ? "" : ", sharding={devices=[2,2,2]<=[8] last_tile_dim_replicate}");
        add_value(&k);
    }
    for (uint32_t j = 3 + random_below(30); j > 0; j--)
        make_op(&k, true);
    if (random_below(5) == 0) {
        int list[80], n = 64 + (int)random_below(16);
        for (int j = 0; j < n; j++)
            list[j] = pick(&k);
        str_addf(s, " ROOT v%d = (f32[8,8]", k.next);
        for (int j = 1; j < n; j++)
            str_adds(s, ", f32[8,8]");
        str_addf(s, ") tuple(v%d", list[0]);
        for (int j = 1; j < n; j++)
            str_addf(s, ", v%d", list[j]);
        str_adds(s, ")\n}\n");
    } else if (random_below(2))
        str_addf(s, " ROOT v%d = f32[8,8] sine(v%d)\n}\n", k.next, pick(&k));
    else
        str_addf(s, " ROOT v%d = (f32[8,8], f32[8,8]) tuple(v%d, v%d)\n}\n", k.next, pick(&k), pick(&k));
}

#endif
