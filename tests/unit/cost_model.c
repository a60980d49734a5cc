/* Work, live memory, hardware and collective times on small programs whose answers are worked out by
 * hand in the comments. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cost_fixture.h"

static const char head[] = "HloModule m\n"
                           "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n";

static const char *with_head(const char *body)
{
    static char text[8192];
    snprintf(text, sizeof text, "%s%s", head, body);
    return text;
}

/* ---- work ---------------------------------------------------------------------------------------------- */

static void work_is_counted_as_xla_does(void **state)
{
    (void)state;
    struct fixture f = open_text(
        with_head("ENTRY e { x = f32[4,8,16] parameter(0)\n w = f32[4,16,32] parameter(1)\n"
                  " img = f32[2,5,5,3] parameter(2)\n k = f32[3,3,3,7] parameter(3)\n z = f32[] constant(0)\n"
                  " d = f32[4,8,32] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
                  " cv = f32[2,5,5,7] convolution(img, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n"
                  " r = f32[4,8] reduce(d, z), dimensions={2}, to_apply=add\n"
                  " t = f32[4,8] exponential(r)\n s = f32[4,8] add(t, r)\n"
                  " ROOT o = (f32[4,8], f32[2,5,5,7]) tuple(s, cv) }\n"),
        NULL);
    struct work w;
    cost_work(f.m, named(f.m, "d"), &w);
    assert_true(w.flops == 2.0 * 4 * 8 * 32 * 16 && w.matrix);
    /* 3 window positions over 5 outputs with one of padding at each end: 4 + 5 + 4 meet the image. */
    cost_work(f.m, named(f.m, "cv"), &w);
    assert_true(w.flops == 2.0 * 2 * 3 * 7 * 13 * 13 && w.matrix);
    cost_work(f.m, named(f.m, "r"), &w);
    assert_true(w.flops == 4 * 8 * 32 - 4 * 8);
    cost_work(f.m, named(f.m, "t"), &w);
    assert_true(w.flops == 0 && w.transcendentals == 32);
    cost_work(f.m, named(f.m, "s"), &w);
    assert_true(w.flops == 32);
    close_text(&f);
}

static void strided_and_dilated_convolutions(void **state)
{
    (void)state;
    struct fixture f = open_text(
        "HloModule m\nENTRY e { x = f32[1,9,1] parameter(0)\n k = f32[3,1,1] parameter(1)\n"
        " a = f32[1,4,1] convolution(x, k), window={size=3 stride=2}, dim_labels=b0f_0io->b0f\n"
        " b = f32[1,17,1] convolution(x, k), window={size=3 pad=1_1 lhs_dilate=2}, dim_labels=b0f_0io->b0f\n"
        " ROOT t = (f32[1,4,1], f32[1,17,1]) tuple(a, b) }\n",
        NULL);
    struct work w;
    cost_work(f.m, named(f.m, "a"), &w);
    assert_true(w.flops == 2.0 * 12); /* 4 outputs, all three taps inside */
    /* Every output meets the elements at even places of 17: 9 by the middle tap, 8 by each outer one. */
    cost_work(f.m, named(f.m, "b"), &w);
    assert_true(w.flops == 2.0 * (8 + 9 + 8));
    close_text(&f);
}

static void loops_count_once_or_by_their_turns(void **state)
{
    (void)state;
    struct fixture f = open_text(
        "HloModule m\n"
        "body { p = (s32[], f32[8,8]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n one = s32[] constant(1)\n"
        " n = s32[] add(i, one)\n x = f32[8,8] get-tuple-element(p), index=1\n"
        " d = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT t = (s32[], f32[8,8]) tuple(n, d) }\n"
        "cond { p = (s32[], f32[8,8]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n l = s32[] constant(5)\n"
        " ROOT c = pred[] compare(i, l), direction=LT }\n"
        "ENTRY e { z = s32[] constant(0)\n x = f32[8,8] parameter(0)\n t = (s32[], f32[8,8]) tuple(z, x)\n"
        " w = (s32[], f32[8,8]) while(t), condition=cond, body=body\n ROOT o = f32[8,8] get-tuple-element(w), index=1 }\n",
        NULL);
    assert_true(cost_matrix_flops(f.plan, true) == 1024);
    assert_true(cost_matrix_flops(f.plan, false) == 5 * 1024);
    close_text(&f);
}

