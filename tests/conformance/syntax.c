/* sharding_syntax.jsonl: spellings and algebra of shardings. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "ir/ir.h"
#include "sharding/sharding.h"
#include "text/text.h"

/* One case at work. Whatever goes wrong with its input is said by bad(). */
struct run {
    struct arena arena;
    struct ir *ir;
    struct shardings *t;
    struct diag *d;
    const cJSON *input, *expected;
    struct str got, want;
    bool unknown; /* a kind that this runner does not have */
};

static bool bad(struct run *r, const char *fmt, ...) PRINTF_LIKE(2, 3);

static bool bad(struct run *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    str_addv(&r->got, fmt, ap);
    va_end(ap);
    for (int64_t i = 0; i < r->d->msgs.n; i++)
        str_addf(&r->got, " (%s)", r->d->msgs.v[i].text);
    return false;
}

static const cJSON *field(const cJSON *o, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(o, key);
}

/* ---- values out of JSON --------------------------------------------------------------------------------- */

static bool read_sharding(struct run *r, const cJSON *o, sharding_id *s, struct sharding_note *note)
{
    if (!cJSON_IsString(o))
        return bad(r, "a sharding is missing");
    size_t used, n = strlen(o->valuestring);
    struct source src = { "case", o->valuestring, n };
    if (!sharding_parse(r->t, &r->arena, &src, 0, o->valuestring, n, &used, s, note, r->d))
        return bad(r, "cannot read %s", o->valuestring);
    return used == n || bad(r, "text left behind %s", o->valuestring);
}

static bool read_shape(struct run *r, const cJSON *o, shape_id *s)
{
    if (!cJSON_IsString(o))
        return bad(r, "a shape is missing");
    size_t used, n = strlen(o->valuestring);
    struct source src = { "case", o->valuestring, n };
    if (!shape_parse(r->ir, &src, 0, o->valuestring, n, &used, s, r->d) || used != n)
        return bad(r, "cannot read shape %s", o->valuestring);
    return true;
}

static int read_ints(const cJSON *o, int *v, int max)
{
    int n = 0;
    const cJSON *x;
    cJSON_ArrayForEach(x, o) if (n < max) v[n++] = x->valueint;
    return n;
}

static const struct shape *shape_at(struct run *r, shape_id s)
{
    return shape_get(r->ir, s);
}

/* ---- answers against what is expected ------------------------------------------------------------------- */

static bool answer_bool(struct run *r, bool v)
{
    str_adds(&r->got, v ? "true" : "false");
    str_adds(&r->want, cJSON_IsTrue(r->expected) ? "true" : "false");
    return v == (cJSON_IsTrue(r->expected) != 0);
}

static bool answer_text(struct run *r)
{
    str_adds(&r->want, cJSON_IsString(r->expected) ? r->expected->valuestring : "null");
    return cJSON_IsString(r->expected) && strcmp(str_text(&r->got), r->expected->valuestring) == 0;
}

/* Shardings are compared by meaning. s none stands for null. */
static bool answer_sharding(struct run *r, sharding_id s)
{
    if (s.i)
        sharding_print(r->t, s, NULL, false, &r->got);
    else
        str_adds(&r->got, "null");
    str_adds(&r->want, cJSON_IsString(r->expected) ? r->expected->valuestring : "null");
    if (!cJSON_IsString(r->expected))
        return s.i == 0;
    sharding_id e;
    return read_sharding(r, r->expected, &e, NULL) && e.i == s.i;
}

static bool answer_shape(struct run *r, shape_id s)
{
    shape_id e;
    shape_print(r->ir, s, false, &r->got);
    str_adds(&r->want, cJSON_IsString(r->expected) ? r->expected->valuestring : "null");
    return read_shape(r, r->expected, &e) && shape_strip(r->ir, e).i == shape_strip(r->ir, s).i;
}

static bool answer_int(struct run *r, int64_t v)
{
    bool none = !cJSON_IsNumber(r->expected);
    str_addi(&r->got, v);
    str_addf(&r->want, "%d", none ? -1 : r->expected->valueint);
    return none ? v < 0 : v == r->expected->valueint;
}

/* ---- spellings ------------------------------------------------------------------------------------------- */

