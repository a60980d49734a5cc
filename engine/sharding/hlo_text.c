/* The HLO spelling of shardings: reading P-9..P-14, printing P-16. */
#include <stddef.h>
#include <string.h>

#include "sharding/internal.h"

typedef VEC(const char *) text_list;

/* What the items of one leaf say. */
struct items {
    bool replicated, maximal, manual, unknown, lastrep, types_given, tile, device_given, listed;
    size_t tile_at, tile_len;
    int64_t device;
    int naxes, ntypes;
    order_id order;
    int8_t group_kind;
    int64_t group;
    text_list meta;
    int64_t dims[AXES_MAX]; /* from here on not cleared: only naxes and ntypes entries count */
    enum axis_type types[AXES_MAX];
};

struct reader {
    struct lexer l;
    struct arena *arena;
    bool remarks; /* some leaf has metadata, a group, or devices in a list */
};

static const char *const item_words[] = {
    "replicated", "maximal", "manual", "unknown", "devices=", "device=", "last_tile_dim_replicate",
    "last_tile_dims=", "shard_as", "shard_like", "metadata=",
};

static const char *nearest_word(const char *const *words, size_t n, const char *text)
{
    const char *best = NULL;
    int at = 4;
    for (size_t i = 0; i < n; i++) {
        int k = edit_distance(words[i], text, at);
        if (k < at) {
            at = k;
            best = words[i];
        }
    }
    return best;
}

static bool unknown_item(struct lexer *l)
{
    const char *w;
    size_t n = lex_word(l, &w);
    if (n == 0)
        return lex_error(l, l->i, 1, l->i < l->n ? "a sharding's item expected"
                                                 : "the sharding is not closed: '}' expected");
    char text[64] = "";
    memcpy(text, w, n < sizeof text ? n : sizeof text - 1);
    lex_error(l, l->i, n, "no such item in a sharding: %s", text);
    const char *near = nearest_word(item_words, COUNTOF(item_words), text);
    if (near)
        diag_hint(l->d, "did you mean %s?", near);
    return false;
}

static bool read_type(struct lexer *l, enum axis_type *type)
{
    static const struct {
        const char *word;
        enum axis_type type;
    } types[] = { { "manual", AXIS_MANUAL },
                  { "replicated", AXIS_REPLICATED },
                  { "maximal", AXIS_MAXIMAL } };
    for (size_t i = 0; i < COUNTOF(types); i++)
        if (lex_take_word(l, types[i].word)) {
            *type = types[i].type;
            return true;
        }
    size_t at = l->i;
    if (lex_take_word(l, "unreduced")) {
        warn_unreduced(l, at);
        *type = AXIS_REPLICATED;
        return true;
    }
    const char *w;
    size_t n = lex_word(l, &w);
    return lex_error(l, l->i, n, "type of a tile dimension: manual, replicated or maximal expected");
}

static bool read_types(struct lexer *l, struct items *it)
{
    it->types_given = true;
    if (!lex_expect(l, '{', "last_tile_dims"))
        return false;
    while (!lex_is(l, '}')) {
        if (it->ntypes && !lex_expect(l, ',', "last_tile_dims"))
            return false;
        if (it->ntypes == AXES_MAX - 4)
            return lex_error(l, l->i, 1, "too many types of tile dimensions");
        if (!read_type(l, &it->types[it->ntypes++]))
            return false;
    }
    return lex_expect(l, '}', "last_tile_dims");
}

/* Behind an opening brace: text up to the matching one; quotes are opaque. */
static bool read_braced(struct lexer *l, const char **text, size_t *n)
{
    size_t start = l->i;
    int64_t depth = 1;
    for (; l->i < l->n; l->i++) {
        char c = l->p[l->i];
        if (c == '"') {
            for (l->i++; l->i < l->n && l->p[l->i] != '"'; l->i++)
                l->i += l->p[l->i] == '\\';
        } else if (c == '{') {
            depth++;
        } else if (c == '}' && --depth == 0) {
            *text = l->p + start;
            *n = l->i++ - start;
            return true;
        }
    }
    l->i = l->n;
    return lex_error(l, start - 1, 1, "metadata is not closed");
}

