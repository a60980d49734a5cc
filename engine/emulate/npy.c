/* NumPy's .npy files: read with the type and shape that the program wants, written the way
 * numpy.load reads them. Types that NumPy does not know travel as raw bytes (V2, V1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/lower.h"

static const struct span nowhere = { 0, 0 };

static void descr_of(enum dtype t, char *out, size_t n)
{
    enum dtype_kind k = dtype_kind(t);
    int bytes = dtype_bytes(t);
    if (k == DTYPE_KIND_PRED)
        snprintf(out, n, "|b1");
    else if (k == DTYPE_KIND_SIGNED || k == DTYPE_KIND_UNSIGNED)
        snprintf(out, n, "%c%c%d", bytes == 1 ? '|' : '<', k == DTYPE_KIND_SIGNED ? 'i' : 'u',
                 bytes);
    else if (k == DTYPE_KIND_COMPLEX)
        snprintf(out, n, "<c%d", bytes);
    else if (t == DTYPE_F16 || t == DTYPE_F32 || t == DTYPE_F64)
        snprintf(out, n, "<f%d", bytes);
    else
        snprintf(out, n, "|V%d", bytes);
}

bool npy_write(const char *path, const struct tensor *t, struct diag *d)
{
    char descr[16];
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct str h = STR_IN(&tmp);
    if (t->ring)
        snprintf(descr, sizeof descr, dtype_kind(t->dtype) == DTYPE_KIND_COMPLEX ? "|V16" : "<i8");
    else
        descr_of(t->dtype, descr, sizeof descr);
    str_addf(&h, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int k = 0; k < t->rank; k++)
        str_addf(&h, "%" PRId64 "%s", t->dims[k], t->rank == 1 ? "," : k + 1 < t->rank ? ", " : "");
    str_adds(&h, "), }");
    while ((10 + h.n + 1) % 64)
        str_addc(&h, ' ');
    str_addc(&h, '\n');
    FILE *f = fopen(path, "wb");
    bool ok = f != NULL;
    if (f) {
        unsigned char head[10] = { 0x93,
                                   'N',
                                   'U',
                                   'M',
                                   'P',
                                   'Y',
                                   1,
                                   0,
                                   (unsigned char)(h.n & 255),
                                   (unsigned char)(h.n >> 8) };
        ok = fwrite(head, 1, 10, f) == 10 && fwrite(h.s, 1, h.n, f) == h.n &&
             fwrite(t->data, 1, (size_t)t->bytes, f) == (size_t)t->bytes;
        ok &= fclose(f) == 0;
    }
    arena_close(&tmp);
    return ok || diag_error(d, NULL, nowhere, "%s cannot be written", path);
}

/* ---- reading ------------------------------------------------------------------------------------
 */

struct header {
    char kind, order; /* f, i, u, b, c, V; '<', '>', '|' */
    int size;
    bool fortran;
    int rank;
    int64_t dims[MAX_RANK];
};

static const char *after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    if (!at)
        return NULL;
    at += strlen(key);
    while (*at == ' ' || *at == ':')
        at++;
    return at;
}

/* Structured types like ml_dtypes' own ('bfloat16' as a name) are not read: raw bytes are. */
static bool parse_header(const char *text, struct header *h)
{
    const char *descr = after(text, "'descr'"), *fortran = after(text, "'fortran_order'");
    const char *shape = after(text, "'shape'");
    if (!descr || !fortran || !shape || *descr != '\'' || *shape != '(')
        return false;
    descr++;
    h->order = *descr == '<' || *descr == '>' || *descr == '|' || *descr == '=' ? *descr++ : '=';
    h->kind = *descr;
    h->size = h->kind ? atoi(descr + 1) : 0;
    if (h->kind == '?')
        h->kind = 'b', h->size = 1;
    h->fortran = strncmp(fortran, "True", 4) == 0;
    for (shape++; *shape && *shape != ')';) {
        int64_t v;
        size_t used = parse_i64(shape, strlen(shape), &v);
        if (!used) {
            shape++;
            continue;
        }
        if (h->rank == MAX_RANK)
            return false;
        h->dims[h->rank++] = v;
        shape += used;
    }
    return h->size > 0;
}

static char numpy_kind(enum dtype t)
{
    enum dtype_kind k = dtype_kind(t);
    if (k == DTYPE_KIND_PRED)
        return 'b';
    if (k == DTYPE_KIND_SIGNED)
        return 'i';
    if (k == DTYPE_KIND_UNSIGNED)
        return 'u';
    return k == DTYPE_KIND_COMPLEX ? 'c' : 'f';
}

static enum dtype file_dtype(const struct header *h, enum dtype want)
{
    bool f8 = h->kind == 'f' && h->size == 1; /* ml_dtypes' float8_e5m2 calls itself that */
    if (h->kind == 'V' || (f8 && dtype_kind(want) == DTYPE_KIND_FLOAT))
        return h->size == dtype_bytes(want) ? want : DTYPE_NONE;
    for (int t = 1; t < DTYPE_COUNT; t++) {
        enum dtype x = (enum dtype)t;
        bool known =
            dtype_kind(x) != DTYPE_KIND_FLOAT || x == DTYPE_F16 || x == DTYPE_F32 || x == DTYPE_F64;
        if (known && dtype_bits(x) >= 8 && numpy_kind(x) == h->kind && dtype_bytes(x) == h->size)
            return x;
    }
    return DTYPE_NONE;
}

