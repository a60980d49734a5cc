/* HLO text: whatever the bytes, reading ends; what was read prints, the print reads back as the
 * same module, and prints the same again. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct module *read_text(struct ir *c, const char *s, size_t n, bool *ok)
{
    struct source *src = calloc(1, sizeof *src);
    char *text = malloc(n + 1);
    if (!src || !text)
        abort();
    if (n)
        memcpy(text, s, n);
    text[n] = '\0';
    *src = (struct source){ .name = strdup("fuzz.hlo"), .text = text, .len = n };
    struct diag *d = diag_new();
    struct module *m = hlo_read(c, src, NULL, d);
    *ok = m != NULL;
    if (!m && d->nerrors == 0)
        abort(); /* refused without a reason */
    if (m)
        (void)module_verify(m, d);
    diag_free(d);
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fail_abort_on_invariant(true);
    struct ir *c = ir_new();
    bool ok;
    struct module *m = read_text(c, (const char *)data, size, &ok);
    if (ok) {
        struct arena a = { 0 };
        arena_open(&a);
        struct str one = STR_IN(&a), two = STR_IN(&a);
        if (!hlo_print(m, NULL, &one) || hlo_print_size(m, NULL) != (int64_t)one.n)
            abort();
        struct ir *c2 = ir_new();
        struct module *again = read_text(c2, one.s, one.n, &ok);
        if (!ok || !module_equal(m, again) || !hlo_print(again, NULL, &two) || two.n != one.n ||
            memcmp(one.s, two.s, one.n) != 0)
            abort();
        struct hlo_print_options brief = { .short_form = true,
                                           .expand_groups = true,
                                           .max_bytes = 1 << 20 };
        two.n = 0;
        (void)hlo_print(m, &brief, &two);
        /* as a module to work on: Shardy's calls become GSPMD's, and what comes of it prints, or is refused */
        if (hlo_import_shardy(m)) {
            struct diag *d = diag_new();
            (void)module_verify(m, d);
            diag_free(d);
            two.n = 0;
            (void)hlo_print(m, &brief, &two);
        }
        module_free(again);
        ir_free(c2);
        arena_close(&a);
        module_free(m);
    }
    ir_free(c);
    return 0;
}