/* ---- memory --------------------------------------------------------------------------------------------- */

static void elementwise_chains_have_no_buffers(void **state)
{
    (void)state;
    const char *text = "HloModule m\nENTRY e { x = f32[256] parameter(0)\n a = f32[256] add(x, x)\n b = f32[256] multiply(a, x)\n"
                       " c = f32[256] subtract(b, a)\n ROOT d = f32[256] negate(c) }\n";
    struct fixture f = open_text(text, NULL);
    assert_int_equal(f.memory->temporaries, 0);
    assert_int_equal(f.memory->peak, 2 * 1024); /* x and the result */
    close_text(&f);
    struct cost_options o = { .no_fusion = true };
    f = open_text(text, &o);
    assert_int_equal(f.memory->peak, 3 * 1024); /* a dies where c is written: c takes its place or b's */
    close_text(&f);
}

/* Two products of 1,024 bytes each are alive at once before their sum. */
static const char two_products[] =
    "HloModule m%s\nENTRY e { x = f32[16,16] parameter(0)\n y = f32[16,16] parameter(1)\n"
    " a = f32[16,16] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " b = f32[16,16] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " c = f32[16,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " ROOT t = (f32[16,16]) tuple(c) }\n";

static void arguments_outputs_and_peak(void **state)
{
    (void)state;
    char text[2048];
    snprintf(text, sizeof text, two_products, "");
    struct fixture f = open_text(text, NULL);
    assert_int_equal(f.memory->arguments, 2048);
    assert_int_equal(f.memory->outputs, 1024 + 8); /* and the tuple's table */
    assert_int_equal(f.memory->aliased, 0);
    assert_int_equal(f.memory->peak, 5 * 1024);        /* x y a b c */
    assert_int_equal(f.memory->temporaries, 2 * 1024); /* c has the output's allocation; a and b meet it */
    assert_string_equal(name_text(f.ir, instr_at(f.m, f.memory->at)->name), "c");
    assert_int_equal(f.memory->nlive, 5);
    close_text(&f);
}

static void donated_arguments_hold_results(void **state)
{
    (void)state;
    char text[2048];
    snprintf(text, sizeof text, two_products, ", input_output_alias={ {0}: (0, {}, may-alias) }");
    struct fixture f = open_text(text, NULL);
    assert_int_equal(f.memory->aliased, 1024);
    assert_int_equal(f.memory->peak, 4 * 1024); /* c is written where x was: x has no reader left */
    close_text(&f);
    snprintf(text, sizeof text, two_products, ", buffer_donor={ (1, {}) }");
    f = open_text(text, NULL);
    assert_int_equal(f.memory->aliased, 1024);
    close_text(&f);
}

/* An argument that is still read when its result is made cannot hold it: a copy is needed. */
static void donation_waits_for_the_last_reader(void **state)
{
    (void)state;
    struct fixture f = open_text(
        "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n"
        "ENTRY e { x = f32[16,16] parameter(0)\n"
        " a = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " b = f32[16,16] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT t = (f32[16,16], f32[16,16]) tuple(a, b) }\n",
        NULL);
    assert_int_equal(f.memory->aliased, 1024);
    assert_int_equal(f.memory->peak, 3 * 1024); /* x, a apart from it, b */
    close_text(&f);
}

