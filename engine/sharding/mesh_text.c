/* The HLO spelling of 2026: {mesh['x'=2,'y'=2], [{'y'}, {}], manual={'x'}}, {maximal_mesh[device_id=3]},
 * and replica groups mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'x'}. */
#include <string.h>

#include "sharding/axes.h"

bool at_mesh_sharding(struct lexer *l)
{
    size_t back = l->i;
    bool is = lex_take_text(l, "mesh[") || lex_take_text(l, "maximal_mesh[");
    l->i = back;
    return is;
}

/* [{'y'}, {'x', ?}, {}], a priority p0 behind an entry allowed. */
static bool read_dimensions(struct lexer *l, const struct mesh *m, struct layout *a)
{
    while (!lex_is(l, ']')) {
        if (a->rank && !lex_expect(l, ',', "list of dimensions"))
            return false;
        if (a->rank == AXES_MAX - 4)
            return lex_error(l, l->i, 1, "more than %d dimensions", AXES_MAX - 4);
        if (!lex_expect(l, '{', "list of dimensions") ||
            !read_axis_braces(l, m, a->rank, a))
            return false;
        a->rank++;
        if (lex_is(l, 'p')) {
            int64_t priority;
            l->i++;
            if (!lex_int(l, &priority, "priority"))
                return false;
        }
    }
    l->i++;
    return true;
}

/* GSPMD has no word for a sum that is still owed: what is left is that nothing is cut there. */
void warn_unreduced(struct lexer *l, size_t at)
{
    diag_warn(l->d, l->src, (struct span){ (uint32_t)(l->off + at), (uint32_t)(l->i - at) },
              "GSPMD knows no sums that are still owed (unreduced): the value counts as replicated there");
}

/* ={'x'}, =max{'x'} */
static bool read_unreduced(struct lexer *l, const struct mesh *m, size_t at, struct layout *a)
{
    if (!lex_expect(l, '=', "sharding"))
        return false;
    const char *w;
    l->i += lex_word(l, &w);
    if (!lex_expect(l, '{', "sharding") || !read_axis_braces(l, m, ALSO_NAMED, a))
        return false;
    warn_unreduced(l, at);
    return true;
}

/* replicated={..}, manual={..}, behind the dimensions. */
static bool read_more(struct lexer *l, const struct mesh *m, struct layout *a)
{
    lex_blank(l);
    size_t at = l->i;
    if (lex_take_text(l, "replicated={"))
        return read_axis_braces(l, m, ALSO_NAMED, a);
    if (lex_take_text(l, "manual={"))
        return read_axis_braces(l, m, a->rank, a);
    if (lex_take_text(l, "unreduced"))
        return read_unreduced(l, m, at, a);
    return lex_error(l, at, 1, "replicated={..} or manual={..} expected");
}

static bool at_remark(struct lexer *l)
{
    size_t back = l->i;
    bool is = lex_take_text(l, "metadata=") || lex_take_text(l, "shard_as") ||
              lex_take_text(l, "shard_like");
    l->i = back;
    return is;
}

static bool read_mesh_body(struct lexer *l, const struct mesh *m, sharding_id *out)
{
    struct layout a = { .rank = 0 };
    if (!lex_expect(l, ',', "sharding"))
        return false;
    lex_blank(l);
    size_t at = l->i;
    if (lex_take_word(l, "replicated")) {
        *out = sharding_replicated(l->t);
        return true;
    }
    if (lex_take_word(l, "manual")) {
        *out = sharding_manual(l->t);
        return true;
    }
    if (lex_take_word(l, "unreduced")) {
        warn_unreduced(l, at);
        *out = sharding_replicated(l->t);
        return true;
    }
    if (!lex_expect(l, '[', "sharding") || !read_dimensions(l, m, &a))
        return false;
    while (lex_take(l, ',')) {
        if (at_remark(l))
            break;
        if (!read_more(l, m, &a))
            return false;
    }
    *out = layout_sharding(l->t, m, &a);
    return true;
}

bool read_mesh_sharding(struct lexer *l, sharding_id *out)
{
    if (lex_take_text(l, "maximal_mesh[")) {
        int64_t device;
        if (!lex_take_text(l, "device_id="))
            return lex_error(l, l->i, 1, "device_id= expected");
        if (!lex_int(l, &device, "device number") || !lex_expect(l, ']', "mesh"))
            return false;
        *out = sharding_maximal(l->t, device);
        return true;
    }
    if (!lex_take_text(l, "mesh"))
        return lex_error(l, l->i, 1, "mesh[..] expected");
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct mesh m;
    bool ok = read_inline_mesh(l, &tmp, &m) && read_mesh_body(l, &m, out);
    /* Over one device there is nothing to split, and no list of devices could say it (P-10). */
    if (ok && sharding_get(l->t, *out)->kind == SHARDING_TILED && sharding_total(l->t, *out) == 1)
        *out = sharding_replicated(l->t);
    arena_close(&tmp);
    return ok;
}

bool mesh_groups_parse(struct shardings *t, const struct source *src, uint32_t off, const char *p,
                       size_t n, size_t *used, struct tiling *out, struct diag *d)
{
    struct lexer l = { .t = t, .src = src, .d = d, .off = off, .p = p, .n = n };
    if (!lex_take_text(&l, "mesh"))
        return lex_error(&l, l.i, 1, "mesh[..] expected");
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct mesh m;
    struct layout a = { .rank = 1 };
    bool ok = read_inline_mesh(&l, &tmp, &m) && lex_expect(&l, '{', "replica groups") &&
              read_axis_braces(&l, &m, 0, &a);
    if (ok) {
        *out = layout_groups(t, &m, &a);
        *used = l.i;
    }
    arena_close(&tmp);
    return ok;
}