static bool read_record(struct reader *r, struct items *it)
{
    const char *text = "";
    size_t n = 0;
    if (!read_braced(&r->l, &text, &n))
        return false;
    static const char *const names[] = { "op_name=", "op_type=", "source_file=" };
    for (size_t i = 0; i < COUNTOF(names); i++) {
        size_t k = strlen(names[i]);
        if (n > k && memcmp(text, names[i], k) == 0 && text[k] != '"')
            return lex_error(&r->l, (size_t)(text - r->l.p), k, "metadata: %s wants a text in quotes", names[i]);
    }
    vec_push(r->arena, &it->meta, arena_strndup(r->arena, text, n));
    return true;
}

static bool read_metadata(struct reader *r, struct items *it)
{
    struct lexer *l = &r->l;
    if (!lex_expect(l, '{', "metadata"))
        return false;
    if (!lex_is(l, '{'))
        return read_record(r, it);
    do {
        if (!lex_expect(l, '{', "metadata") || !read_record(r, it))
            return false;
    } while (lex_take(l, ','));
    return lex_expect(l, '}', "metadata");
}

static bool read_group(struct lexer *l, struct items *it, int8_t kind)
{
    int64_t v;
    if (!lex_int(l, &v, "number of the shard group"))
        return false;
    if (it->group_kind == 1 && kind == 2)
        return true; /* shard_as wins, P-13 */
    it->group_kind = kind;
    it->group = v;
    return true;
}

static bool read_item(struct reader *r, struct items *it)
{
    struct lexer *l = &r->l;
    size_t at = l->i;
    if (lex_take_word(l, "unreduced"))
        warn_unreduced(l, at);
    else if (!lex_take_word(l, "replicated"))
        at = SIZE_MAX;
    if (at != SIZE_MAX)
        return it->replicated = true;
    if (lex_take_word(l, "maximal"))
        return it->maximal = true;
    if (lex_take_word(l, "manual"))
        return it->manual = true;
    if (lex_take_word(l, "unknown"))
        return it->unknown = true;
    if (lex_take_word(l, "last_tile_dim_replicate"))
        return it->lastrep = true;
    if (lex_take_word(l, "shard_as"))
        return read_group(l, it, 1);
    if (lex_take_word(l, "shard_like"))
        return read_group(l, it, 2);
    if (lex_take_text(l, "devices=")) {
        it->tile = true;
        it->tile_at = l->i;
        bool ok = read_tile(l, &it->naxes, it->dims, &it->order, &it->listed);
        it->tile_len = l->i - it->tile_at;
        return ok;
    }
    if (lex_take_text(l, "device=")) {
        it->device_given = true;
        return lex_int(l, &it->device, "device number");
    }
    if (lex_take_text(l, "last_tile_dims="))
        return read_types(l, it);
    if (lex_take_text(l, "metadata="))
        return read_metadata(r, it);
    return unknown_item(l);
}

/* ---- a leaf out of its items, P-10, P-12 ------------------------------------------------------------- */

static bool make_maximal(struct lexer *l, size_t at, const struct items *it, sharding_id *out)
{
    if (it->device_given && !it->tile) {
        *out = sharding_maximal(l->t, it->device);
        return true;
    }
    if (it->device_given || !it->tile || order_get(l->t, it->order)->ndevices != 1)
        return lex_error(l, at, l->i - at, "a maximal sharding needs exactly one device");
    *out = sharding_maximal(l->t, order_device(l->t, it->order, 0));
    return true;
}

/* Axes that are no runs of digits need the devices one by one: fine for thousands, not for 2^60. */
static bool too_many_to_list(const struct shardings *t, const struct items *it)
{
    struct runs r;
    return order_get(t, it->order)->ndevices > EXPLICIT_MAX &&
           !runs_cut(t, it->naxes, it->dims, it->order, &r);
}