/* Forget the text, so that printing has to make it again; the form of each leaf stays. */
static void print_anew(struct run *r, sharding_id s, struct sharding_note note, bool meta,
                       struct str *out)
{
    note.text = NULL;
    sharding_print(r->t, s, &note, meta, out);
}

static bool kind_parse_print(struct run *r)
{
    sharding_id s;
    struct sharding_note note;
    if (!read_sharding(r, r->input, &s, &note))
        return false;
    print_anew(r, s, note, true, &r->got);
    struct str verbatim = STR_IN(&r->arena);
    sharding_print(r->t, s, &note, true, &verbatim);
    return answer_text(r) && strcmp(str_text(&verbatim), r->input->valuestring) == 0;
}

static bool kind_print(struct run *r)
{
    sharding_id s;
    struct sharding_note note;
    if (!read_sharding(r, field(r->input, "sharding"), &s, &note))
        return false;
    print_anew(r, s, note, field_true(r->input, "include_metadata"), &r->got);
    return answer_text(r);
}

static bool notes_equal(const struct sharding_note *a, const struct sharding_note *b)
{
    if (a->nleaves != b->nleaves)
        return false;
    for (int64_t i = 0; i < a->nleaves; i++) {
        struct sharding_leaf_note none = { 0 };
        struct sharding_leaf_note x = a->leaves ? a->leaves[i] : none;
        struct sharding_leaf_note y = b->leaves ? b->leaves[i] : none;
        if (x.group_kind != y.group_kind || x.group != y.group)
            return false;
    }
    return true;
}

static bool kind_parse_print_equal(struct run *r)
{
    sharding_id s, again;
    struct sharding_note note, note2;
    if (!read_sharding(r, r->input, &s, &note))
        return false;
    print_anew(r, s, note, true, &r->got);
    cJSON *text = cJSON_CreateString(str_text(&r->got));
    bool ok = read_sharding(r, text, &again, &note2) && again.i == s.i && notes_equal(&note, &note2);
    cJSON_Delete(text);
    str_adds(&r->want, "an equal value");
    return ok;
}

static bool kind_equal(struct run *r)
{
    sharding_id a, b;
    struct sharding_note na, nb;
    return read_sharding(r, cJSON_GetArrayItem(r->input, 0), &a, &na) &&
           read_sharding(r, cJSON_GetArrayItem(r->input, 1), &b, &nb) &&
           answer_bool(r, a.i == b.i && notes_equal(&na, &nb));
}

static bool read_note(struct run *r, struct sharding_note *note, sharding_id *s)
{
    return read_sharding(r, field(r->input, "sharding"), s, note);
}

/* A tuple is a group only when it has one leaf; an empty remark is none. */
static bool is_group(struct run *r, int lo, int hi)
{
    struct sharding_note note;
    sharding_id s;
    if (!read_note(r, &note, &s))
        return false;
    int kind = note.leaves && note.nleaves > 0 ? note.leaves[0].group_kind : 0;
    return answer_bool(r, kind >= lo && kind <= hi);
}

static bool kind_is_shard_group(struct run *r)
{
    return is_group(r, 1, 2);
}

static bool kind_is_shard_as(struct run *r)
{
    return is_group(r, 1, 1);
}

static bool kind_is_shard_like(struct run *r)
{
    return is_group(r, 2, 2);
}

static bool print_with_meta(struct run *r, sharding_id s, const struct sharding_note *note,
                            const cJSON *metadata, bool overwrite)
{
    struct sharding_note made = *note;
    struct sharding_leaf_note *leaves =
        ARENA_ARRAY(&r->arena, struct sharding_leaf_note, note->nleaves);
    int n = cJSON_GetArraySize(metadata);
    const char **meta = ARENA_ARRAY(&r->arena, const char *, n);
    for (int i = 0; i < n; i++)
        meta[i] = arena_printf(&r->arena, "op_name=\"%s\"",
                               cJSON_GetArrayItem(metadata, i)->valuestring);
    for (int64_t i = 0; i < note->nleaves; i++) {
        if (note->leaves)
            leaves[i] = note->leaves[i];
        if (leaves[i].nmeta && !overwrite)
            continue;
        leaves[i].nmeta = n;
        leaves[i].meta = meta;
    }
    made.leaves = leaves;
    print_anew(r, s, made, true, &r->got);
    return answer_text(r);
}