/* A stack of results is written in place; what the loop only reads stays where it is. */
static void loops_carry_in_place(void **state)
{
    (void)state;
    struct fixture f = open_text(
        "HloModule m\n"
        "body { p = (s32[], f32[4,1024], f32[1024]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
        " one = s32[] constant(1)\n zero = s32[] constant(0)\n n = s32[] add(i, one)\n"
        " s = f32[4,1024] get-tuple-element(p), index=1\n w = f32[1024] get-tuple-element(p), index=2\n"
        " r = f32[1,1024] reshape(w)\n e = f32[1,1024] exponential(r)\n"
        " u = f32[4,1024] dynamic-update-slice(s, e, i, zero)\n"
        " ROOT t = (s32[], f32[4,1024], f32[1024]) tuple(n, u, w) }\n"
        "cond { p = (s32[], f32[4,1024], f32[1024]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
        " l = s32[] constant(4)\n ROOT c = pred[] compare(i, l), direction=LT }\n"
        "ENTRY e { z = s32[] constant(0)\n zf = f32[] constant(0)\n w = f32[1024] parameter(0)\n"
        " s = f32[4,1024] broadcast(zf), dimensions={}\n t = (s32[], f32[4,1024], f32[1024]) tuple(z, s, w)\n"
        " l = (s32[], f32[4,1024], f32[1024]) while(t), condition=cond, body=body\n"
        " ROOT o = f32[4,1024] get-tuple-element(l), index=1 }\n",
        NULL);
    assert_int_equal(f.memory->outputs, 16384);
    /* w, the stack once, the counter and its test */
    assert_true(f.memory->peak >= 4096 + 16384 && f.memory->peak <= 4096 + 16384 + 32);
    assert_true(f.memory->temporaries <= 192); /* scalars, at multiples of 64 */
    close_text(&f);
}

/* The operand with the larger cone is made first: of a [small from large] and b [small from small] the
 * large cone is gone before b's begins. */