static bool make_tiled(struct lexer *l, size_t at, const struct items *it, sharding_id *out)
{
    if (!it->tile)
        return lex_error(l, at, l->i - at, "a tiled sharding needs devices=[..]");
    if (it->listed && order_get(l->t, it->order)->ndevices < 2) {
        lex_error(l, it->tile_at, it->tile_len, "a tiled sharding needs two or more devices");
        diag_hint(l->d, "{replicated}, or {maximal device=N}");
        return false;
    }
    if (it->lastrep && it->types_given)
        return lex_error(l, at, l->i - at,
                         "last_tile_dim_replicate and last_tile_dims exclude each other");
    int ntypes = it->lastrep ? 1 : it->ntypes;
    if (ntypes > it->naxes)
        return lex_error(l, at, l->i - at, "%d typed dimensions, but only %d tile dimension%s",
                         ntypes, it->naxes, it->naxes == 1 ? "" : "s");
    if (too_many_to_list(l->t, it))
        return lex_error(l, it->tile_at, it->tile_len,
                         "tiles that cut across the %" PRId64 " devices are supported up to %d",
                         order_get(l->t, it->order)->ndevices, EXPLICIT_MAX);
    if (it->lastrep)
        *out = partial_make(l->t, it->naxes, it->dims, it->order);
    else
        *out = subgroup_make(l->t, it->naxes, it->dims, it->order, it->ntypes, it->types);
    return true;
}

static bool make_leaf(struct lexer *l, size_t at, const struct items *it, sharding_id *out)
{
    bool whole = it->replicated || it->manual || it->unknown;
    if (whole && it->tile && !it->maximal)
        return lex_error(l, it->tile_at, it->tile_len, "%s takes no device list",
                         it->replicated ? "replicated" : it->manual ? "manual" : "unknown");
    if (it->replicated)
        *out = sharding_replicated(l->t);
    else if (it->maximal)
        return make_maximal(l, at, it, out);
    else if (it->manual)
        *out = sharding_manual(l->t);
    else if (it->unknown)
        *out = sharding_unknown(l->t);
    else
        return make_tiled(l, at, it, out);
    return true;
}

static void note_leaf(struct reader *r, struct items *it, struct sharding_leaf_note *note)
{
    *note = (struct sharding_leaf_note){ .group_kind = it->group_kind,
                                         .group = it->group,
                                         .nmeta = (int)it->meta.n,
                                         .meta = it->meta.v,
                                         .listed = it->tile && it->listed };
    r->remarks = r->remarks || it->group_kind || it->meta.n || note->listed;
}

/* Metadata and groups behind a mesh spelling, and the closing brace. */
static bool read_mesh_remarks(struct reader *r, struct items *it)
{
    while (!lex_take(&r->l, '}')) {
        (void)lex_take(&r->l, ',');
        if (!read_item(r, it))
            return false;
        if (it->tile || it->replicated || it->manual || it->maximal || it->unknown)
            return lex_error(&r->l, r->l.i, 1, "the sharding is said twice");
    }
    return true;
}

/* Behind the opening brace of a leaf, with the closing one. */
static bool read_leaf(struct reader *r, sharding_id *out, struct sharding_leaf_note *note)
{
    struct lexer *l = &r->l;
    size_t at = l->i - 1;
    struct items it;
    memset(&it, 0, offsetof(struct items, dims));
    if (at_mesh_sharding(l)) {
        if (!read_mesh_sharding(l, out) || !read_mesh_remarks(r, &it))
            return false;
    } else if (lex_is(l, '}')) {
        return lex_error(l, at, l->i - at, "an empty sharding");
    } else {
        while (!lex_is(l, '}'))
            if (!read_item(r, &it))
                return false;
        l->i++;
        if (!make_leaf(l, at, &it, out))
            return false;
    }
    note_leaf(r, &it, note);
    return true;
}

/* Behind the opening brace of a tuple. */
static bool read_tuple(struct reader *r, struct arena *tmp, sharding_id *out, int64_t *nleaves,
                       struct sharding_leaf_note **notes)
{
    struct lexer *l = &r->l;
    VEC(sharding_id) elems = { 0 };
    VEC(struct sharding_leaf_note) list = { 0 };
    while (!lex_is(l, '}')) {
        sharding_id s;
        struct sharding_leaf_note note;
        if (elems.n && !lex_expect(l, ',', "tuple of shardings"))
            return false;
        if (!lex_expect(l, '{', "tuple of shardings") || !read_leaf(r, &s, &note))
            return false;
        vec_push(tmp, &elems, s);
        vec_push(tmp, &list, note);
    }
    l->i++;
    *out = sharding_tuple(l->t, elems.n, elems.v);
    *nleaves = elems.n;
    *notes = list.v;
    return true;
}

