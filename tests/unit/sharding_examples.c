/* sharding: the worked examples of the specification of propagation, E-1..E-91. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "sharding/sharding.h"

/* clang-format off */
static const struct {
    const char *id, *in, *canonical;
} canonical[] = {
    { "E-1", "{devices=[2,2]<=[4]}",
      "{devices=[2,2]0,1,2,3}" },
    { "E-2", "{devices=[2,2]<=[2,2]T(1,0)}",
      "{devices=[2,2]0,2,1,3}" },
    { "E-3", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
      "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}" },
    { "E-4", "{devices=[2,2]3,1,2,0 last_tile_dim_replicate}",
      "{devices=[2,2]1,3,0,2 last_tile_dim_replicate}" },
    { "E-5", "{devices=[1,1,4]<=[4] last_tile_dim_replicate}",
      "{replicated}" },
    { "E-6", "{devices=[2,2,1]<=[4] last_tile_dim_replicate}",
      "{devices=[2,2]0,1,2,3}" },
    { "E-7", "{devices=[2,4]<=[8] last_tile_dims={replicated}}",
      "{devices=[2,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}" },
    { "E-8", "{devices=[2,2,2]<=[8] last_tile_dims={replicated, manual}}",
      "{devices=[2,2,2]0,2,1,3,4,6,5,7 last_tile_dims={manual, replicated}}" },
    { "E-9", "{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}",
      "{devices=[2,2,2]0,1,2,3,4,5,6,7 last_tile_dims={manual, replicated}}" },
    { "E-10", "{devices=[1,2,1]0,1 last_tile_dims={manual, replicated}}",
      "{manual}" },
    { "E-11", "{devices=[1,4]3,2,1,0 last_tile_dims={manual}}",
      "{manual}" },
    { "E-12", "{devices=[2,2]3,2,1,0 last_tile_dims={manual}}",
      "{devices=[2,2]3,2,1,0 last_tile_dims={manual}}" },
    { "E-13", "{devices=[2,2,2]<=[8] last_tile_dims={manual, manual}}",
      "{devices=[2,4]0,1,2,3,4,5,6,7 last_tile_dims={manual}}" },
    { "E-14", "{devices=[2,2,2,2]<=[16] last_tile_dims={replicated, manual, replicated}}",
      "{devices=[2,2,4]0,1,4,5,2,3,6,7,8,9,12,13,10,11,14,15 last_tile_dims={manual, replicated}}" },
    { "E-15", "{devices=[2,1,2]0,1,2,3 last_tile_dims={manual, replicated}}",
      "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}" },
    { "E-16", "{devices=[4]<=[4]}",
      "{devices=[4]0,1,2,3}" },
    { "E-17", "{maximal device=3}",
      "{maximal device=3}" },
    { "E-18", "{devices=[2,2,3]<=[3,2,2]T(2,0,1)}",
      "{devices=[2,2,3]0,2,4,6,8,10,1,3,5,7,9,11}" },
    { "E-19", "{{replicated}, {devices=[2]0,1}}",
      "{{replicated}, {devices=[2]0,1}}" },
    { "E-20", "{unknown shard_as 0}",
      "{unknown shard_as 0}" },
};

static const struct {
    const char *id, *a, *b;
    bool over, under; /* a more specific than b; b than a */
} specific[] = {
    { "E-21", "{replicated}", "{maximal device=0}", false, true },
    { "E-22", "{manual}", "{replicated}", true, false },
    { "E-23", "{manual}", "{devices=[2]0,1}", false, false },
    { "E-24", "{devices=[2]0,1}", "{replicated}", true, false },
    { "E-25", "{devices=[2]0,1}", "{maximal device=0}", true, false },
    { "E-26", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}", false, false },
    { "E-27", "{devices=[2,2]<=[4]}", "{devices=[1,3]<=[3]}", true, false },
    { "E-28", "{{replicated},{devices=[2]0,1}}", "{{replicated},{replicated}}", true, false },
    { "E-29", "{{devices=[2]0,1},{replicated}}", "{{replicated},{devices=[2]0,1}}", false, false },
};

