/* Memory of reading: the peak of a process that loads a large dump, above that of one that does not, in
 * sizes of the text (which is part of it: messages quote it). */
#include "tests/unit/text_help.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Kilobytes at the peak of a child that loads the file (NULL: nothing). */
static int64_t peak_of(const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        struct ir *c = ir_new();
        struct diag *d = diag_new();
        struct module *m = path ? module_load(c, path, NULL, d) : NULL;
        _exit(path && !m);
    }
    int status = 1;
    struct rusage use;
    assert_true(child > 0 && wait4(child, &status, 0, &use) == child);
    assert_int_equal(status, 0);
    return use.ru_maxrss;
}

/* Unpacks in a child: what a parent has had, its children begin with. */
static int64_t unpack(const char *from, int fd)
{
    pid_t child = fork();
    if (child == 0) {
        struct source *src;
        bool ok = file_read(from, &src, NULL) && write(fd, src->text, src->len) == (ssize_t)src->len;
        _exit(!ok);
    }
    int status = 1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    return lseek(fd, 0, SEEK_END);
}

static double ratio_of(const char *name)
{
    char path[4400], plain[] = "/tmp/gspmd-text-XXXXXX";
    snprintf(path, sizeof path, "%s/inputs/%s", shared_folder(), name);
    int fd = mkstemp(plain);
    assert_true(fd >= 0);
    double bytes = (double)unpack(path, fd);
    double extra = (double)(peak_of(plain) - peak_of(NULL)) * 1024;
    close(fd);
    unlink(plain);
    print_message("%s: %.1f MB of text, %.2f times as much at the peak\n", name, bytes / 1e6, extra / bytes);
    return extra / bytes;
}

static void reading_takes_little(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    if (!shared_folder()) {
        print_message("reference material not found: skipped\n");
        skip();
    }
    /* The aim is 3. Instructions take their share for as long as the module lives; the reader of StableHLO
     * besides holds all operations of a function until the last one is read. */
    assert_true(ratio_of("gpt3_unrolled96_real.hlo.gz") <= 4.1);
    assert_true(ratio_of("gpt3_unrolled96_real.mhlo.mlir.gz") <= 7.4);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reading_takes_little) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