static bool read_sharding(struct reader *r, struct arena *tmp, sharding_id *out, int64_t *nleaves,
                          struct sharding_leaf_note **notes)
{
    struct lexer *l = &r->l;
    if (!lex_expect(l, '{', "sharding"))
        return false;
    if (lex_is(l, '{') || lex_is(l, '}'))
        return read_tuple(r, tmp, out, nleaves, notes);
    *nleaves = 1;
    *notes = ARENA_NEW(tmp, struct sharding_leaf_note);
    return read_leaf(r, out, *notes);
}

/* ---- texts seen before ------------------------------------------------------------------------------- */

/* A dump says the same few shardings over and over: what a short text without metadata means is
 * looked up. Its note is the table's own, shared by all who read the text. */
enum { SEEN_TEXT_MAX = 240, SEEN_MAX = 1 << 14 };

/* Bytes from { to its }, when that can be told without reading: no quotes, no comments. 0: cannot. */
static size_t simple_extent(const char *p, size_t n)
{
    if (n == 0 || p[0] != '{')
        return 0;
    int depth = 0;
    for (size_t i = 0; i < n && i < SEEN_TEXT_MAX; i++) {
        char c = p[i];
        if (c == '"' || c == '\'' || c == '/')
            return 0;
        depth += (c == '{') - (c == '}');
        if (depth == 0)
            return i + 1;
    }
    return 0;
}

static bool seen_get(const struct shardings *t, const char *p, size_t len, sharding_id *out,
                     struct sharding_note *note)
{
    uint32_t id = len ? intern_find(&t->texts, p, len) : 0;
    if (!id)
        return false;
    const struct sharding_note *seen = paged_at(&t->text_notes, id);
    *out = seen->id;
    if (note)
        *note = *seen;
    return true;
}

static void seen_put(struct shardings *t, const char *p, size_t len, const struct reader *r,
                     sharding_id id, int64_t nleaves, const struct sharding_leaf_note *leaves)
{
    for (int64_t i = 0; i < nleaves; i++)
        if (leaves[i].nmeta)
            return;
    if (t->texts.entries.n > SEEN_MAX)
        return;
    uint32_t k = intern_put(&t->texts, p, len);
    if (k < t->text_notes.n)
        return;
    (void)paged_add(&t->text_notes);
    struct sharding_note *note = paged_at(&t->text_notes, k);
    *note = (struct sharding_note){ .text = intern_at(&t->texts, k)->bytes,
                                    .len = (uint32_t)len,
                                    .id = id,
                                    .nleaves = nleaves };
    if (r->remarks)
        note->leaves = arena_copy(&t->arena, leaves, nleaves, sizeof *leaves);
}