static const struct {
    const char *id, *m, *dst, *merged; /* NULL: does not merge */
} merges[] = {
    { "E-30", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
      "{devices=[1,2,2]0,2,1,3 last_tile_dim_replicate}",
      "{devices=[2,2]0,1,2,3}" },
    { "E-31", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
      "{devices=[1,2,2]0,1,2,3 last_tile_dim_replicate}",
      NULL },
    { "E-32", "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}",
      "{devices=[1,2,4]0,1,4,5,2,3,6,7 last_tile_dim_replicate}",
      "{devices=[2,2,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}" },
    { "E-33", "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}",
      "{devices=[1,4,2]0,4,2,6,1,5,3,7 last_tile_dim_replicate}",
      "{devices=[2,4]0,2,1,3,4,6,5,7}" },
    { "E-34", "{devices=[2,2]0,1,2,3}",
      "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
      "{devices=[2,2]0,1,2,3}" },
    { "E-35", "{devices=[2,2]0,1,2,3}",
      "{devices=[1,2,2]0,1,2,3 last_tile_dim_replicate}",
      NULL },
    { "E-36", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
      "{devices=[2,2]0,1,2,3}",
      NULL },
    { "E-37", "{replicated}",
      "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
      NULL },
    { "E-38", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
      "{replicated}",
      "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}" },
    { "E-39", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
      "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
      NULL },
    { "E-40", "{devices=[3,1,2]0,1,2,3,4,5 last_tile_dim_replicate}",
      "{devices=[2,1,3]0,1,2,3,4,5 last_tile_dim_replicate}",
      NULL },
    { "E-41", "{devices=[2,1,2,2]0,1,2,3,4,5,6,7 last_tile_dims={manual, replicated}}",
      "{devices=[1,2,2,2]0,4,2,6,1,5,3,7 last_tile_dims={manual, replicated}}",
      "{devices=[2,2,2]0,2,1,3,4,6,5,7 last_tile_dims={manual}}" },
    { "E-42", "{devices=[2,1,2,2]0,1,2,3,4,5,6,7 last_tile_dims={manual, replicated}}",
      "{devices=[1,2,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}",
      NULL },
    { "E-43", "{devices=[2,1,4]0,2,5,7,1,3,4,6 last_tile_dim_replicate}",
      "{devices=[1,2,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}",
      "{devices=[2,2,2]0,2,5,7,1,3,4,6 last_tile_dim_replicate}" },
};

static const struct {
    const char *id;
    int rank;
    int64_t dims[4];
    const char *p, *s;
    bool inside;
} subtilings[] = {
    { "E-44", 1, { 8 }, "{devices=[4]0,1,2,3}", "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}", true },
    { "E-45", 1, { 8 }, "{devices=[4]1,0,2,3}", "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}", true },
    { "E-46", 1, { 8 }, "{devices=[4]0,2,1,3}", "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}", false },
    { "E-47", 1, { 6 }, "{devices=[4]0,1,2,3}", "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}", false },
    { "E-48", 1, { 7 }, "{devices=[4]0,1,2,3}", "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}", true },
    { "E-49", 1, { 2 }, "{devices=[4]0,1,2,3}", "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}", false },
    { "E-50", 1, { 1 }, "{devices=[4]0,1,2,3}", "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}", true },
    { "E-51", 2, { 8, 8 }, "{devices=[2,2]0,1,2,3}", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}", true },
    { "E-52", 2, { 8, 8 }, "{devices=[2,2]0,2,1,3}", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}", false },
    { "E-53", 2, { 8, 8 }, "{devices=[1,4]0,1,2,3}", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}", false },
    { "E-54", 2, { 8, 8 }, "{devices=[2,2]0,1,2,3}", "{replicated}", true },
    { "E-55", 2, { 8, 8 }, "{replicated}", "{devices=[2,2]0,1,2,3}", false },
    { "E-56", 2, { 8, 8 }, "{devices=[4,2]0,1,2,3,4,5,6,7}", "{devices=[2,2]0,1,2,3}", false },
};

