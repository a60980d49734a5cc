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

/* Another name for one that is not free, in arena to; NULL: it keeps its own. */
static const char *settle(struct namer *n, const char *name, size_t all, struct arena *to)
{
    int64_t number, first;
    size_t len = split_name(name, all, &number);
    uint32_t root = intern_put(&n->roots, name, len);
    if (take(n, root, number))
        return NULL;
    uint64_t next = 0;
    map_get(&n->next, root, &next);
    first = (int64_t)next;
    while (!take(n, root, first))
        first++;
    map_put(&n->next, root, (uint64_t)first + 1);
    char digits[24];
    int k = first ? snprintf(digits, sizeof digits, ".%" PRId64, first) : 0;
    char *text = arena_alloc(to, (int64_t)len + k + 1, 1);
    memcpy(text, name, len);
    memcpy(text + len, digits, (size_t)k);
    text[len + (size_t)k] = '\0';
    return text;
}

static void namer_init(struct namer *n, struct arena *a)
{
    n->a = a;
    intern_init(&n->roots, a);
    intern_init(&n->pairs, a);
    map_init(&n->next, a);
}

static bool twice_in_called(const struct module *m, struct arena *a)
{
    bool *seen = ARENA_ARRAY(a, bool, m->ir->names.entries.n);
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        const struct instr *in = instr_at(m, (instr_id){ i });
        if (!in->name.i || in->comp.i == m->entry.i)
            continue;
        if (seen[in->name.i])
            return true;
        seen[in->name.i] = true;
    }
    return false;
}

const char **names_unique_texts(const struct module *m, const char *const *unnamed, struct arena *a)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct namer n = { 0 };
    namer_init(&n, &tmp);
    const char **out = ARENA_ARRAY(a, const char *, (int64_t)module_ninstrs(m) + 1);
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct computation *comp = comp_at(m, (comp_id){ c });
        for (uint32_t k = 0; k < comp->ninstrs && c != m->entry.i; k++) {
            uint32_t i = comp->instrs[k].i;
            name_id name = instr_at(m, comp->instrs[k])->name;
            const char *text = name.i ? name_text(m->ir, name) : unnamed[i];
            if (text)
                out[i] = settle(&n, text, name.i ? name_len(m->ir, name) : strlen(text), a);
        }
    }
    arena_close(&tmp);
    return out;
}

bool names_repeat(const struct module *m)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    bool twice = twice_in_called(m, &tmp);
    arena_close(&tmp);
    return twice;
}

static void settle_instr(struct namer *n, struct module *m, struct instr *i)
{
    const char *text = i->name.i ? settle(n, name_text(m->ir, i->name), name_len(m->ir, i->name), n->a) : NULL;
    if (text)
        i->name = name_put(m->ir, text, strlen(text));
}

void names_make_unique(struct module *m)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    if (any_twice(m, &tmp)) {
        struct namer n = { 0 };
        namer_init(&n, &tmp);
        for (uint32_t c = 1; c <= module_ncomps(m); c++) {
            const struct computation *comp = comp_at(m, (comp_id){ c });
            for (uint32_t k = 0; k < comp->ninstrs && c != m->entry.i; k++)
                settle_instr(&n, m, instr_at(m, comp->instrs[k]));
        }
    }
    arena_close(&tmp);
}
