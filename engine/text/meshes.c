/* The meshes that a dump names: JAX since 0.7 writes them into StableHLO (sdy.mesh @mesh = <["x"=2]>) and
 * into the header of HLO (xla.sdy.meshes={mesh = #sdy.mesh<["x"=2]>}), with quotes as they are, as \" or as
 * MLIR's \22. Their axes are the names that the author of the program knows. */
#include <string.h>

#include "sharding/axes.h"
#include "text/text.h"

/* Text up to the mesh's closing '>', without the escapes of the string it may stand in. */
static const char *plain_text(struct arena *a, const char *from, const char *end)
{
    struct str s = STR_IN(a);
    for (const char *p = from; p < end && *p != '>' && *p != '\n'; p++) {
        if (*p == '\\' && end - p > 2 && p[1] == '2' && p[2] == '2') {
            str_addc(&s, '"');
            p += 2;
        } else if (*p != '\\') {
            str_addc(&s, *p);
        }
    }
    return str_text(&s);
}

/* A name that the shell's `mesh` takes: letters, digits and _, no digit first. */
static bool is_plain_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    size_t n = strspn(name, letters);
    return n > 0 && !name[n + strspn(name + n, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")] &&
           strcmp(name, "_") != 0 && strcmp(name, "order") != 0 && strcmp(name, "physical") != 0;
}

static bool is_usable(const struct mesh *m, int64_t ndevices)
{
    bool ok = m->naxes > 0 && mesh_devices(m) == ndevices;
    for (int k = 0; ok && k < m->naxes; k++)
        ok = is_plain_name(m->axes[k].name);
    return ok;
}

bool module_mesh(const struct module *m, int64_t ndevices, struct arena *a, struct mesh *out)
{
    static const char word[] = "sdy.mesh";
    const char *p = m->source ? m->source->text : NULL, *end = p ? p + m->source->len : NULL;
    struct arena tmp = { 0 };
    bool found = false;
    arena_open(&tmp);
    while (!found && p && (p = memmem(p, (size_t)(end - p), word, sizeof word - 1))) {
        p += sizeof word - 1;
        size_t n = 0; /* the axes stand behind the next '<', on the same line */
        while (n < (size_t)(end - p) && p[n] != '<' && p[n] != '\n')
            n++;
        /* the generic form's properties open with another one: "sdy.mesh"() <{mesh = #sdy.mesh<[..]> */
        if (n + 1 >= (size_t)(end - p) || p[n] != '<' || p[n + 1] != '[')
            continue;
        const char *text = plain_text(&tmp, p + n + 1, end);
        struct lexer l = { .t = m->ir->shardings, .p = text, .n = strlen(text) };
        found = read_inline_mesh(&l, a, out) && is_usable(out, ndevices);
    }
    arena_close(&tmp);
    return found;
}
