/* Pictures read back: every rectangle of a layout says which device owns which elements, and that has
 * to be what the sharding says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "viz/views.h"

static struct ir *ir;
static struct arena arena;

static sharding_id parse(const char *text)
{
    struct source src = { "test", text, strlen(text) };
    sharding_id s;
    size_t used;
    struct diag *d = diag_new();
    assert_true(sharding_parse(ir->shardings, &arena, &src, 0, text, src.len, &used, &s, NULL, d));
    diag_free(d);
    return s;
}

static struct mesh make_mesh(const char *text)
{
    struct source src = { "test", text, strlen(text) };
    struct mesh m;
    struct diag *d = diag_new();
    assert_true(mesh_parse(ir->shardings, &arena, &src, 0, text, src.len, &m, d));
    diag_free(d);
    return m;
}

static struct scene *layout(const char *sharding, int rank, const int64_t *dims)
{
    return view_layout(ir, NULL, "x", shape_array(ir, DTYPE_F32, rank, dims), parse(sharding), NULL, &arena);
}

static char *text_of(const struct scene *s, bool ascii)
{
    struct str out = STR_IN(&arena);
    struct text_options o = { .ascii = ascii };
    scene_text(s, &o, &out);
    return arena_strdup(&arena, str_text(&out));
}

/* Checks each tile rectangle: its owner holds exactly those elements. Returns how many there were. */
static int check_tiles(const struct scene *s, const char *sharding, int rank, const int64_t *dims)
{
    sharding_id id = parse(sharding);
    int n = 0;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->role != ROLE_TILE || it->state & STATE_PADDING)
            continue;
        int64_t index[8];
        assert_true(sharding_tile_index(ir->shardings, id, it->device, index));
        int64_t local[8];
        sharding_shard_dims(ir->shardings, id, rank, dims, local);
        for (int d = 0; d < rank; d++) {
            assert_int_equal(it->tile[d], index[d]);
            assert_int_equal(it->from[d], min_i64(index[d] * local[d], dims[d]));
            assert_int_equal(it->to[d], min_i64((index[d] + 1) * local[d], dims[d]));
        }
        n++;
    }
    return n;
}