static bool kind_with_metadata(struct run *r)
{
    struct sharding_note note;
    sharding_id s;
    return read_note(r, &note, &s) && print_with_meta(r, s, &note, field(r->input, "metadata"),
                                                      field_true(r->input, "overwrite"));
}

static bool kind_without_metadata(struct run *r)
{
    struct sharding_note note;
    sharding_id s;
    return read_note(r, &note, &s) && print_with_meta(r, s, &note, NULL, true);
}

/* ---- shapes ------------------------------------------------------------------------------------------------ */

static bool kind_validate(struct run *r)
{
    sharding_id s;
    shape_id shape;
    if (!read_sharding(r, field(r->input, "sharding"), &s, NULL) ||
        !read_shape(r, field(r->input, "shape"), &shape))
        return false;
    const struct sharding *x = sharding_get(r->t, s);
    bool tuple = shape_at(r, shape)->kind == SHAPE_TUPLE;
    int64_t n = tuple ? shape_at(r, shape)->nleaves : 1;
    bool ok = tuple == (x->kind == SHARDING_TUPLE) && (!tuple || x->nelems == n);
    for (int64_t i = 0; ok && i < n; i++) {
        const struct shape *leaf = shape_at(r, tuple ? shape_leaf(r->ir, shape, i) : shape);
        ok = sharding_fits(r->t, tuple ? x->elems[i] : s, leaf->rank, leaf->dims,
                           field_int(r->input, "num_devices"), NULL, (struct span){ 0, 0 }, r->d);
    }
    return answer_bool(r, ok);
}

static bool kind_shape_tree_element(struct run *r)
{
    sharding_id s;
    shape_id shape;
    if (!read_sharding(r, field(r->input, "sharding"), &s, NULL) ||
        !read_shape(r, field(r->input, "shape"), &shape))
        return false;
    int path[16], n = read_ints(field(r->input, "index"), path, 16);
    int64_t skip = 0;
    for (int i = 0; i < n; i++) {
        skip += shape_leaf_offset(r->ir, shape, path[i]);
        shape = shape_at(r, shape)->elems[path[i]];
    }
    const sharding_id *elems = sharding_get(r->t, s)->elems;
    if (shape_at(r, shape)->kind == SHAPE_TUPLE)
        return answer_sharding(
            r, sharding_tuple(r->t, shape_at(r, shape)->nleaves, elems + skip));
    return answer_sharding(r, elems[skip]);
}

/* A tuple shape with one sharding comes back as it is. */
static bool tiled_shape(struct run *r, bool up)
{
    sharding_id s;
    shape_id shape;
    if (!read_sharding(r, field(r->input, "sharding"), &s, NULL) ||
        !read_shape(r, field(r->input, "shape"), &shape))
        return false;
    const struct shape *x = shape_at(r, shape);
    if (x->kind != SHAPE_ARRAY)
        return answer_shape(r, shape);
    int64_t dims[16];
    for (int i = 0; i < x->rank && i < 16; i++)
        dims[i] = x->dims[i] * sharding_tile(r->t, s, i);
    if (!up)
        sharding_shard_dims(r->t, s, x->rank, x->dims, dims);
    return answer_shape(r, shape_array(r->ir, x->dtype, x->rank, dims));
}

static bool kind_tile_shape(struct run *r)
{
    return tiled_shape(r, false);
}

static bool kind_untile_shape(struct run *r)
{
    return tiled_shape(r, true);
}

/* ---- algebra ----------------------------------------------------------------------------------------------- */

static bool kind_merge_if_compatible(struct run *r)
{
    sharding_id m, dst;
    if (!read_sharding(r, field(r->input, "to_merge"), &m, NULL) ||
        !read_sharding(r, field(r->input, "dst"), &dst, NULL))
        return false;
    bool ok = sharding_merge_compat(r->t, m, &dst, -1);
    return answer_sharding(r, ok ? dst : (sharding_id){ 0 });
}

static bool kind_is_sub_tiling(struct run *r)
{
    sharding_id p, s;
    shape_id shape;
    return read_sharding(r, field(r->input, "potential_subsharding"), &p, NULL) &&
           read_sharding(r, field(r->input, "sharding"), &s, NULL) &&
           read_shape(r, field(r->input, "shape"), &shape) &&
           answer_bool(r, sharding_is_subtiling(r->t, shape_at(r, shape)->rank,
                                                shape_at(r, shape)->dims, p, s));
}

