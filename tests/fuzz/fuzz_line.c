/* Lines of the shell, without side effects: no file, no program. Whatever is typed, the session
 * goes on; no answer has a control character in it; with --json every line is one JSON object. */
#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "repl/shell.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char MODULE[] =
    "HloModule fuzz, num_partitions=4\n"
    "add {\n"
    "  a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT s = f32[] add(a, b)\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[8,4]{1,0} parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
    "  w1 = f32[4,6]{1,0} parameter(1), metadata={op_name=\"params[\\'w1\\']\"}\n"
    "  h = f32[8,6]{1,0} dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  c = f32[8,6]{1,0} custom-call(h), custom_call_target=\"Sharding\", sharding={replicated}\n"
    "  z = f32[] constant(0)\n"
    "  r = f32[8]{0} reduce(c, z), dimensions={1}, to_apply=add\n"
    "  ROOT t = (f32[8,6]{1,0}, f32[8]{0}) tuple(h, r)\n"
    "}\n";

struct heard {
    struct arena arena;
    struct str text;
    bool json;
};

static void hear(void *context, bool message, const char *bytes, size_t n)
{
    struct heard *h = context;
    for (size_t k = 0; k < n; k++)
        if ((unsigned char)bytes[k] < 0x20 && bytes[k] != '\n')
            __builtin_trap();
    if (!message && h->json)
        str_add(&h->text, bytes, n);
}

static void check_json(struct heard *h)
{
    const char *p = h->text.s, *end = p + h->text.n;
    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl)
            __builtin_trap();
        cJSON *o = cJSON_ParseWithLength(p, (size_t)(nl - p));
        if (!cJSON_IsObject(o) || !cJSON_GetObjectItemCaseSensitive(o, "command") ||
            !cJSON_GetObjectItemCaseSensitive(o, "schema"))
            __builtin_trap();
        cJSON_Delete(o);
        p = nl + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fail_abort_on_invariant(true);
    struct heard h = { .json = size > 0 && (data[0] & 1) };
    h.text = STR_IN(&h.arena);
    struct shell *sh = shell_new((struct sink){ hear, &h });
    if (!sh)
        return 0;
    sh->safe = sh->sealed = true;
    sh->json = h.json;
    sh->bail = false;
    if (!document_load_text(sh->doc, "fuzz", MODULE, strlen(MODULE), NULL, NULL))
        __builtin_trap();
    shell_run(sh, "<fuzz>", (const char *)data + (size > 0), size - (size > 0));
    sh->quit = false;
    sh->json = h.json;
    shell_run(sh, "<fuzz>", "echo still here", 15);
    if (sh->status != STATUS_OK)
        __builtin_trap();
    if (h.json)
        check_json(&h);
    shell_free(sh);
    arena_free(&h.arena);
    return 0;
}