static const struct {
    const char *id;
    int from_rank, to_rank;
    int64_t from[4], to[5];
    const char *in, *out;
} reshapes[] = {
    { "E-57", 2, 3, { 16, 7 }, { 4, 4, 7 }, "{devices=[16,1]<=[16]}",
      "{devices=[4,4,1]0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}" },
    { "E-58", 1, 2, { 36 }, { 6, 6 }, "{devices=[4]<=[4]}",
      "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}" },
    { "E-59", 3, 2, { 4, 5, 7 }, { 20, 7 }, "{devices=[2,1,1]0,1}",
      "{devices=[2,1]0,1}" },
    { "E-60", 2, 1, { 4, 8 }, { 32 }, "{devices=[2,4]<=[8]}",
      "{devices=[2,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}" },
    { "E-61", 2, 1, { 4, 8 }, { 32 }, "{devices=[4,2]<=[8]}",
      "{devices=[8]0,1,2,3,4,5,6,7}" },
    { "E-62", 2, 1, { 4, 8 }, { 32 }, "{devices=[1,2]<=[2]}",
      "{replicated}" },
    { "E-63", 2, 4, { 14, 16 }, { 2, 7, 4, 4 }, "{devices=[4,8]<=[32]}",
      "{devices=[1,1,4,2,4]0,8,16,24,1,9,17,25,2,10,18,26,3,11,19,27,4,12,20,28,5,13,21,29,6,14,22,30,7,15,23,31 last_tile_dim_replicate}" },
    { "E-64", 2, 2, { 6, 4 }, { 4, 6 }, "{devices=[6,1]<=[6]}",
      "{devices=[2,1,3]0,1,2,3,4,5 last_tile_dim_replicate}" },
    { "E-65", 2, 3, { 8, 16 }, { 8, 16, 1 }, "{devices=[2,4]<=[8]}",
      "{devices=[2,4,1]0,1,2,3,4,5,6,7}" },
    { "E-66", 3, 2, { 1, 2, 16 }, { 2, 16 }, "{devices=[3,2,2]<=[12]}",
      "{devices=[2,2,3]0,1,2,3,4,5,6,7,8,9,10,11 last_tile_dim_replicate}" },
    { "E-67", 3, 4, { 1, 1, 32 }, { 1, 1, 2, 16 }, "{devices=[2,3,4]<=[24]}",
      "{devices=[2,3,2,2]0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23}" },
    { "E-68", 3, 2, { 2, 3, 5 }, { 3, 10 }, "{devices=[1,1,5]<=[5]}",
      "{replicated}" },
    { "E-69", 1, 1, { 64 }, { 64 }, "{devices=[4,2]<=[8] last_tile_dim_replicate}",
      "{devices=[4,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}" },
    { "E-70", 2, 3, { 8, 128 }, { 8, 1, 128 }, "{devices=[2,4]<=[8]}",
      "{devices=[2,1,4]0,1,2,3,4,5,6,7}" },
    { "E-71", 2, 1, { 6, 4 }, { 24 }, "{devices=[5,1]<=[5]}",
      "{replicated}" },
    { "E-72", 2, 4, { 14, 16 }, { 2, 7, 4, 4 }, "{devices=[4,8,2]<=[64] last_tile_dims={manual}}",
      "{devices=[1,1,4,2,2,4]<=[4,16]T(1,0) last_tile_dims={manual, replicated}}" },
    { "E-73", 2, 1, { 8, 6 }, { 48 }, "{devices=[2,3,2]<=[12] last_tile_dim_replicate}",
      "{devices=[2,6]0,1,2,3,4,5,6,7,8,9,10,11 last_tile_dim_replicate}" },
    { "E-74", 1, 2, { 10 }, { 2, 5 }, "{devices=[4]<=[4]}",
      "{replicated}" },
    { "E-75", 1, 2, { 12 }, { 2, 6 }, "{devices=[4]<=[4]}",
      "{devices=[2,2]0,1,2,3}" },
    { "E-76", 4, 2, { 2, 2, 2, 2 }, { 4, 4 }, "{devices=[2,1,2,1]<=[4]}",
      "{devices=[2,2]0,1,2,3}" },
};

/* clang-format on */

static sharding_id read_text(struct shardings *t, const char *text)
{
    size_t used = 0;
    sharding_id s = { 0 };
    struct diag *d = diag_new();
    if (!sharding_parse(t, NULL, NULL, 0, text, strlen(text), &used, &s, NULL, d))
        fail_msg("%s: %s", text, d->msgs.n ? d->msgs.v[0].text : "refused");
    assert_int_equal(used, strlen(text));
    diag_free(d);
    return s;
}

static void expect(struct shardings *t, const char *id, sharding_id got, const char *want)
{
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    if (got.i)
        sharding_print(t, got, NULL, false, &s);
    bool same = want ? got.i == read_text(t, want).i : got.i == 0;
    if (!same)
        fail_msg("%s: got %s, not %s", id, str_text(&s), want ? want : "none");
    arena_free(&a);
}

/* P-9..P-20: what is read is the canonical value; the canonical text, with its list, is not changed. */
static void texts_become_canonical(void **state)
{
    (void)state;
    struct shardings *t = shardings_new();
    for (size_t i = 0; i < COUNTOF(canonical); i++) {
        const char *want = canonical[i].canonical;
        expect(t, canonical[i].id, read_text(t, canonical[i].in), want);
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        struct sharding_note note;
        sharding_id id;
        size_t used;
        assert_true(sharding_parse(t, &a, NULL, 0, want, strlen(want), &used, &id, &note, NULL));
        note.text = NULL; /* make it anew, in the form that was read */
        sharding_print(t, id, &note, true, &s);
        assert_string_equal(str_text(&s), want);
        arena_free(&a);
    }
    shardings_free(t);
}