static bool kind_move_tiles(struct run *r)
{
    sharding_id s;
    return read_sharding(r, field(r->input, "sharding"), &s, NULL) &&
           answer_sharding(r, sharding_move_tiles(r->t, s, (int)field_int(r->input, "source_dim"),
                                                  (int)field_int(r->input, "target_dim")));
}

static bool kind_first_target(struct run *r)
{
    sharding_id s;
    shape_id shape;
    return read_sharding(r, field(r->input, "sharding"), &s, NULL) &&
           read_shape(r, field(r->input, "shape"), &shape) &&
           answer_int(r, sharding_move_target(r->t, shape_at(r, shape)->rank,
                                              shape_at(r, shape)->dims, s,
                                              (int)field_int(r->input, "source_dim")));
}

static bool kind_transpose(struct run *r)
{
    sharding_id s;
    int perm[16];
    (void)read_ints(field(r->input, "dimensions"), perm, 16);
    return read_sharding(r, field(r->input, "sharding"), &s, NULL) &&
           answer_sharding(r, sharding_transpose(r->t, s, perm));
}

static bool kind_map_dims(struct run *r)
{
    sharding_id s;
    int forth[16], back[16];
    (void)read_ints(field(r->input, "src_to_tgt"), forth, 16);
    int rank = read_ints(field(r->input, "tgt_to_src"), back, 16);
    return read_sharding(r, field(r->input, "sharding"), &s, NULL) &&
           answer_sharding(r, sharding_map_dims(r->t, s, forth, rank, back));
}

static bool reshaped(struct run *r, bool through)
{
    sharding_id s;
    shape_id in, out;
    if (!read_sharding(r, field(r->input, "sharding"), &s, NULL) ||
        !read_shape(r, field(r->input, "input_shape"), &in) ||
        !read_shape(r, field(r->input, "output_shape"), &out))
        return false;
    const struct shape *x = shape_at(r, in), *y = shape_at(r, out);
    s = through ? sharding_through_reshape(r->t, x->rank, x->dims, y->rank, y->dims, s)
                : sharding_reshape(r->t, x->rank, x->dims, y->rank, y->dims, s);
    return answer_sharding(r, s);
}

static bool kind_reshape(struct run *r)
{
    return reshaped(r, false);
}

static bool kind_through_reshape(struct run *r)
{
    return reshaped(r, true);
}

static bool kind_retile(struct run *r)
{
    sharding_id s;
    int dims[16], n = read_ints(field(r->input, "dims"), dims, 16);
    if (!read_sharding(r, field(r->input, "sharding"), &s, NULL))
        return false;
    struct tiling a = sharding_retile(r->t, s, (int)field_int(r->input, "dim"), n, dims), e;
    tiling_print(r->t, a, &r->got);
    const char *want = cJSON_IsString(r->expected) ? r->expected->valuestring : "";
    size_t used;
    str_adds(&r->want, want);
    return tiling_parse(r->t, NULL, (struct span){ 0, 0 }, want, strlen(want), &used, &e, r->d) &&
           tiling_equal(a, e);
}

static bool kind_along_dims(struct run *r)
{
    sharding_id s;
    int src[16], tgt[16], n = read_ints(field(r->input, "source_dims"), src, 16);
    (void)read_ints(field(r->input, "target_dims"), tgt, 16);
    return read_sharding(r, field(r->input, "sharding"), &s, NULL) &&
           answer_sharding(r, sharding_along_dims(r->t, s, n, src, tgt,
                                                  (int)field_int(r->input, "target_shape_rank")));
}

/* ---- groups -------------------------------------------------------------------------------------------------- */

static struct tiling groups_of(struct run *r, const cJSON *lists)
{
    int ngroups = cJSON_GetArraySize(lists), size = cJSON_GetArraySize(cJSON_GetArrayItem(lists, 0));
    int64_t *v = ARENA_ARRAY(&r->arena, int64_t, (int64_t)ngroups * size), n = 0;
    const cJSON *g, *x;
    cJSON_ArrayForEach(g, lists) cJSON_ArrayForEach(x, g) v[n++] = x->valueint;
    return tiling_make(r->t, 2, (int64_t[]){ ngroups, size }, order_from_list(r->t, n, v));
}