static void tiles_read_back_against_the_sharding(void **state)
{
    (void)state;
    static const struct {
        const char *sharding;
        int rank, tiles;
        int64_t dims[3];
    } cases[] = {
        { "{devices=[2,4]<=[8]}", 2, 8, { 8, 16 } },
        { "{devices=[4,2]<=[2,4]T(1,0)}", 2, 8, { 8, 16 } },
        { "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2, 4, { 8, 16 } },
        { "{devices=[8]<=[8]}", 1, 8, { 17 } },
        { "{devices=[2,2,2]<=[8]}", 3, 8, { 7, 4, 6 } },
        { "{devices=[2,2]3,1,0,2}", 2, 4, { 5, 5 } },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct scene *s = layout(cases[i].sharding, cases[i].rank, cases[i].dims);
        assert_int_equal(check_tiles(s, cases[i].sharding, cases[i].rank, cases[i].dims), cases[i].tiles);
    }
}

static void copies_and_padding_are_said_in_words(void **state)
{
    (void)state;
    char *t = text_of(layout("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2, (int64_t[]){ 8, 16 }), true);
    assert_non_null(strstr(t, "0,4 x2"));
    assert_non_null(strstr(t, "2 copies of each"));
    assert_non_null(strstr(t, "local f32[8,4]"));
    t = text_of(layout("{devices=[8]<=[8]}", 1, (int64_t[]){ 17 }), true);
    assert_non_null(strstr(t, "padding 7 elements"));
    assert_non_null(strstr(t, "#"));
    t = text_of(layout("{devices=[4]<=[4]}", 1, (int64_t[]){ 8 }), true);
    assert_null(strstr(t, "padding"));
}

static void ascii_has_no_other_character_and_fits_80_columns(void **state)
{
    (void)state;
    char *t = text_of(layout("{devices=[2,4]<=[8]}", 2, (int64_t[]){ 8, 16 }), true);
    int column = 0;
    for (char *p = t; *p; p++) {
        assert_in_range((unsigned char)*p, 10, 126);
        column = *p == '\n' ? 0 : column + 1;
        assert_true(column <= 80);
    }
    assert_non_null(strstr(text_of(layout("{devices=[2,4]<=[8]}", 2, (int64_t[]){ 8, 16 }), false), "┼"));
}

static void a_million_devices_make_no_larger_a_picture(void **state)
{
    (void)state;
    int64_t before = arena.bytes;
    char *t = text_of(layout("{devices=[1024,1024]<=[1048576]}", 2, (int64_t[]){ 1 << 20, 1 << 20 }), true);
    assert_non_null(strstr(t, "1048575"));
    assert_non_null(strstr(t, "1020 more"));
    assert_true(strlen(t) < 4000);
    assert_true(arena.bytes - before < 2000000);
}

static void svg_is_balanced_and_names_the_devices(void **state)
{
    (void)state;
    struct str out = STR_IN(&arena);
    scene_svg(layout("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", 2, (int64_t[]){ 9, 16 }), &out);
    const char *s = str_text(&out);
    int depth = 0;
    for (const char *p = s; (p = strchr(p, '<')); p++) {
        if (p[1] == '/')
            depth--;
        else if (strchr(p, '>')[-1] != '/')
            depth++;
        assert_true(depth >= 0);
    }
    assert_int_equal(depth, 0);
    assert_non_null(strstr(s, "0,1,2,3 x4"));
    assert_non_null(strstr(s, "url(#pad)"));
    assert_non_null(strstr(s, "url(#copies"));
}

static void text_from_files_is_escaped(void **state)
{
    (void)state;
    struct str out = STR_IN(&arena);
    struct scene *s = view_layout(ir, NULL, "<b>&\"\x1b", shape_array(ir, DTYPE_F32, 1, (int64_t[]){ 8 }),
                                  parse("{devices=[2]<=[2]}"), NULL, &arena);
    scene_svg(s, &out);
    assert_null(strstr(str_text(&out), "<b>"));
    assert_null(strchr(str_text(&out), 0x1b));
    assert_non_null(strstr(str_text(&out), "&lt;b&gt;&amp;&quot;\\x1b"));
}

static void mesh_cells_hold_the_right_devices(void **state)
{
    (void)state;
    struct mesh m = make_mesh("data=2 model=4 order=[4,2]T(1,0)");
    struct scene *s = view_mesh(ir, &m, 1, &arena);
    int64_t cell = 0;
    int links = 0;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        links += it->role == ROLE_LINK;
        if (it->role == ROLE_TILE)
            assert_int_equal(it->device, order_device(ir->shardings, m.order, cell++));
    }
    assert_int_equal(cell, 8);
    assert_int_equal(links, 6);
    char *t = text_of(s, true);
    assert_non_null(strstr(t, "model ->"));
    assert_non_null(strstr(t, "data v"));
}

/* What each tool for shardings tells of one tensor, told here too, of any rank: JAX's visualize_array_sharding
 * (owners, to scale), its debug tables (shapes), DTensor's visualize_sharding (ranges), scaling-book pictures
 * (order of devices, copies), torch_xla's (replicas), roofline sheets (bytes), XLA's own padding. */
static void the_facts_that_tools_show(void **state)
{
    (void)state;
    static const struct {
        const char *sharding;
        int rank;
        int64_t dims[6];
        const char *facts[8];
    } cases[] = {
        { "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", 2, { 10, 6 },
          { "f32[10,6]", "local f32[5,6]", "0,1,2,3 x4", "4,5,6,7 x4", "5:10", "4 copies of each", "120 bytes a device" } },
        { "{devices=[4,2]<=[2,4]T(1,0)}", 2, { 8, 4 }, /* a transposed order */
          { "local f32[2,2]", "│           0           │           4           │", "8 tiles", "16 bytes a device" } },
        { "{devices=[4]<=[4]}", 1, { 10 }, { "local f32[3]", "9:10", "padding 2 elements", "12 bytes a device" } },
        { "{devices=[2,2,2]<=[8]}", 3, { 4, 4, 4 }, { "dim 0 = 0:2", "dim 0 = 2:4", "local f32[2,2,2]", "8 tiles" } },
        { "{devices=[2,2,2,2]<=[16]}", 4, { 4, 4, 4, 4 }, { "dim 0 = 0:2, dim 1 = 2:4", "12", "16 tiles" } },
        { "{devices=[1,2,1,2,2]<=[8]}", 5, { 3, 4, 3, 4, 4 }, { "dim 1 = 2:4", "local f32[3,2,3,2,2]", "7" } },
        { "{devices=[2,1,2,1,2,1]<=[8]}", 6, { 4, 2, 4, 2, 4, 2 }, { "dim 0 = 2:4", "local f32[2,2,2,2,2,2]", "256 bytes a device" } },
    };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        const char *t = text_of(layout(cases[k].sharding, cases[k].rank, cases[k].dims), false);
        for (size_t f = 0; f < COUNTOF(cases[k].facts) && cases[k].facts[f]; f++)
            if (!strstr(t, cases[k].facts[f]))
                fail_msg("%s does not tell %s:\n%s", cases[k].sharding, cases[k].facts[f], t);
    }
}

static int set_up(void **state)
{
    (void)state;
    ir = ir_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ir_free(ir);
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_read_back_against_the_sharding),
        cmocka_unit_test(copies_and_padding_are_said_in_words),
        cmocka_unit_test(ascii_has_no_other_character_and_fits_80_columns),
        cmocka_unit_test(a_million_devices_make_no_larger_a_picture),
        cmocka_unit_test(svg_is_balanced_and_names_the_devices),
        cmocka_unit_test(text_from_files_is_escaped),
        cmocka_unit_test(mesh_cells_hold_the_right_devices),
        cmocka_unit_test(the_facts_that_tools_show),
    };
    return cmocka_run_group_tests_name("viz", tests, set_up, tear_down);
}