static void more_specific_orders_them(void **state)
{
    (void)state;
    struct shardings *t = shardings_new();
    for (size_t i = 0; i < COUNTOF(specific); i++) {
        sharding_id a = read_text(t, specific[i].a), b = read_text(t, specific[i].b);
        if (sharding_more_specific(t, a, b) != specific[i].over ||
            sharding_more_specific(t, b, a) != specific[i].under)
            fail_msg("%s", specific[i].id);
    }
    shardings_free(t);
}

static void compatible_ones_merge(void **state)
{
    (void)state;
    struct shardings *t = shardings_new();
    for (size_t i = 0; i < COUNTOF(merges); i++) {
        sharding_id m = read_text(t, merges[i].m), dst = read_text(t, merges[i].dst), was = dst;
        bool ok = sharding_merge_compat(t, m, &dst, -1);
        expect(t, merges[i].id, ok ? dst : (sharding_id){ 0 }, merges[i].merged);
        assert_true(ok || dst.i == was.i);
    }
    shardings_free(t);
}

static void subtilings_lie_inside(void **state)
{
    (void)state;
    struct shardings *t = shardings_new();
    for (size_t i = 0; i < COUNTOF(subtilings); i++) {
        sharding_id p = read_text(t, subtilings[i].p), s = read_text(t, subtilings[i].s);
        if (sharding_is_subtiling(t, subtilings[i].rank, subtilings[i].dims, p, s) !=
            subtilings[i].inside)
            fail_msg("%s", subtilings[i].id);
    }
    shardings_free(t);
}

static void reshapes_carry_them(void **state)
{
    (void)state;
    struct shardings *t = shardings_new();
    for (size_t i = 0; i < COUNTOF(reshapes); i++)
        expect(t, reshapes[i].id,
               sharding_through_reshape(t, reshapes[i].from_rank, reshapes[i].from,
                                        reshapes[i].to_rank, reshapes[i].to,
                                        read_text(t, reshapes[i].in)),
               reshapes[i].out);
    shardings_free(t);
}

#define EIGHT "0,1,2,3,4,5,6,7"

static void axes_are_replicated(void **state)
{
    (void)state;
    struct shardings *t = shardings_new();
    sharding_id square = read_text(t, "{devices=[2,2]0,1,2,3}");
    sharding_id manual = read_text(t, "{devices=[2,2,2]" EIGHT " last_tile_dims={manual}}");
    sharding_id copies = read_text(t, "{devices=[2,2,2]" EIGHT " last_tile_dim_replicate}");
    static const int both[] = { 0, 1 };
    expect(t, "E-77", sharding_replicate_dims(t, square, 1, both),
           "{devices=[1,2,2]0,2,1,3 last_tile_dim_replicate}");
    expect(t, "E-78", sharding_replicate_dims(t, square, 1, both + 1),
           "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}");
    expect(t, "E-79", sharding_replicate_dims(t, square, 2, both), "{replicated}");
    expect(t, "E-80", sharding_replicate_dims(t, copies, 1, both),
           "{devices=[1,2,4]0,1,4,5,2,3,6,7 last_tile_dim_replicate}");
    expect(t, "E-81", sharding_replicate_dims(t, manual, 1, both),
           "{devices=[1,2,2,2]0,4,1,5,2,6,3,7 last_tile_dims={manual, replicated}}");
    expect(t, "E-82", sharding_replicate_dims(t, manual, 2, both),
           "{devices=[1,1,2,4]0,2,4,6,1,3,5,7 last_tile_dims={manual, replicated}}");
    expect(t, "E-83", sharding_replicate_all_data(t, manual, 0),
           "{devices=[2,4]0,2,4,6,1,3,5,7 last_tile_dims={manual, replicated}}");
    expect(t, "E-84", sharding_replicate_all_data(t, read_text(t, "{maximal device=3}"), -1),
           "{replicated}");
    shardings_free(t);
}

