/* Opening files: .gz, what is recognised and refused, what cannot be opened. */
#include "text_help.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char folder[] = "text-files-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *write_file(const char *name, const void *bytes, size_t n)
{
    const char *path = path_of(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    return path;
}

static const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

static const char *const good = "HloModule m\n\nENTRY e {\n  x = f32[4]{0} parameter(0)\n"
                                "  ROOT y = f32[4]{0} negate(x)\n}\n\n";

static size_t gzip(const char *text, size_t n, unsigned char *out, size_t room)
{
    z_stream z = { 0 };
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t used = room - z.avail_out;
    deflateEnd(&z);
    return used;
}

static void loads(const char *path, uint32_t ninstrs)
{
    struct fixture f;
    start(&f);
    f.m = module_load(f.c, path, NULL, f.d);
    if (!f.m)
        fail_msg("%s", messages(&f));
    assert_int_equal(module_ninstrs(f.m), ninstrs);
    stop(&f);
}

static void refuses(const char *path, const char *code, const char *words, const char *hint)
{
    struct fixture f;
    start(&f);
    f.m = module_load(f.c, path, NULL, f.d);
    assert_null(f.m);
    assert_true(f.d->msgs.n > 0);
    const struct diag_msg *m = &f.d->msgs.v[0];
    if (!strstr(m->text, words) || strcmp(m->code, code) != 0 ||
        (hint && (!m->hint || !strstr(m->hint, hint))))
        fail_msg("%s: expected %s '%s', got %s\n%s", path, code, words, m->code, messages(&f));
    stop(&f);
}

static void plain_and_packed_files_load(void **state)
{
    (void)state;
    unsigned char gz[2000];
    loads(write_file("a.hlo", good, strlen(good)), 2);
    loads(write_file("b", good, strlen(good)), 2); /* the name does not matter */
    size_t n = gzip(good, strlen(good), gz, sizeof gz);
    loads(write_file("a.hlo.gz", gz, n), 2);
    /* two members: the text goes on in the second */
    size_t half = strlen(good) / 2;
    n = gzip(good, half, gz, sizeof gz);
    n += gzip(good + half, strlen(good) - half, gz + n, sizeof gz - n);
    loads(write_file("two.gz", gz, n), 2);
    struct fixture f;
    start(&f);
    n = gzip(good, strlen(good), gz, sizeof gz);
    f.m = module_load_text(f.c, "memory", (const char *)gz, n, NULL, f.d);
    assert_non_null(f.m);
    assert_string_equal(printed(&f, f.m, NULL), good);
    stop(&f);
}

static void broken_archives_are_told_apart(void **state)
{
    (void)state;
    unsigned char gz[2000];
    size_t n = gzip(good, strlen(good), gz, sizeof gz);
    for (size_t k = 2; k < n; k++)
        refuses(write_file("cut.gz", gz, k), "io", k < 3 ? "" : "truncated", NULL);
    gz[n - 6] ^= 1; /* the checksum */
    refuses(write_file("sum.gz", gz, n), "io", "checksum", NULL);
    gz[n - 6] ^= 1;
    gz[12] ^= 0xff;
    refuses(write_file("bad.gz", gz, n), "io", "corrupt", NULL);
}

/* A small file that unpacks to much more text than it may. */
static void what_unpacks_is_text_too(void **state)
{
    (void)state;
    size_t n = 1 << 22;
    char *blanks = malloc(n);
    unsigned char *gz = malloc(1 << 16);
    memset(blanks, ' ', n);
    size_t used = gzip(blanks, n, gz, 1 << 16);
    refuses(write_file("blank.gz", gz, used), "parse", "empty", NULL);
    free(blanks);
    free(gz);
}

static void other_forms_are_recognised(void **state)
{
    (void)state;
#define REFUSES(name, bytes, words, hint) \
    refuses(write_file(name, bytes, sizeof(bytes) - 1), "parse", words, hint)
    /* StableHLO is read (text_mlir.c); a text without a function says so. */
    REFUSES("a.mlir", "module @jit_f attributes {mhlo.num_partitions = 8 : i32} {\n}\n",
            "no function", NULL);
    REFUSES("c.mlir", "\"builtin.module\"() ({\n}) : () -> ()\n", "no function", NULL);
    REFUSES("a.mlirbc", "ML\xefR\x0dStableHLO_v1.9.0\0\x01\x02\x03", "bytecode", "deserialize_portable_artifact");
    REFUSES("a.export", "\x18\0\0\0\x14\0\x30\0\0\0\0\0\x01\0ML\xefR\x0dStableHLO_v1.0\0",
            "jax.export", "deserialize");
    REFUSES("a.hlo.pb", "\x0a\x80\x01\x0a\x05jit_f\x12\x06main.4\x1a\x80\0\0\0\0\0\0\x01\x02\x03",
            "protocol buffer", "xla_dump_hlo_as_text");
    REFUSES("b.pb", "\x0a\x05jit_f\x12\x06main.4\x1a\x80\x01\0\0\0\0\0\x01\x02\x03",
            "protocol buffer", "XlaComputation");
    REFUSES("word", "BufferAssignment:\nallocation 0: size 4\n", "report", "same name");
    REFUSES("empty", "", "empty", NULL);
    REFUSES("blank", " \r\n\t\n", "empty", NULL);
    REFUSES("elf",
            "\x7f"
            "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0",
            "binary", NULL);
    REFUSES("utf16", "\xff\xfeH\0l\0o\0", "UTF-16", "iconv");
    REFUSES("word", "hello, world\n", "expected", NULL);
    /* a module that is called "module", and one behind comments and a byte order mark */
    loads(write_text("m.hlo", "module {\n  ROOT x = f32[] parameter(0)\n}\n"), 1);
    loads(write_text("bom.hlo",
                     "\xef\xbb\xbf// c\nHloModule m\ne {\n  ROOT x = f32[] parameter(0)\n}\n"),
          1);
    loads(write_text("a.json", "{\"model\":\"t\",\"params\":{\"x\":\"f32[2]\"},\"ops\":[]}"), 1);
}

static void what_cannot_be_opened_says_why(void **state)
{
    (void)state;
    refuses(folder, "io", "directory", NULL);
    refuses(path_of("nowhere.hlo"), "io", "No such file", NULL);
    const char *path = write_file("secret.hlo", good, strlen(good));
    chmod(path, 0);
    if (access(path, R_OK) != 0)
        refuses(path, "io", "ermission", NULL);
    chmod(path, 0600);
}

static void a_module_is_verified(void **state)
{
    (void)state;
    static const char text[] =
        "ENTRY e {\n  x = f32[4]{0} parameter(0)\n  ROOT y = f32[5]{0} negate(x)\n}\n";
    refuses(write_file("v.hlo", text, sizeof text - 1), "verify", "f32[5]", NULL);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = { "a.hlo",  "b",        "a.hlo.gz", "two.gz",     "cut.gz",
                                         "sum.gz", "bad.gz",   "blank.gz", "a.mlir",     "b.mlir",
                                         "c.mlir", "a.mlirbc", "a.export", "a.hlo.pb",   "b.pb",
                                         "empty",  "blank",    "elf",      "utf16",      "word",
                                         "m.hlo",  "bom.hlo",  "a.json",   "secret.hlo", "v.hlo" };
    for (size_t i = 0; i < COUNTOF(names); i++)
        (void)unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_packed_files_load),
        cmocka_unit_test(broken_archives_are_told_apart),
        cmocka_unit_test(what_unpacks_is_text_too),
        cmocka_unit_test(other_forms_are_recognised),
        cmocka_unit_test(what_cannot_be_opened_says_why),
        cmocka_unit_test(a_module_is_verified),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