static void the_schedule_keeps_the_peak_low(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m%s\n"
        "ENTRY e { x = f32[4,4] parameter(0)\n y = f32[4,1024] parameter(1)\n"
        " s = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " s1 = f32[4,1024] dot(s, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " l = f32[1024,1024] dot(y, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " r = f32[1024,4] dot(l, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        " ROOT o = f32[4,4] dot(s1, r), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n";
    char plain[2048], scheduled[2048];
    snprintf(plain, sizeof plain, text, "");
    snprintf(scheduled, sizeof scheduled, text, ", is_scheduled=true");
    struct fixture a = open_text(plain, NULL), b = open_text(scheduled, NULL);
    /* In the text's order s1, 16 KiB, waits beside l, 4 MiB. */
    assert_int_equal(b.memory->peak - a.memory->peak, 16384);
    close_text(&a);
    close_text(&b);
}

/* One step of training: a weight that a loop multiplies with, its moment, a batch; what the forward pass
 * makes and the backward pass reads is an activation, what has the weight's shape there a gradient. */
static void buffers_have_their_kinds(void **state)
{
    (void)state;
    struct fixture f = open_text(
        "HloModule m\n"
        "ENTRY e { w = f32[16,32] parameter(0), metadata={op_name=\"p['w']\"}\n v = f32[16,32] parameter(1), metadata={op_name=\"opt['m']\"}\n"
        " x = f32[8,16] parameter(2), metadata={op_name=\"batch\"}\n"
        " h = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name=\"jit(f)/jvp(a)/dot\"}\n"
        " e = f32[8,32] exponential(h), metadata={op_name=\"jit(f)/jvp(a)/exp\"}\n"
        " g = f32[16,32] dot(x, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}, metadata={op_name=\"jit(f)/transpose(jvp(a))/dot\"}\n"
        " k = f32[32,32] dot(g, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " d = f32[16,32] dot(g, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " y = f32[8,32] dot(x, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " z = f32[8,32] add(y, e), metadata={op_name=\"jit(f)/transpose(jvp(a))/add\"}\n"
        " nw = f32[16,32] subtract(w, d)\n nv = f32[16,32] add(v, g)\n"
        " ROOT t = (f32[16,32], f32[16,32], f32[8,32]) tuple(nw, nv, z) }\n",
        &(struct cost_options){ .plain_matrix = true });
    assert_int_equal(f.memory->by_kind[MEMORY_PARAMETERS], 16 * 32 * 4);
    assert_int_equal(f.memory->by_kind[MEMORY_OPTIMIZER], 16 * 32 * 4);
    assert_int_equal(f.memory->by_kind[MEMORY_INPUTS], 8 * 16 * 4);
    assert_int_equal(f.memory->by_kind[MEMORY_ACTIVATIONS], 8 * 32 * 4);
    assert_int_equal(f.memory->by_kind[MEMORY_GRADIENTS], 16 * 32 * 4);
    close_text(&f);
}

static void room_for_a_larger_batch(void **state)
{
    (void)state;
    struct memory m = { .peak = 100 };
    m.by_kind[MEMORY_PARAMETERS] = 60;
    m.by_kind[MEMORY_ACTIVATIONS] = 40;
    assert_true(fabs(memory_batch_room(&m, 140) - 2.0) < 1e-12);
    assert_true(memory_batch_room(&m, 50) == 0);
}

/* ---- hardware ---------------------------------------------------------------------------------------------- */

static struct hardware *shipped(const char *name)
{
    struct source src = { .name = name };
    struct diag *d = diag_new();
    src.text = hardware_text(name, &src.len);
    assert_non_null(src.text);
    struct hardware *h = hardware_read(&src, d);
    if (!h)
        fail_msg("%s: %s", name, d->msgs.v[0].text);
    diag_free(d);
    return h;
}

static void every_shipped_file_reads(void **state)
{
    (void)state;
    int n = 0;
    for (const char *const *k = hardware_names(); *k; k++, n++) {
        struct hardware *h = shipped(*k);
        assert_string_equal(h->name, *k);
        assert_true(h->bf16.value > 1e12 && h->memory.value > 1e9 && h->level[0].bandwidth.value > 1e9);
        hardware_free(h);
    }
    assert_true(n >= 11);
    assert_null(hardware_text("no-such", &(size_t){ 0 }));
}

static void numbers_without_a_source_are_refused(void **state)
{
    (void)state;
    size_t n;
    const char *text = hardware_text("h100", &n);
    char *copy = strdup(text);
    char *at = strstr(copy, "\"source\"");
    assert_non_null(at);
    memcpy(at, "\"sourcx\"", 8);
    struct source src = { "mine.json", copy, strlen(copy) };
    struct diag *d = diag_new();
    assert_null(hardware_read(&src, d));
    assert_non_null(strstr(d->msgs.v[0].text, "needs a unit and a source"));
    diag_free(d);
    free(copy);
    src = (struct source){ "mine.json", "[1]", 3 };
    assert_null(hardware_read(&src, NULL));
}

static void machines_are_cut_like_slices(void **state)
{
    (void)state;
    struct hardware *v3 = shipped("tpu-v3"), *h100 = shipped("h100"), *v4 = shipped("tpu-v4");
    struct machine m;
    assert_true(machine_make(v3, 128, 0, NULL, &m, NULL)); /* 64 chips: 8 x 8 x 2 cores, no rings */
    assert_int_equal(m.naxes, 3);
    assert_int_equal(m.axes[0].size, 8);
    assert_int_equal(m.axes[1].size, 8);
    assert_int_equal(m.axes[2].size, 2);
    assert_int_equal(m.axes[0].stride, 16);
    assert_false(m.axes[0].wrap);
    assert_true(machine_make(v3, 2048, 0, NULL, &m, NULL)); /* the whole pod: rings of 32 */
    assert_true(m.axes[0].size == 32 && m.axes[0].wrap && m.axes[1].wrap);
    assert_true(machine_make(v3, 4096, 0, NULL, &m, NULL)); /* two pods: the next level */
    assert_int_equal(m.axes[0].level, 1);
    assert_int_equal(m.axes[0].size, 2);
    assert_true(machine_make(h100, 64, 0, NULL, &m, NULL)); /* 8 nodes of 8 */
    assert_int_equal(m.naxes, 2);
    assert_true(m.axes[0].level == 1 && m.axes[0].size == 8 && m.axes[1].level == 0 && m.axes[1].size == 8);
    int64_t shape[2] = { 4, 16 };
    assert_true(machine_make(v3, 128, 2, shape, &m, NULL));
    assert_true(m.axes[0].size == 4 && m.axes[1].size == 16);
    int64_t wrong[2] = { 3, 5 };
    assert_false(machine_make(v3, 128, 2, wrong, &m, NULL));
    assert_true(machine_make(v4, 64, 0, NULL, &m, NULL));
    assert_true(m.naxes == 3 && m.axes[0].size == 4 && m.axes[0].wrap);
    hardware_free(v3);
    hardware_free(h100);
    hardware_free(v4);
}

/* ---- collectives on links -------------------------------------------------------------------------------------- */

/* One collective over groups [ng, size] of `order`; bytes of the operand. */
static double seconds(const struct hardware *h, int64_t devices, const char *kind, const char *shape, const char *result,
                      const char *groups, struct link_use *use)
{
    char text[2048];
    bool reduces = !strncmp(kind, "all-reduce", 10);
    snprintf(text, sizeof text,
             "%sENTRY e { x = %s parameter(0)\n ROOT r = %s %s(x), channel_id=1, replica_groups=%s, use_global_device_ids=true%s%s }\n",
             head, shape, result, kind, groups, reduces ? "" : ", dimensions={0}", reduces ? ", to_apply=add" : "");
    struct fixture f = open_text(text, NULL);
    struct arena a = { 0 };
    struct collective *list;
    assert_int_equal(collectives_list(f.m, devices, 1, &a, &list, NULL), 1);
    struct machine m;
    assert_true(machine_make(h, devices, 0, NULL, &m, NULL));
    m.calibration = (struct calibration){ 1, 1, 1, 1, 1, 0 };
    double s = collective_seconds(&m, f.m, &list[0], use);
    arena_free(&a);
    close_text(&f);
    return s;
}

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-9 * fabs(want))
        fail_msg("got %.12g, want %.12g", got, want);
}

static void rings_lines_and_tori(void **state)
{
    (void)state;
    struct hardware *h = shipped("tpu-v5e"); /* rings on axes of 16 only */
    const double w = h->level[0].bandwidth.value, hop = h->level[0].latency.value, mb = 4 * 1024 * 1024;
    struct link_use u;
    /* 256 chips, 16 x 16: along the second axis, a ring, both directions; V is the gathered 16 MB x.. */
    seconds(h, 256, "all-gather", "f32[1048576]", "f32[16777216]", "[16,16]<=[256]", &u);
    near(u.bytes, 16 * mb);
    near(u.transfer, 16 * mb * 15 / 16 / (2 * w));
    near(u.latency, 8 * hop);
    /* Along the first one: the same, the links are that axis' own. */
    seconds(h, 256, "all-gather", "f32[1048576]", "f32[16777216]", "[16,16]<=[16,16]T(1,0)", &u);
    near(u.transfer, 16 * mb * 15 / 16 / (2 * w));
    /* Both axes: twice the bandwidth. An all-reduce goes round twice. */
    seconds(h, 256, "all-gather", "f32[65536]", "f32[16777216]", "[1,256]<=[256]", &u);
    near(u.transfer, 16 * mb * 255 / 256 / (4 * w));
    seconds(h, 256, "all-reduce", "f32[1048576]", "f32[1048576]", "[16,16]<=[256]", &u);
    near(u.transfer, 2 * mb * 15 / 16 / (2 * w));
    /* 16 chips are 4 x 4 without rings: a line has one direction's worth. */
    seconds(h, 16, "all-gather", "f32[1048576]", "f32[4194304]", "[4,4]<=[16]", &u);
    near(u.transfer, 4 * mb * 3 / 4 / w);
    near(u.latency, 3 * hop);
    /* Groups of every second chip of a line: two of them share its links. */
    seconds(h, 16, "all-gather", "f32[1048576]", "f32[2097152]", "[8,2]<=[4,2,2]T(0,2,1)", &u);
    near(u.transfer, 2 * mb / 2 / (w / 2));
    /* All to all on a ring: a quarter of the all-gather of the same whole (V here is one device's). */
    double gather = seconds(h, 256, "all-gather", "f32[1048576]", "f32[16777216]", "[16,16]<=[256]", &u);
    (void)gather;
    double full = 16 * mb / (2 * w);
    seconds(h, 256, "all-to-all", "f32[1048576]", "f32[1048576]", "[16,16]<=[256]", &u);
    near(u.transfer, full / 4);
    hardware_free(h);
}

/* A turn by one on a line of 4 sends three pieces up one hop and one back over all three links, each
 * direction free for it; on a ring of 16 all go up one. */
static void permutes_use_both_directions(void **state)
{
    (void)state;
    struct hardware *h = shipped("tpu-v5e");
    const double w = h->level[0].bandwidth.value, mb = 4 * 1024 * 1024;
    struct link_use u;
    for (int k = 0; k < 2; k++) {
        int64_t line = k ? 16 : 4, n = line * line;
        char text[8192];
        int at = snprintf(text, sizeof text,
                          "HloModule m\nENTRY e { x = f32[1048576] parameter(0)\n ROOT r = f32[1048576] collective-permute(x), channel_id=1, source_target_pairs={");
        for (int64_t d = 0; d < n; d++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s{%" PRId64 ",%" PRId64 "}", d ? "," : "", d, d / line * line + (d + 1) % line);
        snprintf(text + at, sizeof text - (size_t)at, "} }\n");
        struct fixture f = open_text(text, NULL);
        struct arena a = { 0 };
        struct collective *list;
        assert_int_equal(collectives_list(f.m, n, 1, &a, &list, NULL), 1);
        struct machine m;
        assert_true(machine_make(h, n, 0, NULL, &m, NULL));
        m.calibration = (struct calibration){ 1, 1, 1, 1, 1, 0 };
        collective_seconds(&m, f.m, &list[0], &u);
        near(u.transfer, mb / w);
        near(u.latency, (k ? 1 : 3) * h->level[0].latency.value);
        arena_free(&a);
        close_text(&f);
    }
    hardware_free(h);
}

static void cores_of_a_chip_share_links(void **state)
{
    (void)state;
    struct hardware *h = shipped("tpu-v3");
    const double w = h->level[0].bandwidth.value, mb = 4 * 1024 * 1024;
    struct link_use u;
    /* 32 cores, 16 chips, 4 x 4 x 2: groups of 4 chips' first cores and second cores share a line. */
    seconds(h, 32, "all-gather", "f32[1048576]", "f32[4194304]", "[8,4]<=[4,4,2]T(0,2,1)", &u);
    near(u.transfer, 4 * mb * 3 / 4 / (w / 2));
    /* With both cores in the group a chip takes in what it lacks once. */
    seconds(h, 32, "all-gather", "f32[1048576]", "f32[8388608]", "[4,8]<=[32]", &u);
    near(u.transfer, 8 * mb * 3 / 4 / w);
    hardware_free(h);
}

static void switches_and_levels(void **state)
{
    (void)state;
    struct hardware *h = shipped("h100");
    const double nv = h->level[0].bandwidth.value, ib = h->level[1].bandwidth.value, mb = 4 * 1024 * 1024;
    struct link_use u;
    seconds(h, 8, "all-gather", "f32[1048576]", "f32[8388608]", "[1,8]<=[8]", &u);
    near(u.transfer, 8 * mb * 7 / 8 / nv);
    /* Across 4 nodes, one device of each: its own port. */
    seconds(h, 32, "all-gather", "f32[1048576]", "f32[4194304]", "[8,4]<=[4,8]T(1,0)", &u);
    near(u.transfer, 4 * mb * 3 / 4 / ib);
    /* All 32: eight ports a node share the work outside; the slower level counts. */
    seconds(h, 32, "all-gather", "f32[1048576]", "f32[33554432]", "[1,32]<=[32]", &u);
    double outside = 32 * mb * 3 / 4 / (8 * ib), inside = 32 * mb * 7 / 8 / nv;
    near(u.transfer, outside > inside ? outside : inside);
    hardware_free(h);
}

/* A mesh of 1,048,576 devices costs what one of 8 does: the same visits, the same figures for equal
 * local programs. */
static void devices_cost_nothing(void **state)
{
    (void)state;
    struct hardware *h = shipped("h100");
    char text[2048];
    int64_t visits[2], bytes[2];
    for (int k = 0; k < 2; k++) {
        int64_t n = k ? 1048576 : 8;
        snprintf(text, sizeof text,
                 "%sENTRY e { x = f32[64,64] parameter(0)\n d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                 " ROOT r = f32[64,64] all-reduce(d), channel_id=1, replica_groups=[%" PRId64 ",4]<=[%" PRId64 "], use_global_device_ids=true, to_apply=add }\n",
                 head, n / 4, n);
        struct fixture f = open_text(text, NULL);
        struct machine m;
        assert_true(machine_make(h, n, 0, NULL, &m, NULL));
        struct cost *c = cost_of(f.plan, &m, OVERLAP_NONE, 1);
        visits[k] = f.plan->visits + f.memory->nbuffers;
        bytes[k] = f.plan->arena.bytes + f.memory->arena.bytes + c->arena.bytes;
        cost_free(c);
        close_text(&f);
    }
    assert_int_equal(visits[0], visits[1]);
    assert_int_equal(bytes[0], bytes[1]);
    hardware_free(h);
}

/* ---- time ---------------------------------------------------------------------------------------------------------- */

static void a_kernel_takes_the_longer_of_both(void **state)
{
    (void)state;
    struct hardware *h = shipped("a100");
    struct cost_options plain = { .plain_matrix = true };
    struct fixture f = open_text("HloModule m\nENTRY e { x = bf16[1024,1024] parameter(0)\n"
                                 " d = bf16[1024,1024] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                                 " ROOT r = bf16[1024,1024] exponential(d) }\n",
                                 &plain);
    struct machine m;
    assert_true(machine_make(h, 1, 0, NULL, &m, NULL));
    m.calibration = (struct calibration){ 0.5, 1, 1, 1, 1, 0 };
    struct cost *c = cost_of(f.plan, &m, OVERLAP_NONE, 1);
    double flops = 2.0 * 1024 * 1024 * 1024, bytes = 2.0 * 1024 * 1024;
    double product = flops / (h->bf16.value * 0.5), map = 2 * bytes / h->bandwidth.value;
    double map_flops = 4.0 * 1024 * 1024 / h->vector.value;
    assert_true(fabs(c->step - (product + (map > map_flops ? map : map_flops))) < 1e-6 * c->step);
    assert_true(fabs(c->utilisation - flops / h->bf16.value / c->step) < 1e-6);
    cost_free(c);
    close_text(&f);
    hardware_free(h);
}

/* A product ends in the elementwise operation that is its only user, and reads through a convert. */
static void matrix_operations_take_their_neighbours(void **state)
{
    (void)state;
    static const char text[] = "HloModule m\nENTRY e { x = f32[1024,1024] parameter(0)\n b = bf16[1024,1024] convert(x)\n"
                               " d = bf16[1024,1024] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               " ROOT r = bf16[1024,1024] exponential(d) }\n";
    struct cost_options plain = { .plain_matrix = true };
    struct fixture a = open_text(text, NULL), b = open_text(text, &plain);
    const struct kernel *k = &a.plan->kernel[named(a.m, "r").i];
    assert_true(a.plan->fused[named(a.m, "d").i] && a.plan->fused[named(a.m, "b").i]);
    assert_true(k->matrix.i == named(a.m, "d").i && k->matrix_flops == 2.0 * 1024 * 1024 * 1024);
    assert_true(k->in_bytes == 4 << 20 && k->out_bytes == 2 << 20);
    assert_false(b.plan->fused[named(b.m, "d").i]);
    assert_true(a.memory->peak < b.memory->peak);
    close_text(&a);
    close_text(&b);
}

