/* JSON models: whatever the bytes, reading ends; what was read is a valid module, and its HLO text
 * reads back as the same one. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fail_abort_on_invariant(true);
    struct ir *c = ir_new();
    struct diag *d = diag_new();
    struct source *src = calloc(1, sizeof *src);
    char *text = malloc(size + 1);
    if (!src || !text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    *src = (struct source){ .name = strdup("fuzz.json"), .text = text, .len = size };
    struct module *m = json_model_read(c, src, d);
    if (!m && d->nerrors == 0)
        abort();
    if (m && module_verify(m, d)) {
        struct arena a = { 0 };
        arena_open(&a);
        struct str s = STR_IN(&a);
        if (!hlo_print(m, NULL, &s))
            abort();
        struct module *again = module_load_text(c, "again.hlo", s.s, s.n, NULL, d);
        if (!again || !module_equal(m, again))
            abort();
        module_free(again);
        arena_close(&a);
    }
    module_free(m);
    diag_free(d);
    ir_free(c);
    return 0;
}
