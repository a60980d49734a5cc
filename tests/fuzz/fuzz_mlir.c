/* StableHLO text: whatever the bytes, reading ends, with a module or a reason; a module that is valid
 * prints as HLO and as StableHLO text which read back. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct source *copy_of(const char *s, size_t n)
{
    struct source *src = calloc(1, sizeof *src);
    char *text = malloc(n + 1);
    if (!src || !text)
        abort();
    if (n)
        memcpy(text, s, n);
    text[n] = '\0';
    *src = (struct source){ .name = strdup("fuzz.mlir"), .text = text, .len = n };
    return src;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fail_abort_on_invariant(true);
    struct ir *c = ir_new();
    struct diag *d = diag_new();
    struct module *m = mlir_read(c, copy_of((const char *)data, size), NULL, d);
    if (!m && d->nerrors == 0)
        abort(); /* refused without a reason */
    if (m && module_verify(m, d)) {
        struct arena a = { 0 };
        arena_open(&a);
        struct str one = STR_IN(&a);
        struct hlo_print_options o = { .max_bytes = 1 << 22 };
        if (hlo_print(m, &o, &one)) {
            struct ir *c2 = ir_new();
            struct module *again = hlo_read(c2, copy_of(one.s, one.n), NULL, d);
            if (!again)
                abort();
            module_free(again);
            ir_free(c2);
        }
        struct str two = STR_IN(&a);
        if (mlir_print(m, NULL, &two, d)) {
            struct ir *c2 = ir_new();
            struct module *again = mlir_read(c2, copy_of(two.s, two.n), NULL, d);
            if (!again)
                abort();
            module_free(again);
            ir_free(c2);
        }
        arena_close(&a);
    }
    module_free(m);
    diag_free(d);
    ir_free(c);
    return 0;
}
