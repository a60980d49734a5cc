/* Arguments that many commands take: tensors, selections, shardings, files. */
#include <errno.h>
#include <string.h>

#include "repl/commands.h"

bool arg_select(struct call *c, int k, instr_id **list, int64_t *n)
{
    const struct word *w = &c->args[k];
    const char *text =
        w->quoted ? arena_strndup(&c->arena, c->src->text + w->off, w->len) : w->text;
    return select_instrs(c->sh->doc, text, strlen(text), c->src, w->off, false, &c->arena, list, n,
                         c->d);
}

bool arg_tensor(struct call *c, int k, instr_id *i, int64_t *leaf)
{
    const struct word *w = &c->args[k];
    const char *text =
        w->quoted ? arena_strndup(&c->arena, c->src->text + w->off, w->len) : w->text;
    return select_tensor(c->sh->doc, text, strlen(text), c->src, w->off, i, leaf, c->d);
}

bool read_spec(struct call *c, const char *text, size_t n, uint32_t off, shape_id shape,
               sharding_id *out_spec, uint64_t *open)
{
    struct document *doc = c->sh->doc;
    const struct strategy *s = document_strategy(doc);
    const struct shape *v = shape.i ? shape_get(document_ir(doc), shape) : NULL;
    int rank = v && v->kind == SHAPE_ARRAY ? v->rank : -1;
    struct axes_spec spec = { 0 };
    size_t used = 0;
    diag_stage(c->d, "usage"); /* what is wrong here is wrong in the command, whichever it is */
    int nmeshes = s->nmeshes > 0 && s->meshes[0].naxes > 0 ? s->nmeshes
                  : s->nmeshes > 1                         ? s->nmeshes
                                                           : 0;
    if (!sharding_spec_parse(document_ir(doc)->shardings, s->meshes, nmeshes, rank, c->src, off,
                             text, n, &used, out_spec, &spec, c->d))
        return false;
    while (used < n && (text[used] == ' ' || text[used] == '\t'))
        used++;
    if (used < n)
        return diag_error(c->d, c->src, (struct span){ off + (uint32_t)used, (uint32_t)(n - used) },
                          "this is left over behind the sharding");
    if (v && v->kind == SHAPE_ARRAY && out_spec->i &&
        !sharding_fits(document_ir(doc)->shardings, *out_spec, rank, v->dims, document_devices(doc),
                       c->src, (struct span){ off, (uint32_t)n }, c->d))
        return false;
    int64_t device, ndevices = document_devices(doc);
    if (sharding_unique_device(document_ir(doc)->shardings, *out_spec, &device) && ndevices > 0 &&
        device >= ndevices)
        return diag_error(c->d, c->src, (struct span){ off, (uint32_t)n },
                          "there is no device %" PRId64 ": they are 0 to %" PRId64, device,
                          ndevices - 1);
    *open = spec.open;
    return true;
}

bool write_file(struct call *c, const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    bool ok = f && fwrite(text, 1, n, f) == n;
    int why = errno;
    if (f && fclose(f) != 0) {
        why = errno;
        ok = false;
    }
    if (!ok)
        call_error(c, STATUS_RESOURCE, "write", "%s: %s", path, strerror(why));
    return ok;
}

bool word_is_selection(const struct word *w)
{
    return !w->quoted && (strpbrk(w->text, "*?,") || !strncmp(w->text, "op:", 3) ||
                          !strncmp(w->text, "scope:", 6) || !strncmp(w->text, "in(", 3) ||
                          !strncmp(w->text, "out(", 4));
}