/* start .. done hides behind what is between; overlap=full hides all of it. */
static void overlap_where_it_is_written(void **state)
{
    (void)state;
    struct hardware *h = shipped("h100");
    static const char async[] =
        "%sENTRY e { x = f32[2048,2048] parameter(0)\n"
        " s = f32[2048,2048] all-reduce-start(x), channel_id=1, replica_groups=[1,8]<=[8], use_global_device_ids=true, to_apply=add\n"
        " d = f32[2048,2048] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " r = f32[2048,2048] all-reduce-done(s)\n ROOT t = (f32[2048,2048], f32[2048,2048]) tuple(d, r) }\n";
    char text[4096];
    int n = snprintf(text, sizeof text, async, head);
    (void)n;
    char *at = strstr(text, "HloModule m");
    memmove(at + 11 + 19, at + 11, strlen(at + 11) + 1);
    memcpy(at + 11, ", is_scheduled=true", 19);
    struct fixture f = open_text(text, NULL);
    struct machine m;
    assert_true(machine_make(h, 8, 0, NULL, &m, NULL));
    m.calibration = (struct calibration){ 1, 1, 1, 1, 1, 0 };
    struct cost *c = cost_of(f.plan, &m, OVERLAP_NONE, 1);
    const struct op_time *s = &c->of[named(f.m, "s").i], *d = &c->of[named(f.m, "d").i];
    double late = (double)s->comm - (double)d->total;
    assert_true(s->comm > 0 && d->total > 0);
    assert_true(fabs((double)s->exposed - (late > 0 ? late : 0)) < 1e-9);
    assert_true(fabs(c->step - ((double)d->total + (double)s->exposed)) < 1e-9);
    cost_free(c);
    close_text(&f);
    hardware_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_counted_as_xla_does),
        cmocka_unit_test(strided_and_dilated_convolutions),
        cmocka_unit_test(loops_count_once_or_by_their_turns),
        cmocka_unit_test(elementwise_chains_have_no_buffers),
        cmocka_unit_test(arguments_outputs_and_peak),
        cmocka_unit_test(donated_arguments_hold_results),
        cmocka_unit_test(donation_waits_for_the_last_reader),
        cmocka_unit_test(loops_carry_in_place),
        cmocka_unit_test(the_schedule_keeps_the_peak_low),
        cmocka_unit_test(buffers_have_their_kinds),
        cmocka_unit_test(room_for_a_larger_batch),
        cmocka_unit_test(every_shipped_file_reads),
        cmocka_unit_test(numbers_without_a_source_are_refused),
        cmocka_unit_test(machines_are_cut_like_slices),
        cmocka_unit_test(rings_lines_and_tori),
        cmocka_unit_test(permutes_use_both_directions),
        cmocka_unit_test(cores_of_a_chip_share_links),
        cmocka_unit_test(switches_and_levels),
        cmocka_unit_test(devices_cost_nothing),
        cmocka_unit_test(a_kernel_takes_the_longer_of_both),
        cmocka_unit_test(matrix_operations_take_their_neighbours),
        cmocka_unit_test(overlap_where_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