static bool grouped_on(struct run *r, const cJSON *in, struct sharding_group *g)
{
    sharding_id s;
    int dims[16], shards[16];
    int64_t keep[16];
    int n = read_ints(field(in, field(in, "group_dims") ? "group_dims" : "dims"), dims, 16);
    int k = read_ints(field(in, "group_dim_shards"), shards, 16);
    for (int i = 0; i < k; i++)
        keep[i] = shards[i];
    if (!read_sharding(r, field(in, "sharding"), &s, NULL))
        return false;
    sharding_group_on(r->t, s, n, dims, k == n ? keep : NULL, g);
    g->manual = field_true(in, "subgroup_manual");
    return true;
}

static bool grouped_manual(struct run *r, const cJSON *in, struct sharding_group *g)
{
    sharding_id s;
    if (!read_sharding(r, field(in, "sharding"), &s, NULL))
        return false;
    sharding_group_on_manual(r->t, s, g);
    return true;
}

static bool grouped_given(struct run *r, const cJSON *in, struct sharding_group *g)
{
    int sizes[16];
    *g = (struct sharding_group){ .data_rank = (int)field_int(in, "data_rank"),
                                  .manual = field_true(in, "subgroup_manual") };
    if (cJSON_GetArraySize(field(in, "device_groups")) < 1)
        return bad(r, "device_groups are missing");
    g->groups = groups_of(r, field(in, "device_groups"));
    g->ndims = read_ints(field(in, "group_dims"), g->dims, 16);
    (void)read_ints(field(in, "group_dim_sizes"), sizes, 16);
    for (int i = 0; i < g->ndims; i++)
        g->sizes[i] = sizes[i];
    return read_sharding(r, field(in, "sharding"), &g->inner, NULL);
}

static bool read_grouped(struct run *r, const cJSON *o, struct sharding_group *g)
{
    const char *kind = field_text(o, "kind");
    const cJSON *in = field(o, "input");
    if (strcmp(kind, "grouped") == 0)
        return grouped_given(r, in, g);
    if (strcmp(kind, "group_on_dims") == 0)
        return grouped_on(r, in, g);
    if (strcmp(kind, "get_manual_subgroup") == 0)
        return grouped_manual(r, in, g);
    if (strcmp(kind, "grouped_replicated") == 0) {
        sharding_group_on_replication(r->t, sharding_replicated(r->t), field_int(in, "num_groups"),
                                      field_int(in, "num_tiles"), (int)field_int(in, "data_rank"), 0,
                                      NULL, g);
        return true;
    }
    r->unknown = true;
    return false;
}

static bool kind_ungroup(struct run *r)
{
    struct sharding_group g;
    return read_grouped(r, field(r->input, "grouped"), &g) &&
           answer_sharding(r, sharding_ungroup(r->t, &g));
}

static bool kind_groups_match(struct run *r)
{
    struct sharding_group a, b;
    return read_grouped(r, field(r->input, "lhs"), &a) &&
           read_grouped(r, field(r->input, "rhs"), &b) &&
           answer_bool(r, tiling_same_groups(r->t, a.groups, b.groups));
}

/* Fields of the expectation: sharding.to_string, device_groups[k]. */
static bool answer_group(struct run *r, const struct sharding_group *g)
{
    sharding_id inner;
    sharding_print(r->t, g->inner, NULL, false, &r->got);
    str_addc(&r->got, ' ');
    tiling_print(r->t, g->groups, &r->got);
    char *want = cJSON_PrintUnformatted(r->expected);
    str_adds(&r->want, want);
    free(want);
    const cJSON *text = field(r->expected, "sharding.to_string");
    bool ok = !text || (read_sharding(r, text, &inner, NULL) && inner.i == g->inner.i);
    for (int k = 0; k < g->groups.dims[0]; k++) {
        char key[40];
        (void)snprintf(key, sizeof key, "device_groups[%d]", k);
        const cJSON *list = field(r->expected, key), *x;
        int64_t at = 0;
        cJSON_ArrayForEach(x, list)
        {
            int64_t index[2] = { k, at++ };
            ok = ok && at <= g->groups.dims[1] &&
                 tiling_device(r->t, g->groups, index) == x->valueint;
        }
        ok = ok && (!list || at == g->groups.dims[1]);
    }
    return ok;
}

