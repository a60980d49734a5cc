/* sharding: what users type and what dumps say, read and printed: language.md section 4, P-9..P-16,
 * the mesh spellings of 2026, and how each is refused. */
#include "tests/unit/sharding_random.h"

#include "base/diag.h"

struct text_case {
    const char *text;
    int rank;
    const char *hlo; /* what it means, in HLO's words; NULL: refused */
    const char *says; /* refused: part of the message */
    int column;       /* refused: 1-based place of the caret, 0: not looked at */
    const char *hint; /* refused: part of the suggestion, NULL: not looked at */
};

/* clang-format off */
/* In mesh data=2 model=4 and @pipe stage=2 x=2 y=2. */
static const struct text_case specs[] = {
    { "[_,model]", 2, "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "[data,model]", 2, "{devices=[2,4]<=[8]}", NULL, 0, NULL },
    { "[model,data]", 2, "{devices=[4,2]<=[2,4]T(1,0)}", NULL, 0, NULL },
    { "[ _ , ( data , model ) ]", 2, "{devices=[1,8]<=[8]}", NULL, 0, NULL },
    { "[data*model,_]", 2, "{devices=[8,1]<=[8]}", NULL, 0, NULL },
    { "[(model,data)]", 1, "{devices=[8]<=[2,4]T(1,0)}", NULL, 0, NULL },
    { "[model:(2)2]", 1, "{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "[model:(1)2,data]", 2, "{devices=[2,2,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}", NULL, 0, NULL },
    { "[model:(1)2,model:(2)2]", 2, "{devices=[2,2,2]<=[2,4]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "[_,_]", 2, "{replicated}", NULL, 0, NULL },
    { "[]", 0, "{replicated}", NULL, 0, NULL },
    { "[?,model]", 2, "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "[(data,?),_]", 2, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "[@pipe x,_]", 2, "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}", NULL, 0, NULL },
    { "P('data', None)", 2, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "P('data')", 3, "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "PartitionSpec(('data', 'model'), None)", 2, "{devices=[8,1]<=[8]}", NULL, 0, NULL },
    { "P(None, P.UNCONSTRAINED,)", 2, "{replicated}", NULL, 0, NULL },
    { "P()", 2, "{replicated}", NULL, 0, NULL },
    { "#sdy.sharding<@mesh, [{\"data\"}, {?}]>", 2, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "#sdy.sharding<@mesh, [{\"model\":(1)2, ?}p1, {}], replicated={\"data\"}>", 2, "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}", NULL, 0, NULL },
    { "#sdy.sharding<mesh<[\"a\"=2, \"b\"=2]>, [{\"b\"}]>", 1, "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "<@pipe, [{\"x\", \"y\"}]>", 1, "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "f32[8@data,4]", 2, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "bf16[8@(data,model),4]", 2, "{devices=[8,1]<=[8]}", NULL, 0, NULL },
    { "replicated", 2, "{replicated}", NULL, 0, NULL },
    { "manual", 2, "{manual}", NULL, 0, NULL },
    { "maximal 3", 2, "{maximal device=3}", NULL, 0, NULL },
    { "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", 2, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "{mesh['x'=2,'y'=2], [{'y'}, {}]}", 2, "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "{[_,model],[data]}", -1, "{{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}, {devices=[2,4]<=[8] last_tile_dim_replicate}}", NULL, 0, NULL },
    { "{replicated, [data]}", -1, "{{replicated}, {devices=[2,4]<=[8] last_tile_dim_replicate}}", NULL, 0, NULL },
    { "#sdy.sharding_per_value<[<@mesh, [{\"data\"}]>, <@mesh, [{}]>]>", -1, "{{devices=[2,4]<=[8] last_tile_dim_replicate}, {replicated}}", NULL, 0, NULL },

    /* other systems' words */
    { "[S(1), R]", 2, "{devices=[1,2,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "[Shard(0), Shard(0)]", 1, "{devices=[8]<=[8]}", NULL, 0, NULL },
    { "(Shard(dim=0), Replicate())", 2, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "[Replicate(), Shard(-1)]", 3, "{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "[_StridedShard(dim=0, split_factor=4), Shard(0)]", 1, "{devices=[8]<=[2,4]T(1,0)}", NULL, 0, NULL },
    { "[R, R]", 2, "{replicated}", NULL, 0, NULL },
    { "(S(0), B)", 2, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "(oneflow.sbp.split(dim=1), oneflow.sbp.broadcast)", 2, "{devices=[1,2,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "A[I_data, J_model]", 2, "{devices=[2,4]<=[8]}", NULL, 0, NULL },
    { "W[D, F_{model,data}]", 2, "{devices=[1,8]<=[2,4]T(1,0)}", NULL, 0, NULL },
    { "Act[B, D]", 2, "{replicated}", NULL, 0, NULL },
    { "NamedSharding(mesh, P('data', None))", 2, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "NamedSharding(mesh=Mesh('data': 2, 'model': 4, axis_types=(Auto, Auto)), spec=PartitionSpec('model',), memory_kind=device)", 2, "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "NamedSharding(mesh=Mesh(axis_sizes=(4, 2), axis_names=('a', 'b'), axis_types=(Auto,)), spec=P('b'))", 1, "{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "GSPMDSharding({devices=[2,4]<=[8]})", 2, "{devices=[2,4]<=[8]}", NULL, 0, NULL },
    { "float32[8@data,4]", 2, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "#sdy.sharding<mesh<[], device_ids=[3]>, []>", 2, "{maximal device=3}", NULL, 0, NULL },
    { "#sdy.sharding<mesh<[\"a\"=2, \"b\"=2], device_ids=[3, 2, 1, 0]>, [{\"b\"}]>", 1, "{devices=[2,2]3,1,2,0 last_tile_dim_replicate}", NULL, 0, NULL },
    { "(P('data'), P())", -1, "{{devices=[2,4]<=[8] last_tile_dim_replicate}, {replicated}}", NULL, 0, NULL },
    { "(P(),)", -1, "{{replicated}}", NULL, 0, NULL },

    { "[S(2), R]", 2, NULL, "no such dimension", 2, NULL },
    { "[S(0)]", 2, NULL, "1 placement for a mesh of 2 axes", 1, NULL },
    { "[S(0), R, R]", 2, NULL, "more placements", 11, NULL },
    { "[Partial(sum), R]", 2, NULL, "partial sums", 2, NULL },
    { "(S(0), P)", 2, NULL, "partial sums", 8, NULL },
    { "[_StridedShard(0, split_factor=3), Shard(0)]", 1, NULL, "split_factor=3", 1, NULL },
    { "A[I_dta, J]", 2, NULL, "no axis \"dta\"", 5, "did you mean data?" },
    { "A[I_data, J_data]", 2, NULL, "axis data is used twice", 13, NULL },
    { "A[I_data]{U_model}", 1, NULL, "unreduced", 10, NULL },
    { "NamedSharding(mesh, [data])", 1, NULL, "PartitionSpec expected", 21, NULL },

    { "[_,modle]", 2, NULL, "no axis \"modle\"", 4, "did you mean model?" },
    { "[_,zz]", 2, NULL, "its axes are data=2 model=4", 4, NULL },
    { "[data,data]", 2, NULL, "axis data is used twice", 7, NULL },
    { "[model:(1)2,model]", 2, NULL, "axis model is used twice", 13, NULL },
    { "[model:(2)4]", 1, NULL, "no part of axis model of size 4", 2, NULL },
    { "[data]", 2, NULL, "1 dimension, the array has rank 2", 1, NULL },
    { "[data,_,_]", 2, NULL, "3 dimensions, the array has rank 2", 1, NULL },
    { "[data,_", 2, NULL, "the text ends", 8, NULL },
    { "[@pip x,_]", 2, NULL, "no mesh @pip", 2, "did you mean @pipe?" },
    { "replicate", 2, NULL, "a sharding expected", 1, "did you mean replicated?" },
    { "P('data'", 1, NULL, "expected", 9, NULL },
    { "maximal x", 1, NULL, "device number expected", 9, NULL },
    { "maximal -1", 1, NULL, "negative", 9, NULL },
    { "", 1, NULL, "a sharding is missing", 1, NULL },
    { "#sdy.sharding<@mesh, [{\"data\"}], unreduced={\"model\"}>", 1, NULL, "unreduced", 34, NULL },
    { "{devices=[2,4]<=[8] last_tile_dim_replicat}", 2, NULL, "no such item", 21, "did you mean last_tile_dim_replicate?" },
};

/* HLO's words: the braces that a dump has. */
static const struct text_case hlo_texts[] = {
    { "{ devices = [2]0,1 }", 0, NULL, "no such item", 3, "did you mean devices=?" },
    { "{devices=[ 2 , 2 ] 0, 1 ,2,3}", 0, "{devices=[2,2]<=[4]}", NULL, 0, NULL },
    { "{/*a*/devices=[2,2]/*b*/<=[4]}", 0, "{devices=[2,2]<=[4]}", NULL, 0, NULL },
    { "{last_tile_dim_replicate devices=[2,2]<=[4]}", 0, "{devices=[2,2]<=[4] last_tile_dim_replicate}", NULL, 0, NULL },
    { "{maximal devices=[1]3}", 0, "{maximal device=3}", NULL, 0, NULL },
    { "{replicated}", 0, "{replicated}", NULL, 0, NULL },
    { "{{replicated}, /*index=1*/{manual}}", 0, "{{replicated}, {manual}}", NULL, 0, NULL },
    { "{mesh[], []}", 0, "{replicated}", NULL, 0, NULL },
    { "{mesh['x'=1], [{'x'}, {}]}", 2, "{replicated}", NULL, 0, NULL },
    { "{mesh[], replicated}", 0, "{replicated}", NULL, 0, NULL },
    { "{mesh['a'=2,'b'=4], replicated}", 0, "{replicated}", NULL, 0, NULL },
    { "{mesh['a'=2,'b'=4], manual}", 0, "{manual}", NULL, 0, NULL },
    { "{maximal_mesh[device_id=5]}", 0, "{maximal device=5}", NULL, 0, NULL },
    { "{mesh[a=2,b=2], [{a}]}", 0, "{devices=[2,2]<=[4] last_tile_dim_replicate}", NULL, 0, NULL },
    { "{mesh['a'=2,'b'=4,'c'=4,'d'=2], device_ids=([4,16]T(1,0)), [{'a'}]}", 0, "{devices=[2,32]<=[4,2,8]T(1,0,2) last_tile_dim_replicate}", NULL, 0, NULL },
    { "{mesh['x'=2,'y'=2], device_ids=(0,2,1,3), [{'x'}]}", 0, "{devices=[2,2]0,2,1,3 last_tile_dim_replicate}", NULL, 0, NULL },
    { "{mesh['a'=2,'b'=4], [{'a'}], replicated={'b'}}", 0, "{devices=[2,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "{mesh['a.b'=2,'<axis> def'=4,'z/w'=2], [{'a.b'}, {'<axis> def':(2)2, 'z/w'}]}", 0, "{devices=[2,4,2]<=[2,2,4]T(0,2,1) last_tile_dim_replicate}", NULL, 0, NULL },
    { "{mesh['x'=2,'y'=2], [{'y'}, {}], manual={'x'}}", 0, "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}", NULL, 0, NULL },
    { "{mesh['x'=2,'y'=2], [{'y'}, {?}] metadata={op_name=\"a{\"}}", 0, "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", NULL, 0, NULL },
    { "{mesh['a'=2,'b'=4], [{'a'}], unreduced={'b'}}", 0, "{devices=[2,4]<=[8] last_tile_dim_replicate}", NULL, 0, NULL },
    { "{{mesh['x'=4], [{'x'}]}, {mesh['x'=4], [{}]}}", 0, "{{devices=[4]<=[4]}, {replicated}}", NULL, 0, NULL },

    { "{devices=[2,2]0,1,2}", 0, NULL, "4 tiles, but 3 device numbers", 10, NULL },
    { "{devices=[2,2]<=[8]}", 0, NULL, "4 tiles, but the list is made of 8 devices", 10, NULL },
    { "{devices=[0,2]<=[2]}", 0, NULL, "tile dimension of 0", 11, NULL },
    { "{devices=[4]<=[2,2]}", 0, NULL, "need a transposition", 10, NULL },
    { "{devices=[4]<=[2,2]T(0,0)}", 0, NULL, "permutation", 24, NULL },
    { "{devices=[4]<=[2,2]T(0)}", 0, NULL, "permutation", 22, NULL },
    { "{devices=[4]<=[4]T(0)}", 0, NULL, "takes no T", 10, NULL },
    { "{devices=[1]0}", 0, NULL, "two or more devices", 10, "maximal" },
    { "{replicated devices=[2]0,1}", 0, NULL, "replicated takes no device list", 21, NULL },
    { "{maximal}", 0, NULL, "exactly one device", 1, NULL },
    { "{maximal device=1 devices=[1]1}", 0, NULL, "exactly one device", 1, NULL },
    { "{last_tile_dim_replicate}", 0, NULL, "needs devices", 1, NULL },
    { "{devices=[2,2]<=[4] last_tile_dims={manual, foo}}", 0, NULL, "manual, replicated or maximal", 45, NULL },
    { "{devices=[2]<=[2] last_tile_dims={manual, replicated}}", 0, NULL, "2 typed dimensions, but only 1", 1, NULL },
    { "{devices=[2,2]<=[4] last_tile_dims={manual} last_tile_dim_replicate}", 0, NULL, "exclude each other", 1, NULL },
    { "{{replicated} {manual}}", 0, NULL, "',' expected", 15, NULL },
    { "{{{replicated}}}", 0, NULL, "item expected", 3, NULL },
    { "{{}}", 0, NULL, "empty sharding", 2, NULL },
    { "{replicated", 0, NULL, "not closed", 12, NULL },
    { "{", 0, NULL, "not closed", 2, NULL },
    { "{devices=[9223372036854775808]<=[2]}", 0, NULL, "9223372036854775808", 11, NULL },
    { "{devices=[4611686018427387904,4]<=[2]}", 0, NULL, "does not fit", 10, NULL },
    { "{devices=[2]0,-1}", 0, NULL, "-1 is negative", 15, NULL },
    { "{mesh['a'=2,'a'=2], [{'a'}]}", 0, NULL, "two axes are named a", 13, NULL },
    { "{mesh['a'=2], [{'b'}]}", 0, NULL, "no axis \"b\"", 17, NULL },
    { "{mesh['a'=0], [{'a'}]}", 0, NULL, "size 0", 7, NULL },
    { "{mesh['a'=2], [{'a'}, {'a'}]}", 0, NULL, "used twice", 24, NULL },
    { "{mesh['a'=4], device_ids=(0,1,2), [{'a'}]}", 0, NULL, "3 device numbers for a mesh of 4", 27, NULL },
    { "{mesh['a'=4], device_ids=(0,1,2,2), [{'a'}]}", 0, NULL, "device 2 occurs twice", 27, NULL },
    { "{metadata={op_name=\"x\"}", 0, NULL, "not closed", 24, NULL },
    { "{replicated metadata={op_name=\"x}", 0, NULL, "metadata is not closed", 22, NULL },
    { "replicated", 0, NULL, "'{' expected", 1, NULL },
};

/* Groups by mesh axes, as lists. */
static const struct text_case groups[] = {
    { "mesh['axis_0'=2,'axis_1'=2] {'axis_1'}", 0, "{{0,1},{2,3}}", NULL, 0, NULL },
    { "mesh['axis_0'=2,'axis_1'=2] {'axis_0'}", 0, "{{0,2},{1,3}}", NULL, 0, NULL },
    { "mesh['axis_0'=4,'axis_1'=1,'axis_2'=2], device_ids=([2,4]T(1,0)) {'axis_0'}", 0, "{{0,1,2,3},{4,5,6,7}}", NULL, 0, NULL },
    { "mesh['a'=8] {'a':(2)2}", 0, "{{0,2},{1,3},{4,6},{5,7}}", NULL, 0, NULL },
    { "mesh['a'=2,'b'=2] {'b','a'}", 0, "{{0,2,1,3}}", NULL, 0, NULL },
    { "mesh['a'=2,'b'=2] {}", 0, "{{0},{1},{2},{3}}", NULL, 0, NULL },
    { "mesh['a'=2,'b'=2] {'c'}", 0, NULL, "no axis \"c\"", 20, NULL },
    { "mesh['a'=2,'b'=2]", 0, NULL, "'{' expected", 18, NULL },
    { "mesh['a'=2 'b'=2] {'a'}", 0, NULL, "',' expected", 12, NULL },
};

/* The words behind `mesh`, and how they are said back. */
static const struct text_case mesh_words[] = {
    { "data=2 model=4", 0, "data=2 model=4", NULL, 0, NULL },
    { "  data = 2 , model = 4 ", 0, "data=2 model=4", NULL, 0, NULL },
    { "@pipe x=2 y=4", 0, "@pipe x=2 y=4", NULL, 0, NULL },
    { "data=2 model=4 order=[4,2]T(1,0)", 0, "data=2 model=4 order=[4,2]T(1,0)", NULL, 0, NULL },
    { "a=2 b=2 order=0,1,3,2", 0, "a=2 b=2 order=0,1,3,2", NULL, 0, NULL },
    { "a=2 b=2 order=0,2,1,3", 0, "a=2 b=2 order=[2,2]T(1,0)", NULL, 0, NULL },
    { "a=2 b=2 order=0,1,2,3", 0, "a=2 b=2", NULL, 0, NULL },
    { "x=1048576 y=1048576", 0, "x=1048576 y=1048576", NULL, 0, NULL },
    { "", 0, NULL, "an axis and its size", 1, "mesh data=2 model=4" },
    { "data", 0, NULL, "'=' expected", 5, NULL },
    { "data=x", 0, NULL, "size of the axis expected", 6, NULL },
    { "data=0", 0, NULL, "at least 1", 1, NULL },
    { "data=-2", 0, NULL, "at least 1", 1, NULL },
    { "data=2 data=4", 0, NULL, "two axes are named data", 8, NULL },
    { "a=4611686018427387904 b=4", 0, NULL, "does not fit", 1, NULL },
    { "data=2 model=4 order=[4,4]T(1,0)", 0, NULL, "8 tiles", 22, NULL },
    { "a=4 order=0,1,2", 0, NULL, "3 device numbers for a mesh of 4", 11, NULL },
    { "a=4 order=0,1,2,4", 0, NULL, "device 4 is not one of", 17, NULL },
    { "order=0,1", 0, NULL, "stands behind the axes", 1, NULL },
    { "2=data", 0, NULL, "an axis and its size", 1, NULL },
};
/* clang-format on */

struct fixture {
    struct shardings *t;
    struct arena arena;
    struct mesh meshes[2];
};

static struct fixture fixture_make(void)
{
    struct fixture f = { .t = shardings_new() };
    static const char *const words[] = { "data=2 model=4", "@pipe stage=2 x=2 y=2" };
    for (int i = 0; i < 2; i++)
        assert_true(mesh_parse(f.t, &f.arena, NULL, 0, words[i], strlen(words[i]), &f.meshes[i],
                               NULL));
    return f;
}

static void fixture_free(struct fixture *f)
{
    shardings_free(f->t);
    arena_free(&f->arena);
}

/* A refusal says what is expected, at the right place. */
static void expect_refused(const struct text_case *c, bool ok, const struct diag *d)
{
    if (ok)
        fail_msg("%s is accepted", c->text);
    if (c->hlo)
        fail_msg("%s is refused: %s", c->text, d->msgs.n ? d->msgs.v[0].text : "");
    if (d->msgs.n != 1)
        fail_msg("%s gives %d messages", c->text, (int)d->msgs.n);
    const struct diag_msg *m = &d->msgs.v[0];
    if (!strstr(m->text, c->says))
        fail_msg("%s says: %s", c->text, m->text);
    if (c->column && m->column != c->column)
        fail_msg("%s: column %d, not %d (%s)", c->text, m->column, c->column, m->text);
    if (c->hint && (!m->hint || !strstr(m->hint, c->hint)))
        fail_msg("%s hints: %s", c->text, m->hint ? m->hint : "nothing");
}

static void expect_sharding(struct fixture *f, const struct text_case *c, sharding_id s)
{
    struct str out = STR_IN(&f->arena);
    sharding_print(f->t, s, NULL, false, &out);
    sharding_id want;
    size_t used;
    if (!c->hlo)
        fail_msg("%s is accepted: %s", c->text, str_text(&out));
    assert_true(sharding_parse(f->t, NULL, NULL, 0, c->hlo, strlen(c->hlo), &used, &want, NULL, NULL));
    if (want.i != s.i)
        fail_msg("%s: got %s, not %s", c->text, str_text(&out), c->hlo);
}

static void users_spellings_are_read(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    for (size_t i = 0; i < COUNTOF(specs); i++) {
        const struct text_case *c = &specs[i];
        struct source src = { "<command>", c->text, strlen(c->text) };
        struct diag *d = diag_new();
        sharding_id s;
        size_t used;
        bool ok = sharding_spec_parse(f.t, f.meshes, 2, c->rank, &src, 0, c->text, src.len, &used,
                                      &s, NULL, d);
        if (ok && c->hlo) {
            assert_int_equal(used, src.len);
            expect_sharding(&f, c, s);
        } else {
            expect_refused(c, ok, d);
        }
        diag_free(d);
    }
    fixture_free(&f);
}

static void open_dimensions_are_told(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    static const struct {
        const char *text;
        uint64_t open;
    } cases[] = {
        { "[?,model]", 1 }, { "[data,?]", 2 }, { "[data,_]", 0 }, { "[(data,?),?]", 3 },
        { "#sdy.sharding<@mesh, [{\"data\"}, {?}]>", 2 }, { "P(P.UNCONSTRAINED, None)", 1 },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct axes_spec spec;
        sharding_id s;
        size_t used;
        assert_true(sharding_spec_parse(f.t, f.meshes, 1, 2, NULL, 0, cases[i].text,
                                        strlen(cases[i].text), &used, &s, &spec, NULL));
        assert_int_equal(spec.open, cases[i].open);
        assert_int_equal(spec.rank, 2);
    }
    /* no mesh: what names no axis is read, what does is refused */
    sharding_id s;
    size_t used;
    assert_true(sharding_spec_parse(f.t, NULL, 0, 2, NULL, 0, "[_,_]", 5, &used, &s, NULL, NULL));
    assert_false(sharding_spec_parse(f.t, NULL, 0, 2, NULL, 0, "[x,_]", 5, &used, &s, NULL, NULL));
    fixture_free(&f);
}

static void hlo_texts_are_read(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    for (size_t i = 0; i < COUNTOF(hlo_texts); i++) {
        const struct text_case *c = &hlo_texts[i];
        struct source src = { "m.hlo", c->text, strlen(c->text) };
        struct diag *d = diag_new();
        struct sharding_note note;
        sharding_id s;
        size_t used;
        bool ok = sharding_parse(f.t, &f.arena, &src, 0, c->text, src.len, &used, &s, &note, d);
        if (ok && c->hlo) {
            assert_int_equal(used, src.len);
            expect_sharding(&f, c, s);
            struct str again = STR_IN(&f.arena);
            sharding_print(f.t, s, &note, true, &again);
            assert_string_equal(str_text(&again), c->text);
        } else {
            expect_refused(c, ok, d);
        }
        diag_free(d);
    }
    fixture_free(&f);
}

static void mesh_groups_are_read(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    for (size_t i = 0; i < COUNTOF(groups); i++) {
        const struct text_case *c = &groups[i];
        struct source src = { "m.hlo", c->text, strlen(c->text) };
        struct diag *d = diag_new();
        struct tiling a;
        size_t used;
        bool ok = mesh_groups_parse(f.t, &src, 0, c->text, src.len, &used, &a, d);
        if (ok && c->hlo) {
            struct str out = STR_IN(&f.arena);
            for (int64_t k = 0; k < a.dims[0] * a.dims[1]; k++)
                str_addf(&out, "%s%" PRId64, k % a.dims[1] ? "," : k ? "},{" : "{{",
                         order_device(f.t, a.order, k));
            str_adds(&out, "}}");
            assert_string_equal(str_text(&out), c->hlo);
            assert_int_equal(used, src.len);
        } else {
            expect_refused(c, ok, d);
        }
        diag_free(d);
    }
    fixture_free(&f);
}

static void meshes_are_read(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    for (size_t i = 0; i < COUNTOF(mesh_words); i++) {
        const struct text_case *c = &mesh_words[i];
        struct source src = { "<command>", c->text, strlen(c->text) };
        struct diag *d = diag_new();
        struct mesh m;
        bool ok = mesh_parse(f.t, &f.arena, &src, 0, c->text, src.len, &m, d);
        if (ok && c->hlo) {
            struct str out = STR_IN(&f.arena);
            mesh_print(f.t, &m, &out);
            assert_string_equal(str_text(&out), c->hlo);
        } else {
            expect_refused(c, ok, d);
        }
        diag_free(d);
    }
    fixture_free(&f);
}

/* ---- printing --------------------------------------------------------------------------------------- */

static void spelled(struct fixture *f, const char *hlo, enum spelling how, const char *want)
{
    sharding_id s;
    size_t used;
    struct str out = STR_IN(&f->arena);
    assert_true(sharding_parse(f->t, NULL, NULL, 0, hlo, strlen(hlo), &used, &s, NULL, NULL));
    sharding_spell(f->t, &f->meshes[0], s, how, &out);
    assert_string_equal(str_text(&out), want);
}

static void shardings_are_spelled(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    const char *columns = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
    const char *part = "{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}";
    spelled(&f, columns, SPELL_AXES, "[_,model]");
    spelled(&f, columns, SPELL_PSPEC, "P(None, 'model')");
    spelled(&f, columns, SPELL_SDY, "#sdy.sharding<@mesh, [{}, {\"model\"}]>");
    spelled(&f, columns, SPELL_MESH, "{mesh['data'=2,'model'=4], [{}, {'model'}]}");
    spelled(&f, columns, SPELL_HLO, columns);
    spelled(&f, "{devices=[8,1]<=[8]}", SPELL_AXES, "[(data,model),_]");
    spelled(&f, "{devices=[8,1]<=[8]}", SPELL_PSPEC, "P(('data', 'model'), None)");
    spelled(&f, "{devices=[8,1]<=[2,4]T(1,0)}", SPELL_AXES, "[(model,data),_]");
    spelled(&f, part, SPELL_AXES, "[model:(2)2]");
    spelled(&f, part, SPELL_PSPEC, part);
    spelled(&f, part, SPELL_SDY, "#sdy.sharding<@mesh, [{\"model\":(2)2}]>");
    spelled(&f, "{replicated}", SPELL_AXES, "replicated");
    spelled(&f, "{manual}", SPELL_AXES, "manual");
    spelled(&f, "{maximal device=3}", SPELL_AXES, "maximal 3");
    spelled(&f, "{maximal device=3}", SPELL_MESH, "{maximal_mesh[device_id=3]}");
    spelled(&f, "{devices=[2,4]7,6,5,4,3,2,1,0}", SPELL_AXES, "{devices=[2,4]7,6,5,4,3,2,1,0}");
    spelled(&f, "{devices=[16]<=[16]}", SPELL_AXES, "{devices=[16]<=[16]}");
    spelled(&f, "{devices=[2,1,4]<=[8] last_tile_dims={manual}}", SPELL_AXES,
            "{devices=[2,1,4]<=[8] last_tile_dims={manual}}");
    spelled(&f, "{devices=[2,1,4]<=[8] last_tile_dims={manual}}", SPELL_MESH,
            "{mesh['data'=2,'model'=4], [{'data'}, {}], manual={'model'}}");
    spelled(&f, "{{replicated}, {devices=[2,4]<=[8]}}", SPELL_AXES, "{replicated, [data,model]}");
    spelled(&f, "{{replicated}, {devices=[2,4]<=[8]}}", SPELL_PSPEC, "(P(), P('data', 'model'))");
    fixture_free(&f);
}

/* P-16: every fifth element of a tuple has its number before it. */
static void tuples_are_numbered(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    struct str out = STR_IN(&f.arena);
    sharding_print(f.t, sharding_tuple_of(f.t, 6, sharding_manual(f.t)), NULL, false, &out);
    assert_string_equal(str_text(&out),
                        "{{manual}, {manual}, {manual}, {manual}, {manual}, /*index=5*/{manual}}");
    fixture_free(&f);
}

static void remarks_stay_with_the_note(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    const char *text = "{{unknown shard_as 3}, {devices=[2]0,1 metadata={{op_name=\"a\"}, "
                       "{op_name=\"b}\"}}}}";
    struct sharding_note note;
    sharding_id s;
    size_t used;
    assert_true(sharding_parse(f.t, &f.arena, NULL, 0, text, strlen(text), &used, &s, &note, NULL));
    assert_int_equal(note.nleaves, 2);
    assert_int_equal(note.leaves[0].group_kind, 1);
    assert_int_equal(note.leaves[0].group, 3);
    assert_int_equal(note.leaves[1].nmeta, 2);
    assert_string_equal(note.leaves[1].meta[1], "op_name=\"b}\"");
    struct str out = STR_IN(&f.arena), bare = STR_IN(&f.arena), other = STR_IN(&f.arena);
    sharding_print(f.t, s, &note, true, &out);
    assert_string_equal(str_text(&out), text);
    sharding_print(f.t, s, &note, false, &bare);
    assert_string_equal(str_text(&bare), "{{unknown shard_as 3}, {devices=[2]0,1}}");
    /* another sharding of one leaf has nothing of it */
    sharding_print(f.t, sharding_replicated(f.t), &note, true, &other);
    assert_string_equal(str_text(&other), "{replicated}");
    fixture_free(&f);
}

static void axes_of_groups_are_named(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    static const struct {
        const char *groups;
        int n;
        const char *names[2];
    } cases[] = {
        { "[2,4]<=[8]", 1, { "model", NULL } },
        { "[4,2]<=[2,4]T(1,0)", 1, { "data", NULL } },
        { "[1,8]<=[8]", 2, { "data", "model" } },
        { "[1,8]<=[2,4]T(1,0)", 2, { "data", "model" } },
        { "[4,2]<=[8]", 1, { "model:(2)2", NULL } },
        { "[4,2]<=[2,2,2]T(0,2,1)", 1, { "model:(1)2", NULL } },
        { "[8,1]<=[8]", 0, { NULL, NULL } },
        { "[4,2]0,3,1,2,4,7,5,6", -1, { NULL, NULL } },
        { "[2,2]<=[4]", -1, { NULL, NULL } },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct tiling a;
        size_t used;
        const char *names[MESH_MAX_AXES];
        int n = -1;
        assert_true(tiling_parse(f.t, NULL, (struct span){ 0, 0 }, cases[i].groups,
                                 strlen(cases[i].groups), &used, &a, NULL));
        bool ok = mesh_axes_of_groups(f.t, &f.meshes[0], a, &f.arena, &n, names);
        assert_int_equal(ok ? n : -1, cases[i].n);
        for (int k = 0; ok && k < n; k++)
            assert_string_equal(names[k], cases[i].names[k]);
    }
    fixture_free(&f);
}

/* One sharding in every spelling: what is said reads back as the same one, what cannot be said has a
 * reason. said counts by spelling. */
static void read_back_all(struct fixture *f, const struct mesh *m, int rank, sharding_id id, uint64_t at,
                          int64_t *said)
{
    static const int64_t dims[] = { 8, 5, 1, 7 };
    const struct spell_shape shape = { "f32", rank, dims };
    for (int how = 0; how < SPELL_COUNT; how++) {
        struct str out = STR_IN(&f->arena), why = STR_IN(&f->arena);
        size_t used;
        sharding_id again;
        bool ok = sharding_spell_as(f->t, m, id, (enum spelling)how, &shape, &out, &why);
        said[how] += ok;
        if (ok ? why.n > 0 || !out.n : why.n < 10 || out.n > 0)
            fail_msg("%s, seed %" PRIu64 ": '%s' / '%s'", spelling_name((enum spelling)how), at,
                     str_text(&out), str_text(&why));
        if (!ok) { /* what is printed all the same */
            assert_true(how != SPELL_HLO);
            sharding_spell(f->t, m, id, (enum spelling)how, &out);
        }
        ok = sharding_spec_parse(f->t, m, 1, rank, NULL, 0, str_text(&out), out.n, &used, &again, NULL, NULL);
        if (!ok || again.i != id.i || used != out.n)
            fail_msg("%s, seed %" PRIu64 ": %s", spelling_name((enum spelling)how), at, str_text(&out));
    }
}

static struct mesh random_mesh(struct fixture *f, int devices, const char *const *names, int naxes)
{
    int list[PN];
    int64_t size[MESH_MAX_AXES], order[PN];
    struct mesh m = { .name = "", .naxes = naxes };
    factors(devices, naxes, size);
    for (int k = 0; k < naxes; k++)
        m.axes[k] = (struct mesh_axis){ names[k], size[k] };
    random_order(devices, list);
    for (int k = 0; k < devices; k++)
        order[k] = list[k];
    m.order = chance(60) ? order_iota(f->t, devices) : order_from_list(f->t, devices, order);
    return m;
}

/* Axes of the mesh dealt out to dimensions: what every spelling but SBP (its order) can say. */
static sharding_id random_axes(struct fixture *f, const struct mesh *m, int rank)
{
    struct str text = STR_IN(&f->arena);
    int dim[MESH_MAX_AXES], first = below(m->naxes);
    size_t used;
    sharding_id id;
    for (int k = 0; k < m->naxes; k++)
        dim[k] = below(rank + 1);
    for (int d = 0; d < rank; d++) {
        str_adds(&text, d ? ",(" : "[(");
        for (int k = 0, n = 0; k < m->naxes; k++)
            if (dim[(k + first) % m->naxes] == d)
                str_addf(&text, "%s'%s'", n++ ? "," : "", m->axes[(k + first) % m->naxes].name);
        str_adds(&text, ")");
    }
    str_adds(&text, "]");
    assert_true(sharding_spec_parse(f->t, m, 1, rank, NULL, 0, str_text(&text), text.n, &used, &id, NULL, NULL));
    return id;
}

static void spellings_read_back(void **state)
{
    (void)state;
    static const char *const names[][3] = { { "x", "long_name", "z.1" }, { "X", "Y", "Z" }, { "X", "XY", "Y" },
                                            { "a b", "None", "S" } };
    int64_t n = start_random(20000), said[SPELL_COUNT] = { 0 }, axes = 0;
    for (int64_t i = 0; i < n; i++) {
        struct fixture f = { .t = shardings_new() };
        uint64_t at = seed;
        int devices = random_count();
        struct mesh m = random_mesh(&f, devices, names[below(4)], 1 + below(3));
        int rank = 1 + below(4);
        bool by_axes = chance(50);
        struct plain s = random_sharding(devices, rank);
        int64_t before[SPELL_COUNT];
        memcpy(before, said, sizeof said);
        read_back_all(&f, &m, rank, by_axes ? random_axes(&f, &m, rank) : make(f.t, &s), at, said);
        axes += by_axes;
        for (int how = 0; by_axes && how < SPELL_COUNT; how++)
            if (said[how] == before[how] && how != SPELL_SBP && how != SPELL_IOTA &&
                order_is_iota(f.t, m.order))
                fail_msg("%s has no word for axes, seed %" PRIu64, spelling_name((enum spelling)how), at);
        fixture_free(&f);
    }
    for (int how = 0; how < SPELL_COUNT; how++)
        print_message("%-8s said %" PRId64 " of %" PRId64 ", %" PRId64 " cannot be said\n",
                      spelling_name((enum spelling)how), said[how], n, n - said[how]);
    assert_true(axes * 5 > n * 2);
    assert_true(said[SPELL_HLO] == n && said[SPELL_LIST] == n);
    for (int how = 0; how < SPELL_COUNT; how++)
        assert_true(n < 1000 || said[how] * 3 > n);
}

static void leaves_are_spelled(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    static const struct {
        enum spelling how;
        const char *hlo, *want; /* NULL: it cannot be said */
    } cases[] = {
        { SPELL_DTENSOR, "{devices=[8,1]<=[8]}", "[Shard(0), Shard(0)]" },
        { SPELL_DTENSOR, "{devices=[8,1]<=[2,4]T(1,0)}", "[_StridedShard(dim=0, split_factor=4), Shard(0)]" },
        { SPELL_SBP, "{devices=[8,1]<=[2,4]T(1,0)}", NULL },
        { SPELL_SBP, "{devices=[1,2,4]<=[8] last_tile_dim_replicate}", "(S(1), B)" },
        { SPELL_BOOK, "{devices=[2,4]<=[8]}", "A[I_data, J_model]" },
        { SPELL_BOOK, "{devices=[1,8]<=[8]}", "A[I, J_{data,model}]" },
        { SPELL_TYPED, "{devices=[1,8]<=[8]}", "bf16[6,32@(data,model)]" },
        { SPELL_NAMED, "{replicated}", "NamedSharding(mesh, P())" },
        { SPELL_SDY, "{replicated}", "#sdy.sharding<@mesh, [{}, {}]>" },
        { SPELL_SDY, "{maximal device=3}", "#sdy.sharding<mesh<[], device_ids=[3]>, []>" },
        { SPELL_LIST, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
          "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}" },
        { SPELL_IOTA, "{devices=[2,4]0,1,2,3,4,5,6,7}", "{devices=[2,4]<=[8]}" },
        { SPELL_IOTA, "{devices=[2,4]0,3,1,2,4,7,5,6}", NULL },
        { SPELL_PSPEC, "{manual}", NULL },
        { SPELL_DTENSOR, "{maximal device=3}", NULL },
        { SPELL_BOOK, "{devices=[4,1,2]<=[8] last_tile_dim_replicate}", NULL },
        { SPELL_PSPEC, "{{replicated}, {devices=[2,4]<=[8]}}", "(P(), P('data', 'model'))" },
        { SPELL_SDY, "{{devices=[2,1,4]<=[8] last_tile_dim_replicate}, {devices=[2,4]<=[8]}}",
          "#sdy.sharding_per_value<[<@mesh, [{\"data\"}, {}]>, <@mesh, [{\"data\"}, {\"model\"}]>]>" },
        { SPELL_DTENSOR, "{{replicated}, {replicated}}", NULL },
    };
    static const int64_t dims[] = { 6, 32 };
    const struct spell_shape shapes[2] = { { "bf16", 2, dims }, { "bf16", 2, dims } };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        sharding_id s, again;
        size_t used;
        struct str out = STR_IN(&f.arena), why = STR_IN(&f.arena);
        assert_true(sharding_parse(f.t, NULL, NULL, 0, cases[i].hlo, strlen(cases[i].hlo), &used, &s, NULL, NULL));
        bool ok = sharding_spell_as(f.t, &f.meshes[0], s, cases[i].how, shapes, &out, &why);
        assert_int_equal(ok, cases[i].want != NULL);
        if (!ok) {
            assert_true(why.n > 10);
            continue;
        }
        assert_string_equal(str_text(&out), cases[i].want);
        assert_true(sharding_spec_parse(f.t, f.meshes, 1, sharding_get(f.t, s)->kind == SHARDING_TUPLE ? -1 : 2,
                                        NULL, 0, str_text(&out), out.n, &used, &again, NULL, NULL));
        assert_int_equal(again.i, s.i);
    }
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_spellings_are_read), cmocka_unit_test(open_dimensions_are_told),
        cmocka_unit_test(hlo_texts_are_read),       cmocka_unit_test(mesh_groups_are_read),
        cmocka_unit_test(meshes_are_read),          cmocka_unit_test(shardings_are_spelled),
        cmocka_unit_test(tuples_are_numbered),      cmocka_unit_test(remarks_stay_with_the_note),
        cmocka_unit_test(axes_of_groups_are_named), cmocka_unit_test(spellings_read_back),
        cmocka_unit_test(leaves_are_spelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