static void axes_are_moved(void **state)
{
    (void)state;
    struct shardings *t = shardings_new();
    sharding_id copies = read_text(t, "{devices=[2,2,2]" EIGHT " last_tile_dim_replicate}");
    sharding_id six = read_text(t, "{devices=[2,3]0,1,2,3,4,5}");
    sharding_id square = read_text(t, "{devices=[2,2]0,1,2,3}");
    static const int swap[] = { 1, 0 }, zero[] = { 0 }, one[] = { 1 }, to[] = { 0, 2 };
    expect(t, "E-85", sharding_transpose(t, copies, swap),
           "{devices=[2,2,2]0,1,4,5,2,3,6,7 last_tile_dim_replicate}");
    expect(t, "E-86", sharding_reverse(t, square, 1, zero), "{devices=[2,2]2,3,0,1}");
    expect(t, "E-87",
           sharding_reverse(t, read_text(t, "{devices=[1,2,2]0,1,2,3 last_tile_dim_replicate}"), 1,
                            one),
           "{devices=[1,2,2]2,3,0,1 last_tile_dim_replicate}");
    expect(t, "E-88", sharding_along_dims(t, six, 2, swap, to, 3), "{devices=[3,1,2]0,3,1,4,2,5}");
    expect(t, "E-89", sharding_along_dims(t, six, 1, one, zero, 1),
           "{devices=[3,2]0,3,1,4,2,5 last_tile_dim_replicate}");
    expect(t, "E-90",
           sharding_along_dims(t, read_text(t, "{devices=[2,2]0,1,2,3 last_tile_dims={manual}}"), 0,
                               NULL, NULL, 2),
           "{devices=[1,1,2,2]0,2,1,3 last_tile_dims={manual, replicated}}");
    static const int forth[] = { 2, 0 }, back[] = { 1, -1, 0 };
    expect(t, "E-91", sharding_map_dims(t, square, forth, 3, back), "{devices=[2,1,2]0,2,1,3}");
    shardings_free(t);
}

/* P-32: one line for each way to be refused or accepted. */
static void candidates_are_judged(void **state)
{
    (void)state;
    struct shardings *t = shardings_new();
    const sharding_id none = { 0 };
    int64_t even[] = { 8, 8 }, odd[] = { 6, 8 };
    sharding_id r = sharding_replicated(t), d = sharding_maximal(t, 1), m = sharding_manual(t);
    sharding_id rows = read_text(t, "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
    sharding_id columns = read_text(t, "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
    sharding_id both = read_text(t, "{devices=[2,2]<=[4]}");
    sharding_id four = read_text(t, "{devices=[4,1]<=[4]}");
    sharding_id askew = read_text(t, "{devices=[4,1]0,2,1,3}");
    assert_int_equal(sharding_improved(t, m, r, true, 2, even, true, false).i, m.i);
    assert_int_equal(sharding_improved(t, d, none, true, 2, even, true, false).i, 0);
    assert_int_equal(sharding_improved(t, r, none, true, 2, even, true, false).i, r.i);
    assert_int_equal(sharding_improved(t, m, rows, true, 2, even, true, false).i, 0);
    assert_int_equal(sharding_improved(t, rows, r, true, 2, even, true, false).i, rows.i);
    assert_int_equal(sharding_improved(t, r, rows, true, 2, even, true, false).i, 0);
    assert_int_equal(sharding_improved(t, columns, rows, true, 2, even, true, false).i, both.i);
    assert_int_equal(sharding_improved(t, columns, rows, true, 2, even, false, false).i, 0);
    assert_int_equal(sharding_improved(t, four, rows, true, 2, even, true, false).i, four.i);
    assert_int_equal(sharding_improved(t, askew, rows, true, 2, even, true, false).i, 0);
    assert_int_equal(sharding_improved(t, askew, rows, true, 2, even, true, true).i, askew.i);
    assert_int_equal(sharding_improved(t, four, rows, true, 2, odd, true, false).i, 0);
    /* a tuple: one element better, none worse; the loser's elements are the candidate's (P-34) */
    sharding_id old[] = { rows, r }, cand[] = { r, rows };
    sharding_id to = sharding_tuple(t, 2, old), tc = sharding_tuple(t, 2, cand);
    assert_int_equal(sharding_improved(t, tc, to, false, 0, NULL, true, false).i, tc.i);
    assert_false(sharding_more_specific(t, tc, to));
    shardings_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_canonical),   cmocka_unit_test(more_specific_orders_them),
        cmocka_unit_test(compatible_ones_merge),    cmocka_unit_test(subtilings_lie_inside),
        cmocka_unit_test(reshapes_carry_them),      cmocka_unit_test(axes_are_replicated),
        cmocka_unit_test(axes_are_moved),           cmocka_unit_test(candidates_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
