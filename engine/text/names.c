/* Names for instructions that have none: `add.7`, the opcode and the first number that makes it
 * unique in the module, counted in the order in which the module is printed. So the same module
 * gets the same names whatever else was loaded before. */
#include <stdio.h>
#include <string.h>

#include "text/printer.h"
#include "text/unique.h"

struct namer {
    const struct module *m;
    struct arena *a;
    bool *taken; /* by name_id: some instruction of the module has it */
    uint32_t ntaken;
    int64_t next[OP_COUNT];
};

static void find_taken(struct namer *n)
{
    n->ntaken = n->m->ir->names.entries.n;
    n->taken = ARENA_ARRAY(n->a, bool, n->ntaken);
    for (uint32_t i = 1; i <= module_ninstrs(n->m); i++)
        n->taken[instr_at(n->m, (instr_id){ i })->name.i] = true;
}

/* `add` and `add.0` are one name to XLA, which then calls the second another one. */
static bool zero_taken(const struct namer *n, const char *op)
{
    char buf[64];
    int len = snprintf(buf, sizeof buf, "%s.0", op);
    uint32_t id = intern_find(&n->m->ir->names, buf, (size_t)len);
    return id && id < n->ntaken && n->taken[id];
}

static const char *next_name(struct namer *n, const struct instr *i)
{
    char buf[64];
    const char *op = op_name((enum op_kind)i->op);
    for (;;) {
        int64_t k = n->next[i->op]++;
        int len = k ? snprintf(buf, sizeof buf, "%s.%" PRId64, op, k)
                    : snprintf(buf, sizeof buf, "%s", op);
        uint32_t id = intern_find(&n->m->ir->names, buf, (size_t)len);
        if ((!id || id >= n->ntaken || !n->taken[id]) && (k || !zero_taken(n, op)))
            return arena_strndup(n->a, buf, (size_t)len);
    }
}

static const char **name_all(const struct module *m, struct arena *a)
{
    struct namer *n = ARENA_NEW(a, struct namer);
    n->m = m;
    n->a = a;
    find_taken(n);
    const char **names = ARENA_ARRAY(a, const char *, (int64_t)module_ninstrs(m) + 1);
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct computation *comp = comp_at(m, (comp_id){ c });
        for (uint32_t k = 0; k < comp->ninstrs; k++) {
            const struct instr *i = instr_at(m, comp->instrs[k]);
            if (!i->name.i)
                names[comp->instrs[k].i] = next_name(n, i);
        }
    }
    return names;
}

const char *unnamed(struct printer *p, instr_id i)
{
    if (!p->names)
        p->names = name_all(p->m, &p->tmp);
    const char *s = p->names[i.i];
    return s ? s : "unnamed"; /* an instruction that stands in no computation's list */
}

void printer_rename(struct printer *p)
{
    if (!names_repeat(p->m))
        return;
    if (!p->names)
        p->names = name_all(p->m, &p->tmp);
    p->renamed = names_unique_texts(p->m, p->names, &p->tmp);
}

void hlo_name_all(struct module *m)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    const char **names = name_all(m, &tmp);
    for (uint32_t i = 1; i <= module_ninstrs(m); i++)
        if (names[i])
            instr_at(m, (instr_id){ i })->name = name_put(m->ir, names[i], strlen(names[i]));
    arena_close(&tmp);
}
