/* Locations of StableHLO text to metadata: op_name is the outermost name, file and line are those of
 * the innermost frame. Locations are aliases mostly, each resolved once. */
#include "text/mlir.h"

struct place {
    const char *name, *file;
    uint32_t nname, nfile;
    int64_t line;
};

static const char *blanks(const char *p, const char *end)
{
    while (p < end && mis(*p, MC_SPACE))
        p++;
    return p;
}

/* Follows the first child of each location, at most so many steps: aliases may go in circles. */
static void follow(const struct mlir *r, const char *p, const char *end, struct place *out)
{
    for (int steps = 0; steps < 100; steps++) {
        while (p < end && (mis(*p, MC_SPACE) || *p == '(' || *p == '['))
            p++;
        if (p >= end)
            return;
        if (*p == '#') {
            const struct malias *a = mlir_alias(r, p, 1 + mword(p + 1));
            if (!a)
                return;
            p = a->text;
            end = p + a->ntext;
            continue;
        }
        if (*p == '"') {
            const char *q = mbalanced(p, end);
            if (!q)
                return;
            const char *text = p + 1;
            uint32_t n = (uint32_t)(q - p - 2);
            q = blanks(q, end);
            if (q < end && *q == ':') {
                out->file = text;
                out->nfile = n;
                if (!parse_i64(q + 1, (size_t)(end - q - 1), &out->line))
                    out->line = 0;
                return;
            }
            if (!out->name) {
                out->name = text;
                out->nname = n;
            }
            if (q >= end || *q != '(')
                return;
            p = q;
            continue;
        }
        size_t w = mword(p);
        if (mtext(p, w, "loc") || mtext(p, w, "callsite")) {
            p += w;
        } else if (mtext(p, w, "fused")) {
            p += w;
            if (p < end && *p == '<') {
                const char *q = mbalanced(p, end);
                if (!q)
                    return;
                p = q;
            }
        } else {
            return;
        }
    }
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* MLIR escapes as \22, HLO as \". */
void mlir_add_escaped(struct str *s, const char *p, uint32_t n, bool apostrophes)
{
    for (uint32_t i = 0; i < n; i++) {
        char c = p[i];
        if (c == '\\' && i + 2 < n && hex_value(p[i + 1]) >= 0 && hex_value(p[i + 2]) >= 0) {
            c = (char)(hex_value(p[i + 1]) * 16 + hex_value(p[i + 2]));
            i += 2;
        } else if (c == '\\' && i + 1 < n) {
            c = p[++i];
        }
        if (c == '"' || c == '\\' || (apostrophes && c == '\''))
            str_addc(s, '\\');
        if ((unsigned char)c < 32)
            str_addf(s, "\\%03o", (unsigned)(unsigned char)c);
        else
            str_addc(s, c);
    }
}

static const char *make(struct mlir *r, const char *loc, uint32_t nloc, uint32_t *len)
{
    struct place at = { 0 };
    follow(r, loc, loc + nloc, &at);
    struct str s = STR_IN(&r->m->arena);
    if (at.nname) {
        str_adds(&s, "op_name=\"");
        mlir_add_escaped(&s, at.name, at.nname, true);
        str_addc(&s, '"');
    }
    if (at.nfile && !mtext(at.file, at.nfile, "-")) {
        str_adds(&s, s.n ? " source_file=\"" : "source_file=\"");
        mlir_add_escaped(&s, at.file, at.nfile, true);
        str_addf(&s, "\" source_line=%" PRId64, at.line);
    }
    *len = (uint32_t)s.n;
    return s.n ? str_text(&s) : NULL;
}

void mlir_metadata(struct mlir *r, const char *loc, uint32_t nloc, const char **text, uint32_t *len)
{
    *text = NULL;
    *len = 0;
    if (!loc)
        return;
    const char *p = blanks(loc + 1, loc + nloc);
    if (*p == '#') {
        struct malias *a = (struct malias *)(uintptr_t)mlir_alias(r, p, 1 + mword(p + 1));
        if (!a)
            return;
        if (!a->done) {
            a->metadata = make(r, loc, nloc, &a->nmetadata);
            a->done = true;
        }
        *text = a->metadata;
        *len = a->nmetadata;
        return;
    }
    *text = make(r, loc, nloc, len);
}
