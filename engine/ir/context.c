/* The context of a document: names, shapes, shardings. */
#include "ir/ir.h"

#include <stdlib.h>

#include "base/fail.h"
#include "ir/internal.h"

struct ir *ir_new(void)
{
    struct ir *c = fail_allocation_due() ? NULL : calloc(1, sizeof *c);
    if (!c)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "a document's context is not to be had");
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        intern_init(&c->names, &c->arena);
        intern_init(&c->shape_keys, &c->arena);
        paged_init(&c->shapes, &c->arena, sizeof(struct shape));
        c->shardings = shardings_new();
        fail_leave(&f);
        return c;
    }
    if (c->shardings)
        shardings_free(c->shardings);
    arena_free(&c->arena);
    free(c);
    fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
}

void ir_free(struct ir *c)
{
    if (!c)
        return;
    shardings_free(c->shardings);
    arena_free(&c->arena);
    free(c);
}

name_id name_put(struct ir *c, const char *s, size_t n)
{
    return (name_id){ intern_put(&c->names, s, n) };
}

const char *name_text(const struct ir *c, name_id n)
{
    return n.i ? intern_at(&c->names, n.i)->bytes : "";
}

size_t name_len(const struct ir *c, name_id n)
{
    return n.i ? intern_at(&c->names, n.i)->len : 0;
}