/* 0/1 and narrow integers come as wider ones; floats as f32 for types NumPy lacks. */
static bool acceptable(enum dtype from, enum dtype want)
{
    enum dtype_kind a = dtype_kind(from), b = dtype_kind(want);
    if (from == want)
        return true;
    bool ints_a = a == DTYPE_KIND_SIGNED || a == DTYPE_KIND_UNSIGNED || a == DTYPE_KIND_PRED;
    bool ints_b = b == DTYPE_KIND_SIGNED || b == DTYPE_KIND_UNSIGNED || b == DTYPE_KIND_PRED;
    if (ints_a && ints_b)
        return dtype_bits(want) < 8 || a == DTYPE_KIND_PRED || b == DTYPE_KIND_PRED;
    return a == DTYPE_KIND_FLOAT && b == DTYPE_KIND_FLOAT;
}

static void swap_bytes(char *p, int64_t n, int size, int part)
{
    for (int64_t i = 0; i < n * (size / part); i++, p += part)
        for (int k = 0; k < part / 2; k++) {
            char c = p[k];
            p[k] = p[part - 1 - k];
            p[part - 1 - k] = c;
        }
}

static void from_fortran(const struct header *h, char *data, int size, struct arena *tmp)
{
    int64_t n = 1;
    struct box b = box_new(tmp, h->rank);
    row_strides(h->rank, h->dims, b.dst);
    for (int k = 0; k < h->rank; k++) {
        b.dims[k] = h->dims[k];
        b.src[k] = n;
        n *= h->dims[k];
    }
    char *copy = arena_copy(tmp, data, n, (size_t)size);
    box_compact(&b);
    box_copy(&b, data, copy, size);
}

static bool take_body(FILE *f, const struct header *h, enum dtype from, struct tensor *out,
                      const char *path, struct arena *tmp, struct diag *d)
{
    int64_t n;
    if (!product_ok(h->dims, h->rank, &n) || n < 0 || n > INT64_MAX / 64)
        return diag_error(d, NULL, nowhere, "%s: the shape is too large", path);
    if (h->rank != out->rank ||
        (h->rank && memcmp(h->dims, out->dims, (size_t)h->rank * sizeof(int64_t)))) {
        struct str a = STR_IN(tmp), b = STR_IN(tmp);
        for (int k = 0; k < h->rank; k++)
            str_addf(&a, "%s%" PRId64, k ? "," : "", h->dims[k]);
        for (int k = 0; k < out->rank; k++)
            str_addf(&b, "%s%" PRId64, k ? "," : "", out->dims[k]);
        return diag_error(d, NULL, nowhere, "%s: shape [%s], the program wants [%s]", path,
                          str_text(&a), str_text(&b));
    }
    char *raw = arena_alloc(tmp, n + 1, (size_t)h->size);
    if (fread(raw, (size_t)h->size, (size_t)n, f) != (size_t)n)
        return diag_error(d, NULL, nowhere, "%s: the file ends before the array does", path);
    if (h->order == '>')
        swap_bytes(raw, n, h->size, h->kind == 'c' ? h->size / 2 : h->size);
    if (h->fortran && h->rank > 1)
        from_fortran(h, raw, h->size, tmp);
    const struct ew *e =
        ew_make(tmp, OP_CONVERT, elem_of(from, EMU_FLOAT), elem_of(out->dtype, EMU_FLOAT), 0, 0);
    if (!e)
        return diag_error(d, NULL, nowhere, "%s: the element type does not fit", path);
    convert_elements(e, raw, out->data, n);
    return true;
}

static bool read_open(FILE *f, const char *path, struct tensor *out, struct arena *tmp,
                      struct diag *d)
{
    unsigned char head[12];
    struct header h = { 0 };
    if (fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 ||
        head[6] > 3)
        return diag_error(d, NULL, nowhere, "%s is no .npy file", path);
    size_t len = head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) {
        if (fread(head + 10, 1, 2, f) != 2)
            return diag_error(d, NULL, nowhere, "%s: the header is cut", path);
        len |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    if (len > (1 << 20))
        return diag_error(d, NULL, nowhere, "%s: the header is too long", path);
    char *text = arena_alloc(tmp, (int64_t)len + 1, 1);
    if (fread(text, 1, len, f) != len || !parse_header(text, &h))
        return diag_error(d, NULL, nowhere, "%s: the header cannot be read", path);
    enum dtype from = file_dtype(&h, out->dtype);
    if (from == DTYPE_NONE || !acceptable(from, out->dtype))
        return diag_error(d, NULL, nowhere, "%s: elements are %c%d, the program wants %s", path,
                          h.kind, h.size, dtype_name(out->dtype));
    return take_body(f, &h, from, out, path, tmp, d);
}

bool npy_read(const char *path, enum dtype want, int rank, const int64_t *dims, struct tensor *out,
              struct diag *d)
{
    FILE *f = fopen(path, "rb");
    struct arena tmp = { 0 };
    *out = (struct tensor){ 0 };
    if (!f)
        return diag_error(d, NULL, nowhere, "%s cannot be opened", path);
    if (!tensor_alloc(want, rank, dims, false, out)) {
        fclose(f);
        return diag_error(d, NULL, nowhere, "no memory for %s", path);
    }
    arena_open(&tmp);
    bool ok = read_open(f, path, out, &tmp, d);
    arena_close(&tmp);
    fclose(f);
    if (!ok)
        tensor_free(out);
    return ok;
}
