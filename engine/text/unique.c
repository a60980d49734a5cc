/* Names that are unique among the called computations, as XLA makes them when it reads a text.
 *
 * Within a computation a text must not use a name twice; across computations hand-written texts often
 * do (`a`, `b`, `r` in every reducer). XLA then calls the second `a` "a.1", and every tool that prints
 * a module shows that name; so do we. The entry's names stay as they were written, whatever a reducer
 * before it uses: they are what people type. Texts that XLA printed are unique and stay as they are.
 *
 * A name is a root and a number, `add.7`; without a number it is number 0. In module order each name
 * keeps its number when the root has not used it yet, and otherwise takes the root's smallest free one.
 */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "text/unique.h"

struct namer {
    struct module *m;
    struct arena *a;
    struct intern roots;
    struct intern pairs;
    struct map next; /* root's id -> smallest number not tried yet */
};

static bool any_twice(const struct module *m, struct arena *a)
{
    bool *seen = ARENA_ARRAY(a, bool, m->ir->names.entries.n);
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        uint32_t n = instr_at(m, (instr_id){ i })->name.i;
        if (n && seen[n])
            return true;
        seen[n] = true;
    }
    return false;
}

/* `add.7` -> root of 3 bytes, number 7. A dot at either end is part of the root. */
static size_t split_name(const char *s, size_t n, int64_t *number)
{
    size_t dot = n;
    while (dot > 0 && s[dot - 1] != '.')
        dot--;
    *number = 0;
    if (dot < 2 || dot >= n || s[dot] == '-')
        return n;
    int64_t v;
    if (parse_i64(s + dot, n - dot, &v) != n - dot)
        return n;
    *number = v;
    return dot - 1;
}

/* True the first time. */
static bool take(struct namer *n, uint32_t root, int64_t number)
{
    struct {
        int64_t root, number;
    } key = { root, number };
    uint32_t before = n->pairs.entries.n;
    return intern_put(&n->pairs, &key, sizeof key) == before;
}

static void settle(struct namer *n, struct instr *i)
{
    struct ir *c = n->m->ir;
    const char *name = name_text(c, i->name);
    int64_t number, first;
    size_t len = split_name(name, name_len(c, i->name), &number);
    uint32_t root = intern_put(&n->roots, name, len);
    if (take(n, root, number))
        return;
    uint64_t next = 0;
    map_get(&n->next, root, &next);
    first = (int64_t)next;
    while (!take(n, root, first))
        first++;
    map_put(&n->next, root, (uint64_t)first + 1);
    char digits[24];
    int k = first ? snprintf(digits, sizeof digits, ".%" PRId64, first) : 0;
    char *text = arena_alloc(n->a, (int64_t)len + k + 1, 1);
    memcpy(text, name, len);
    memcpy(text + len, digits, (size_t)k);
    i->name = name_put(c, text, len + (size_t)k);
}

void names_make_unique(struct module *m)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    if (any_twice(m, &tmp)) {
        struct namer n = { .m = m, .a = &tmp };
        intern_init(&n.roots, &tmp);
        intern_init(&n.pairs, &tmp);
        map_init(&n.next, &tmp);
        for (uint32_t c = 1; c <= module_ncomps(m); c++) {
            const struct computation *comp = comp_at(m, (comp_id){ c });
            for (uint32_t k = 0; k < comp->ninstrs && c != m->entry.i; k++)
                if (instr_at(m, comp->instrs[k])->name.i)
                    settle(&n, instr_at(m, comp->instrs[k]));
        }
    }
    arena_close(&tmp);
}