bool sharding_parse(struct shardings *t, struct arena *a, const struct source *src, uint32_t off,
                    const char *p, size_t n, size_t *used, sharding_id *out,
                    struct sharding_note *note, struct diag *d)
{
    size_t simple = simple_extent(p, n);
    if (seen_get(t, p, simple, out, note)) {
        *used = simple;
        return true;
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct reader r = { .l = { .t = t, .src = src, .d = d, .off = off, .p = p, .n = n },
                        .arena = a ? a : &tmp };
    struct sharding_leaf_note *leaves = NULL;
    int64_t nleaves = 0;
    lex_blank(&r.l);
    size_t start = r.l.i;
    bool ok = read_sharding(&r, &tmp, out, &nleaves, &leaves);
    if (ok)
        *used = r.l.i;
    if (ok && r.l.i == simple)
        seen_put(t, p, simple, &r, *out, nleaves, leaves);
    if (ok && note) {
        size_t len = r.l.i - start;
        *note = (struct sharding_note){ .text = arena_strndup(r.arena, p + start, len),
                                        .len = (uint32_t)len,
                                        .id = *out,
                                        .nleaves = nleaves };
        if (r.remarks)
            note->leaves = arena_copy(r.arena, leaves, nleaves, sizeof *leaves);
    }
    arena_close(&tmp);
    return ok;
}

/* ---- printing, P-16 -------------------------------------------------------------------------------------- */

static void print_types(const struct sharding *x, struct str *out)
{
    static const char *const words[] = { "maximal", "manual", "replicated" };
    str_adds(out, " last_tile_dims={");
    for (int i = 0; i < x->ntypes; i++) {
        str_adds(out, i ? ", " : "");
        str_adds(out, words[x->types[i]]);
    }
    str_addc(out, '}');
}

static void print_remarks(const struct sharding_leaf_note *note, bool with_meta, struct str *out)
{
    if (note->group_kind)
        str_addf(out, " shard_%s %" PRId64, note->group_kind == 1 ? "as" : "like", note->group);
    if (!with_meta || note->nmeta == 0)
        return;
    str_adds(out, note->nmeta > 1 ? " metadata={" : " metadata=");
    for (int i = 0; i < note->nmeta; i++)
        str_addf(out, "%s{%s}", i ? ", " : "", note->meta[i]);
    str_adds(out, note->nmeta > 1 ? "}" : "");
}

/* listed: the note was written for this very sharding, so its form holds. */
static void print_leaf(const struct shardings *t, sharding_id s, bool listed,
                       const struct sharding_leaf_note *note, bool with_meta, struct str *out)
{
    const struct sharding *x = sharding_get(t, s);
    str_addc(out, '{');
    switch (x->kind) {
    case SHARDING_REPLICATED: str_adds(out, "replicated"); break;
    case SHARDING_MAXIMAL: str_addf(out, "maximal device=%" PRId64, x->device); break;
    case SHARDING_MANUAL: str_adds(out, "manual"); break;
    case SHARDING_UNKNOWN: str_adds(out, "unknown"); break;
    case SHARDING_TILED:
        str_adds(out, "devices=");
        tile_print(t, x->tiles, listed && note && note->listed, out);
        str_adds(out, x->lastrep ? " last_tile_dim_replicate" : "");
        if (x->ntypes)
            print_types(x, out);
        break;
    case SHARDING_NONE:
    case SHARDING_TUPLE: break;
    }
    if (note)
        print_remarks(note, with_meta, out);
    str_addc(out, '}');
}

static void print_tuple(const struct shardings *t, const struct sharding *x, bool listed,
                        const struct sharding_leaf_note *leaves, bool with_meta, struct str *out)
{
    str_addc(out, '{');
    for (int64_t i = 0; i < x->nelems; i++) {
        if (i && i % 5 == 0)
            str_addf(out, ", /*index=%" PRId64 "*/", i);
        else if (i)
            str_adds(out, ", ");
        print_leaf(t, x->elems[i], listed, leaves ? &leaves[i] : NULL, with_meta, out);
    }
    str_addc(out, '}');
}

static bool note_fits(const struct sharding_note *note, const struct sharding *x)
{
    return note && note->nleaves == (x->kind == SHARDING_TUPLE ? x->nelems : 1);
}

static bool has_metadata(const struct sharding_note *note)
{
    for (int64_t i = 0; note->leaves && i < note->nleaves; i++)
        if (note->leaves[i].nmeta)
            return true;
    return false;
}

void sharding_print(const struct shardings *t, sharding_id s, const struct sharding_note *note,
                    bool with_meta, struct str *out)
{
    if (s.i == 0)
        return;
    const struct sharding *x = sharding_get(t, s);
    if (note && note->id.i == s.i && note->text && (with_meta || !has_metadata(note))) {
        str_add(out, note->text, note->len);
        return;
    }
    bool listed = note && note->id.i == s.i;
    const struct sharding_leaf_note *leaves = note_fits(note, x) ? note->leaves : NULL;
    if (x->kind == SHARDING_TUPLE)
        print_tuple(t, x, listed, leaves, with_meta, out);
    else
        print_leaf(t, s, listed, leaves, with_meta, out);
}
