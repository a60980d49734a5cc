/* Answers of hot questions, kept while there is room. The table of answers never holds more than
 * MEMO_MAX: then all are forgotten, so that a long session does not grow by its questions. */
#include <stdlib.h>
#include <string.h>

#include "sharding/internal.h"

enum { MEMO_MAX = 1 << 15 };

struct memo {
    struct arena arena;
    struct intern keys;
    int64_t *values; /* [MEMO_MAX + 1] */
};

void memo_start(struct memo_key *k, enum memo_op op)
{
    k->n = 0;
    k->fits = true;
    memo_add(k, op);
}

void memo_add(struct memo_key *k, int64_t v)
{
    if (k->n < (int)COUNTOF(k->w))
        k->w[k->n++] = v;
    else
        k->fits = false;
}

void memo_add_list(struct memo_key *k, int n, const int64_t *v)
{
    memo_add(k, n);
    for (int i = 0; i < n; i++)
        memo_add(k, v[i]);
}

bool memo_get(const struct shardings *t, const struct memo_key *k, int64_t *value)
{
    if (!k->fits || !t->memo)
        return false;
    uint32_t id = intern_find(&t->memo->keys, k->w, (size_t)k->n * sizeof *k->w);
    if (!id)
        return false;
    *value = t->memo->values[id];
    return true;
}

static void memo_clear(struct shardings *t)
{
    struct memo *m = t->memo;
    arena_free(&m->arena);
    intern_init(&m->keys, &m->arena);
}

void memo_put(struct shardings *t, const struct memo_key *k, int64_t value)
{
    if (!k->fits)
        return;
    if (!t->memo) {
        t->memo = ARENA_NEW(&t->arena, struct memo);
        t->memo->values = ARENA_ARRAY(&t->arena, int64_t, MEMO_MAX + 2);
        memo_clear(t);
    }
    if (t->memo->keys.entries.n > MEMO_MAX)
        memo_clear(t);
    uint32_t id = intern_put(&t->memo->keys, k->w, (size_t)k->n * sizeof *k->w);
    t->memo->values[id] = value;
}

void memo_free(struct shardings *t)
{
    if (t->memo)
        arena_free(&t->memo->arena);
}