static bool kind_manual_subgroup(struct run *r)
{
    struct sharding_group g;
    return grouped_manual(r, r->input, &g) && answer_group(r, &g);
}

static bool kind_group_on_dims(struct run *r)
{
    struct sharding_group g;
    return grouped_on(r, r->input, &g) && answer_group(r, &g);
}

/* ---- questions about one sharding ------------------------------------------------------------------------------ */

static bool kind_has_unique_device(struct run *r)
{
    sharding_id s;
    int64_t device;
    return read_sharding(r, field(r->input, "sharding"), &s, NULL) &&
           answer_bool(r, sharding_unique_device(r->t, s, &device));
}

static bool kind_unique_device(struct run *r)
{
    sharding_id s;
    int64_t device = -1;
    if (!read_sharding(r, field(r->input, "sharding"), &s, NULL))
        return false;
    return answer_int(r, sharding_unique_device(r->t, s, &device) ? device : -1);
}

static bool leaf_uses(struct run *r, sharding_id s, int64_t device)
{
    const struct sharding *x = sharding_get(r->t, s);
    if (x->kind == SHARDING_MAXIMAL)
        return x->device == device;
    return x->kind != SHARDING_TILED || order_cell(r->t, x->tiles.order, device) >= 0;
}

static bool kind_uses_device(struct run *r)
{
    sharding_id s;
    if (!read_sharding(r, field(r->input, "sharding"), &s, NULL))
        return false;
    const struct sharding *x = sharding_get(r->t, s);
    int64_t device = field_int(r->input, "device");
    bool uses = x->kind != SHARDING_TUPLE && leaf_uses(r, s, device);
    for (int64_t i = 0; x->kind == SHARDING_TUPLE && i < x->nelems; i++)
        uses = uses || leaf_uses(r, x->elems[i], device);
    return answer_bool(r, uses);
}

static bool kind_device_for_tile_index(struct run *r)
{
    sharding_id s;
    int index[16];
    int64_t at[16];
    if (!read_sharding(r, field(r->input, "sharding"), &s, NULL))
        return false;
    int n = read_ints(field(r->input, "index"), index, 16);
    const struct sharding *x = sharding_get(r->t, s);
    if (x->kind == SHARDING_MAXIMAL)
        return answer_int(r, x->device);
    if (x->kind != SHARDING_TILED || n < x->data_rank || x->tiles.naxes > 16)
        return bad(r, "no device for such an index");
    for (int i = 0; i < x->tiles.naxes; i++)
        at[i] = i < n ? index[i] : 0;
    return answer_int(r, tiling_device(r->t, x->tiles, at));
}

static bool kind_tile_offset(struct run *r)
{
    sharding_id s;
    shape_id shape;
    int64_t index[16] = { 0 }, local[16];
    if (!read_sharding(r, field(r->input, "sharding"), &s, NULL) ||
        !read_shape(r, field(r->input, "shape"), &shape))
        return false;
    const struct shape *x = shape_at(r, shape);
    if (x->rank > 16 || !sharding_tile_index(r->t, s, field_int(r->input, "device"), index))
        return bad(r, "the device holds no tile");
    sharding_shard_dims(r->t, s, x->rank, x->dims, local);
    bool ok = cJSON_GetArraySize(r->expected) == x->rank;
    for (int i = 0; i < x->rank; i++) {
        int64_t offset = index[i] * local[i];
        offset = offset < x->dims[i] ? offset : x->dims[i];
        str_addf(&r->got, "%s%" PRId64, i ? "," : "", offset);
        const cJSON *e = cJSON_GetArrayItem(r->expected, i);
        ok = ok && e && e->valueint == offset;
    }
    char *want = cJSON_PrintUnformatted(r->expected);
    str_adds(&r->want, want);
    free(want);
    return ok;
}

/* A tuple has a single sharding when all of its elements are equal. */
static bool kind_extract_single(struct run *r)
{
    struct sharding_note note;
    sharding_id s;
    if (!read_note(r, &note, &s))
        return false;
    const struct sharding *x = sharding_get(r->t, s);
    bool one = x->kind != SHARDING_TUPLE || x->nelems > 0;
    for (int64_t i = 1; x->kind == SHARDING_TUPLE && i < x->nelems; i++)
        one = one && x->elems[i].i == x->elems[0].i;
    return answer_bool(r, one);
}

