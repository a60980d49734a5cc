/* Opening files: reading, unpacking, telling the form by content.
 *
 * Nothing here trusts a file name: what counts is what the bytes say. Sizes are bounded, also of
 * what a .gz unpacks to. */
#include "text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fail.h"

/* Spans have 32 bits. */
static const size_t MAX_TEXT = (size_t)3 << 30;

void source_free(struct source *s)
{
    if (!s)
        return;
    free((void *)(uintptr_t)s->name);
    free((void *)(uintptr_t)s->text);
    free(s);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

struct bytes {
    char *s;
    size_t n, cap;
};

static bool grow(struct bytes *b, size_t more)
{
    if (b->cap - b->n > more)
        return true;
    size_t cap = b->cap ? b->cap : 65536;
    while (cap - b->n <= more) {
        if (cap > MAX_TEXT)
            return false;
        cap *= 2;
    }
    char *s = realloc(b->s, cap);
    if (!s)
        return false;
    b->s = s;
    b->cap = cap;
    return true;
}

static bool fail_io(struct diag *d, const char *name, const char *what)
{
    const char *former = diag_stage(d, "io");
    diag_error(d, NULL, (struct span){ 0, 0 }, "%s: %s", name, what);
    diag_stage(d, former);
    return false;
}

static bool fail_size(struct diag *d, const char *name)
{
    const char *former = diag_stage(d, "limit");
    diag_error(d, NULL, (struct span){ 0, 0 }, "%s: more than %zu MB of text, or no memory for it",
               name, MAX_TEXT >> 20);
    diag_stage(d, former);
    return false;
}

static bool read_all(int fd, const char *name, struct bytes *b, struct diag *d)
{
    struct stat st;
    size_t hint = fstat(fd, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size + 1 : 65536;
    if (hint > MAX_TEXT)
        return fail_size(d, name);
    for (;;) {
        if (!grow(b, hint))
            return fail_size(d, name);
        hint = 65536;
        ssize_t k = read(fd, b->s + b->n, b->cap - b->n - 1);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return fail_io(d, name, strerror(errno));
        if (k == 0)
            return true;
        b->n += (size_t)k;
    }
}

/* ---- .gz ------------------------------------------------------------------------------------- */

static bool inflate_all(z_stream *z, struct bytes *out, const char **why)
{
    for (;;) {
        if (!grow(out, 65536)) {
            *why = NULL;
            return false;
        }
        size_t room = out->cap - out->n - 1;
        z->next_out = (Bytef *)out->s + out->n;
        z->avail_out = room > (1u << 30) ? 1u << 30 : (uInt)room;
        uInt before = z->avail_out;
        int rc = inflate(z, Z_NO_FLUSH);
        out->n += before - z->avail_out;
        if (rc == Z_STREAM_END) {
            /* gzip allows several members one behind the other */
            if (z->avail_in < 2 || z->next_in[0] != 0x1f || z->next_in[1] != 0x8b)
                return true;
            if (inflateReset(z) != Z_OK) {
                *why = "corrupt";
                return false;
            }
            continue;
        }
        if (rc == Z_BUF_ERROR || (rc == Z_OK && z->avail_in == 0 && z->avail_out != 0)) {
            *why = "truncated: the compressed data ends too early";
            return false;
        }
        if (rc == Z_OK)
            continue;
        *why = rc == Z_MEM_ERROR                   ? NULL
               : z->msg && strstr(z->msg, "check") ? "corrupt: the checksum does not fit the data"
                                                   : "corrupt: this is no valid compressed data";
        return false;
    }
}

static bool unpack(const char *name, struct bytes *b, struct diag *d)
{
    if (b->n < 2 || (unsigned char)b->s[0] != 0x1f || (unsigned char)b->s[1] != 0x8b)
        return true;
    z_stream z = { .next_in = (Bytef *)b->s, .avail_in = (uInt)b->n };
    if (b->n > UINT32_MAX || inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return fail_size(d, name);
    struct bytes out = { 0 };
    const char *why = NULL;
    bool ok = inflate_all(&z, &out, &why);
    inflateEnd(&z);
    free(b->s);
    *b = out;
    if (ok)
        return true;
    return why ? fail_io(d, name, why) : fail_size(d, name);
}

/* ---- sources --------------------------------------------------------------------------------- */

static struct source *make_source(const char *name, char *text, size_t n)
{
    struct source *s = malloc(sizeof *s);
    char *copy = strdup(name);
    if (!s || !copy) {
        free(s);
        free(copy);
        free(text);
        return NULL;
    }
    *s = (struct source){ .name = copy, .text = text, .len = n };
    return s;
}

static bool fail_open(const char *path, int error, struct diag *d)
{
    fail_io(d, path, error == EISDIR ? "this is a directory" : strerror(error));
    if (error == EISDIR)
        diag_hint(d, "name a file in it");
    else if (error == ENOENT)
        diag_hint(d, "check the path; `load` completes file names");
    return false;
}

bool file_read(const char *path, struct source **out, struct diag *d)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return fail_open(path, errno, d);
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        return fail_open(path, EISDIR, d);
    }
    const char *name = is_stdin ? "<stdin>" : path;
    struct bytes b = { 0 };
    bool ok = read_all(fd, name, &b, d);
    if (!is_stdin)
        close(fd);
    if (!ok || !unpack(name, &b, d)) {
        free(b.s);
        return false;
    }
    b.s[b.n] = '\0';
    *out = make_source(name, b.s, b.n);
    return *out || fail_size(d, name);
}

/* ---- what a text is -------------------------------------------------------------------------- */

enum form {
    FORM_HLO,
    FORM_JSON,
    FORM_MLIR,
    FORM_BYTECODE,
    FORM_EXPORT,
    FORM_PROTO,
    FORM_MODULE_PROTO,
    FORM_EMPTY,
    FORM_UTF16,
    FORM_REPORT,
    FORM_BINARY
};

static size_t blank_prefix(const char *s, size_t n)
{
    size_t i = n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* byte order mark */
    while (i < n && (s[i] == ' ' || (s[i] >= '\t' && s[i] <= '\r')))
        i++;
    return i;
}

/* Skips // comments and MLIR's #aliases, to see the first word. */
static const char *first_word(const char *p, const char *end)
{
    for (;;) {
        p += blank_prefix(p, (size_t)(end - p));
        bool comment = end - p >= 2 && p[0] == '/' && p[1] == '/';
        bool block = end - p >= 2 && p[0] == '/' && p[1] == '*';
        bool alias = end - p >= 1 && (p[0] == '#' || p[0] == '!');
        const char *q = NULL;
        if (comment || alias) {
            q = memchr(p, '\n', (size_t)(end - p));
        } else if (block) {
            q = memmem(p, (size_t)(end - p), "*/", 2);
            q = q ? q + 1 : NULL;
        } else {
            return p;
        }
        if (!q)
            return p;
        p = q + 1;
    }
}

static bool starts(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0;
}

static bool looks_binary(const char *s, size_t n)
{
    size_t odd = 0, look = n < 1024 ? n : 1024;
    for (size_t i = 0; i < look; i++) {
        unsigned char c = (unsigned char)s[i];
        odd += (c < 32 && !(c >= '\t' && c <= '\r')) || c == 127;
    }
    return odd * 20 > look; /* text with a stray control character is still text */
}

/* HloProto: field 1, its length, then field 1 of HloModuleProto, a name. HloModuleProto: the name
 * first. */
static enum form proto_form(const char *s, size_t n)
{
    enum form f = FORM_MODULE_PROTO;
    if (n < 16 || s[0] != 0x0a)
        return FORM_BINARY;
    size_t i = 1;
    while (i < 6 && (unsigned char)s[i] & 0x80)
        i++;
    i++;
    if (s[i] == 0x0a) {
        f = FORM_PROTO;
        i += 2;
    }
    size_t k = 0;
    while (k < 4 && i + k < n && ((s[i + k] >= 'a' && s[i + k] <= 'z') || s[i + k] == '_'))
        k++;
    return k >= 3 ? f : FORM_BINARY;
}

static enum form form_of(const char *s, size_t n)
{
    size_t i = blank_prefix(s, n);
    if (i == n)
        return FORM_EMPTY;
    if (starts(s, s + n, "ML\xefR"))
        return FORM_BYTECODE;
    if (n >= 2 && (memcmp(s, "\xff\xfe", 2) == 0 || memcmp(s, "\xfe\xff", 2) == 0))
        return FORM_UTF16;
    if (looks_binary(s, n)) {
        if (memmem(s, n, "ML\xefR", 4))
            return FORM_EXPORT;
        return proto_form(s, n);
    }
    const char *end = s + n, *p = first_word(s + i, end);
    if (starts(p, end, "BufferAssignment:") || starts(p, end, "Total bytes used:"))
        return FORM_REPORT;
    if (*p == '{' || *p == '[')
        return FORM_JSON;
    static const char *const mlir[] = { "module",         "func.func",
                                        "builtin.module", "\"builtin.module",
                                        "sdy.mesh",       "\"func.func",
                                        "\"sdy.mesh",     "vhlo.func",
                                        "\"vhlo.func",    "func @" };
    for (size_t k = 0; k < COUNTOF(mlir); k++)
        if (starts(p, end, mlir[k]) && (k || p[6] == ' ' || p[6] == '{'))
            return memmem(p, (size_t)min_i64(end - p, 1 << 16), " parameter(", 11) ? FORM_HLO : FORM_MLIR;
    return FORM_HLO;
}

static bool refuse(struct diag *d, const struct source *s, const char *what, const char *hint)
{
    const char *former = diag_stage(d, "parse");
    diag_error(d, s, (struct span){ 0, 1 }, "%s", what);
    /* A quoted line of bytes, or of nothing, helps nobody. */
    if (d && d->msgs.n &&
        (looks_binary(s->text, s->len) || blank_prefix(s->text, s->len) == s->len))
        d->msgs.v[d->msgs.n - 1].quote = NULL;
    if (hint)
        diag_hint(d, "%s", hint);
    diag_stage(d, former);
    return false;
}

/* How to get HLO text from what we recognise but do not read. */
static bool refuse_form(struct diag *d, const struct source *s, enum form f)
{
    switch (f) {
    case FORM_BYTECODE:
        return refuse(d, s, "this is MLIR bytecode (binary), not StableHLO text",
                      "print its text: python3 -c \"import sys; from jax._src.interpreters import mlir; from "
                      "jax._src.lib.mlir.dialects import hlo; print(hlo.deserialize_portable_artifact("
                      "mlir.make_ir_context(), open(sys.argv[1],'rb').read()))\" FILE > FILE.mlir");
    case FORM_EXPORT:
        return refuse(d, s, "this is a jax.export artifact (binary), not StableHLO text",
                      "print its text: python3 -c \"import sys; from jax import export; print(export.deserialize("
                      "bytearray(open(sys.argv[1],'rb').read())).mlir_module())\" FILE > FILE.mlir");
    case FORM_PROTO:
        return refuse(
            d, s, "this is a binary HLO protocol buffer (.hlo.pb), not HLO text",
            "print its text: python3 -c \"import sys; from jax._src.lib import xla_client as x; "
            "b=open(sys.argv[1],'rb').read(); i=next(k for k in range(1,9) if b[k]<128); "
            "n=sum((b[k]&127)<<7*(k-1) for k in range(1,i+1)); print(x.XlaComputation(b[i+1:i+1+n])"
            ".as_hlo_text())\" FILE > FILE.hlo; or dump text: XLA_FLAGS=\"--xla_dump_to=DIR "
            "--xla_dump_hlo_as_text\"");
    case FORM_REPORT:
        return refuse(d, s, "this is a report of XLA's on a module, not the module",
                      "the module is in the file of the same name up to _optimizations.txt");
    case FORM_MODULE_PROTO:
        return refuse(d, s, "this is a binary HLO module (protocol buffer), not HLO text",
                      "print HLO text instead: python3 -c \"import sys; from jax._src.lib import "
                      "xla_client as x; print(x.XlaComputation(open(sys.argv[1],'rb').read())"
                      ".as_hlo_text())\" FILE > FILE.hlo");
    case FORM_EMPTY:
        return refuse(d, s, "the file is empty", "an HLO text begins with HloModule NAME");
    case FORM_UTF16:
        return refuse(d, s, "this text is UTF-16: HLO text is ASCII or UTF-8",
                      "convert it: iconv -f UTF-16 -t UTF-8 FILE > FILE.hlo");
    case FORM_BINARY:
        return refuse(d, s, "this is a binary file, not HLO text or a JSON model",
                      "dump text: XLA_FLAGS=\"--xla_dump_to=DIR --xla_dump_hlo_as_text\"");
    case FORM_HLO:
    case FORM_MLIR:
    case FORM_JSON: break;
    }
    return true;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* m if it is valid; else it is freed, also when checking it fails. */
static struct module *verified(struct module *m, struct diag *d)
{
    const char *former = diag_stage(d, "verify");
    struct module *volatile keep = m; /* read after a jump */
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        module_free(keep);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    bool ok = module_verify(keep, d);
    fail_leave(&f);
    diag_stage(d, former);
    if (ok)
        return keep;
    module_free(keep);
    return NULL;
}

static struct module *load(struct ir *c, struct source *s, struct tick *tick, struct diag *d)
{
    enum form f = form_of(s->text, s->len);
    if (!refuse_form(d, s, f)) {
        source_free(s);
        return NULL;
    }
    struct module *m = f == FORM_JSON ? json_model_read(c, s, d)
                     : f == FORM_MLIR ? mlir_read(c, s, tick, d) : hlo_read(c, s, tick, d);
    if (!m)
        return NULL;
    return verified(m, d);
}

struct module *module_load(struct ir *c, const char *path, struct tick *tick, struct diag *d)
{
    struct source *s;
    if (!file_read(path, &s, d))
        return NULL;
    return load(c, s, tick, d);
}

struct module *module_load_text(struct ir *c, const char *name, const char *text, size_t n,
                                struct tick *tick, struct diag *d)
{
    struct bytes b = { 0 };
    if (n > MAX_TEXT || !grow(&b, n + 1)) {
        fail_size(d, name);
        return NULL;
    }
    if (n)
        memcpy(b.s, text, n);
    b.n = n;
    if (!unpack(name, &b, d)) {
        free(b.s);
        return NULL;
    }
    b.s[b.n] = '\0';
    struct source *s = make_source(name, b.s, b.n);
    if (!s) {
        fail_size(d, name);
        return NULL;
    }
    return load(c, s, tick, d);
}