/* ---- modules --------------------------------------------------------------------------------------------------- */

static struct module *read_module(struct run *r, const char *text)
{
    struct module *m = module_load_text(r->ir, "case.hlo", text, strlen(text), NULL, r->d);
    if (!m)
        (void)bad(r, "the module cannot be read");
    return m;
}

static instr_id find_instr(const struct module *m, const char *name)
{
    for (uint32_t i = 1; i <= module_ninstrs(m); i++)
        if (strcmp(name_text(m->ir, instr_at(m, (instr_id){ i })->name), name) == 0)
            return (instr_id){ i };
    return (instr_id){ 0 };
}

/* given: result and other come from the case (null: none), else from the module. */
static bool infer_dot(struct run *r, const cJSON *in, bool given, sharding_id *out)
{
    struct module *m = read_module(r, field_text(in, "hlo"));
    if (!m)
        return false;
    instr_id i = find_instr(m, field_text(in, "instr"));
    int k = (int)field_int(in, "operand");
    struct dot_dims dd;
    bool ok = i.i != 0 && k >= 0 && k < 2;
    sharding_id result = { 0 }, other = { 0 };
    if (ok && given) {
        const cJSON *a = field(in, "result_sharding"), *b = field(in, "other_operand_sharding");
        ok = (!cJSON_IsString(a) || read_sharding(r, a, &result, NULL)) &&
             (!cJSON_IsString(b) || read_sharding(r, b, &other, NULL));
    } else if (ok) {
        result = instr_at(m, i)->sharding;
        other = instr_at(m, instr_at(m, i)->operands[1 - k])->sharding;
    }
    if (ok) {
        instr_dot_dims(m, i, &dd);
        struct sharding_dot dot = {
            .rank = { shape_at(r, instr_at(m, instr_at(m, i)->operands[0])->shape)->rank,
                      shape_at(r, instr_at(m, instr_at(m, i)->operands[1])->shape)->rank },
            .nbatch = dd.nbatch,
            .ncontract = dd.ncontract,
            .nfree = { dd.nlhs_free, dd.nrhs_free },
            .batch = { dd.lhs_batch, dd.rhs_batch },
            .contract = { dd.lhs_contract, dd.rhs_contract },
            .free = { dd.lhs_free, dd.rhs_free },
        };
        *out = sharding_infer_dot_operand(r->t, &dot, k, result, other,
                                          field_true(in, "consider_other_operand"),
                                          field_true(in, "may_combine_partial_sharding"));
    }
    module_free(m);
    return ok || bad(r, "no such dot");
}

static bool kind_infer_dot(struct run *r)
{
    sharding_id s;
    return infer_dot(r, r->input, false, &s) && answer_sharding(r, s);
}

static bool kind_infer_dot_given(struct run *r)
{
    sharding_id s;
    return infer_dot(r, r->input, true, &s) && answer_sharding(r, s);
}

static bool kind_same_result(struct run *r)
{
    sharding_id s[2];
    for (int i = 0; i < 2; i++) {
        const cJSON *call = cJSON_GetArrayItem(r->input, i);
        bool given = strcmp(field_text(call, "kind"), "infer_dot_operand_from_shardings") == 0;
        if (!given && strcmp(field_text(call, "kind"), "infer_dot_operand") != 0) {
            r->unknown = true;
            return false;
        }
        if (!infer_dot(r, field(call, "input"), given, &s[i]))
            return false;
    }
    return answer_bool(r, s[0].i == s[1].i);
}

static bool kind_module_config(struct run *r)
{
    struct module *m = read_module(r, field_text(r->input, "hlo"));
    if (!m)
        return false;
    bool to_output = strstr(field_text(r->input, "attribute"), "to_output") != NULL;
    int64_t n = to_output ? m->nto_output : m->nto_parameters;
    const bool *v = to_output ? m->to_output : m->to_parameters;
    bool ok = cJSON_GetArraySize(r->expected) == n;
    for (int64_t i = 0; i < n; i++) {
        str_addf(&r->got, "%s%s", i ? "," : "", v[i] ? "true" : "false");
        const cJSON *e = cJSON_GetArrayItem(r->expected, (int)i);
        ok = ok && e && (cJSON_IsTrue(e) != 0) == v[i];
    }
    char *want = cJSON_PrintUnformatted(r->expected);
    str_adds(&r->want, want);
    free(want);
    module_free(m);
    return ok;
}

static bool kind_module_print(struct run *r)
{
    struct module *m =
        read_module(r, cJSON_IsString(r->input) ? r->input->valuestring : "");
    if (!m)
        return false;
    struct hlo_print_options o = { 0 };
    bool ok = hlo_print(m, &o, &r->got) && answer_text(r);
    module_free(m);
    return ok;
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *kind;
    bool (*run)(struct run *r);
} kinds[] = {
    { "device_groups_match", kind_groups_match },
    { "device_for_tile_index", kind_device_for_tile_index },
    { "equal", kind_equal },
    { "extract_single_sharding", kind_extract_single },
    { "first_target_dim_to_move_tiles", kind_first_target },
    { "get_manual_subgroup", kind_manual_subgroup },
    { "group_on_dims", kind_group_on_dims },
    { "has_unique_device", kind_has_unique_device },
    { "infer_dot_operand", kind_infer_dot },
    { "infer_dot_operand_from_shardings", kind_infer_dot_given },
    { "is_shard_as", kind_is_shard_as },
    { "is_shard_group", kind_is_shard_group },
    { "is_shard_like", kind_is_shard_like },
    { "is_sub_tiling_or_equal", kind_is_sub_tiling },
    { "merge_if_compatible", kind_merge_if_compatible },
    { "module_config", kind_module_config },
    { "module_print_long", kind_module_print },
    { "module_print_short", kind_module_print },
    { "move_and_merge_tiles", kind_move_tiles },
    { "parse_print", kind_parse_print },
    { "parse_print_equal", kind_parse_print_equal },
    { "print", kind_print },
    { "propagate_along_dims_and_replicate_others", kind_along_dims },
    { "propagate_through_reshape", kind_through_reshape },
    { "reshape", kind_reshape },
    { "reshape_to_tile_dimension", kind_retile },
    { "same_result", kind_same_result },
    { "shape_tree_element", kind_shape_tree_element },
    { "tile_offset_for_device", kind_tile_offset },
    { "tile_shape", kind_tile_shape },
    { "transpose", kind_transpose },
    { "transpose_with_collapsed_dims", kind_map_dims },
    { "ungroup", kind_ungroup },
    { "unique_device", kind_unique_device },
    { "untile_shape", kind_untile_shape },
    { "uses_device", kind_uses_device },
    { "validate", kind_validate },
    { "with_metadata", kind_with_metadata },
    { "without_metadata", kind_without_metadata },
};

static void one_line(struct str *out, struct str *text)
{
    for (const char *p = str_text(text); *p; p++)
        str_add(out, *p == '\n' ? "\\n" : p, *p == '\n' ? 2 : 1);
}

static void judge(void *context, struct conformance *c, const cJSON *line)
{
    (void)context;
    const char *name = field_text(line, "name"), *kind = field_text(line, "kind");
    struct run r = { .ir = ir_new(), .d = diag_new() };
    arena_open(&r.arena);
    r.t = r.ir->shardings;
    r.input = field(line, "input");
    r.expected = field(line, "expected");
    r.got = STR_IN(&r.arena);
    r.want = STR_IN(&r.arena);
    bool known = false, ok = false;
    for (size_t i = 0; i < COUNTOF(kinds); i++)
        if (strcmp(kinds[i].kind, kind) == 0) {
            known = true;
            ok = kinds[i].run(&r);
        }
    if (!known || r.unknown) {
        conformance_skip(c, name, arena_printf(&r.arena, "no such kind: %s", kind));
    } else if (ok) {
        conformance_pass(c, name);
    } else {
        struct str want = STR_IN(&r.arena), got = STR_IN(&r.arena);
        one_line(&want, &r.want);
        one_line(&got, &r.got);
        conformance_fail(c, name, str_text(&want), str_text(&got));
    }
    diag_free(r.d);
    arena_close(&r.arena);
    ir_free(r.ir);
}

void conformance_syntax(const char *path, struct conformance *c)
{
    char buffer[4096];
    const char *file = conformance_file(path, "sharding_syntax.jsonl", buffer);
    if (file)
        conformance_lines(file, c, judge, NULL);
}
