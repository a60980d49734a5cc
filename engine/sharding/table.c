/* The table: interned lists, orders, shardings. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "sharding/internal.h"

static void fill(struct shardings *t)
{
    intern_init(&t->dims, &t->arena);
    intern_init(&t->order_keys, &t->arena);
    paged_init(&t->orders, &t->arena, sizeof(struct order_entry));
    intern_init(&t->keys, &t->arena);
    paged_init(&t->entries, &t->arena, sizeof(struct sharding_entry));
    intern_init(&t->texts, &t->arena);
    paged_init(&t->text_notes, &t->arena, sizeof(struct sharding_note));
    t->replicated = sharding_replicated(t);
}

struct shardings *shardings_new(void)
{
    struct arena first = { 0 };
    struct shardings *t = ARENA_NEW(&first, struct shardings);
    t->arena = first; /* the table lives in its own arena */
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        fill(t);
        fail_leave(&f);
        return t;
    }
    shardings_free(t);
    fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
}

void shardings_free(struct shardings *t)
{
    if (!t)
        return;
    memo_free(t);
    struct arena a = t->arena;
    arena_free(&a);
}

int64_t shardings_explicit_count(const struct shardings *t)
{
    return t->nexplicit;
}

int64_t shardings_bytes(const struct shardings *t)
{
    return t->arena.bytes;
}

const struct order *order_get(const struct shardings *t, order_id o)
{
    return &order_at(t, o)->o;
}

/* ---- interning orders -------------------------------------------------------------------------- */

static order_id intern_digits(struct shardings *t, int64_t n, int nd, const struct digit *d)
{
    int64_t key[1 + 2 * DIGITS_MAX];
    key[0] = n;
    for (int i = 0; i < nd; i++) {
        key[1 + 2 * i] = d[i].radix;
        key[2 + 2 * i] = d[i].reversed ? -d[i].stride : d[i].stride;
    }
    uint32_t id = intern_put(&t->order_keys, key, (size_t)(1 + 2 * nd) * sizeof *key);
    if (id < t->orders.n)
        return (order_id){ id };
    uint32_t same = paged_add(&t->orders);
    INVARIANT(same == id, "orders and their keys run apart");
    struct order_entry *e = paged_at(&t->orders, id);
    e->o.ndevices = n;
    e->o.ndigits = nd;
    e->o.digits = arena_copy(&t->arena, d, nd, sizeof *d);
    return (order_id){ id };
}

order_id order_from_digits(struct shardings *t, int64_t n, int nd, struct digit *d)
{
    int k = 0;
    for (int i = 0; i < nd; i++) {
        if (d[i].radix == 1)
            continue;
        struct digit *prev = k ? &d[k - 1] : NULL;
        if (prev && prev->reversed == d[i].reversed && prev->stride == d[i].stride * d[i].radix) {
            prev->radix *= d[i].radix;
            prev->stride = d[i].stride;
            continue;
        }
        d[k++] = d[i];
    }
    return intern_digits(t, n, k, d);
}

order_id order_iota(struct shardings *t, int64_t n)
{
    struct digit d = { n, 1, false };
    return order_from_digits(t, n, 1, &d);
}

order_id order_from_iota(struct shardings *t, int n, const int64_t *reshape, const int *perm)
{
    INVARIANT(n <= AXES_MAX, "too many reshape dimensions");
    int64_t stride[AXES_MAX], total = 1;
    for (int i = n - 1; i >= 0; i--) {
        stride[i] = total;
        total *= reshape[i];
    }
    struct digit d[DIGITS_MAX];
    int k = 0;
    for (int i = 0; i < n; i++) {
        int from = perm ? perm[i] : i;
        if (reshape[from] > 1)
            d[k++] = (struct digit){ reshape[from], stride[from], false };
    }
    return order_from_digits(t, total, k, d);
}

/* Builds the inverse where it is dense enough to be worth it. */
static void make_inverse(struct shardings *t, struct order_entry *e)
{
    int64_t n = e->o.ndevices, max = 0;
    for (int64_t i = 0; i < n; i++) {
        if (e->o.explicit_[i] < 0)
            return;
        max = max_i64(max, e->o.explicit_[i]);
    }
    if (max / 4 > n + 256)
        return;
    int64_t *inv = ARENA_ARRAY(&t->arena, int64_t, max + 1);
    for (int64_t i = 0; i <= max; i++)
        inv[i] = -1;
    for (int64_t i = 0; i < n; i++)
        inv[e->o.explicit_[i]] = i; /* the last one counts, P-31 */
    e->inverse = inv;
    e->ninverse = max + 1;
}

static order_id intern_explicit(struct shardings *t, int64_t n, const int64_t *devices)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t *key = ARENA_ARRAY(&tmp, int64_t, n + 2);
    key[0] = -1; /* no digit order begins so */
    key[1] = n;
    memcpy(key + 2, devices, (size_t)n * sizeof *key);
    uint32_t id = intern_put(&t->order_keys, key, (size_t)(n + 2) * sizeof *key);
    arena_close(&tmp);
    if (id < t->orders.n)
        return (order_id){ id };
    uint32_t same = paged_add(&t->orders);
    INVARIANT(same == id, "orders and their keys run apart");
    struct order_entry *e = paged_at(&t->orders, id);
    e->o.ndevices = n;
    e->o.explicit_ = (const int64_t *)intern_at(&t->order_keys, id)->bytes + 2;
    make_inverse(t, e);
    t->nexplicit++;
    return (order_id){ id };
}

/* ---- lists that are digit orders ------------------------------------------------------------------ */

/* Longest arithmetic progression at the start of the cells 0, step, 2 * step, ... The minor digit of
 * a canonical order is exactly that long. */
static int64_t progression(const int64_t *v, int64_t n, int64_t step, int64_t *diff)
{
    int64_t count = n / step;
    if (count < 2)
        return count;
    if (__builtin_sub_overflow(v[step], v[0], diff) || *diff == 0)
        return 0;
    int64_t k = 1;
    while (k < count && v[k * step] - v[(k - 1) * step] == *diff)
        k++;
    return k;
}

/* Every cell is its block's first plus the progression. */
static bool blocks_agree(const int64_t *v, int64_t n, int64_t step, int64_t radix, int64_t diff)
{
    for (int64_t b = 0; b < n; b += step * radix)
        for (int64_t k = 1; k < radix; k++)
            if (v[b + k * step] - v[b] != k * diff)
                return false;
    return true;
}

/* Strides and radices make up 0..n-1, and cell 0 is where the flags say. */
static bool digits_cover(int nd, const struct digit *d, int64_t n, int64_t first)
{
    int64_t have = 1, at0 = 0;
    for (int done = 0; done < nd; done++) {
        int next = -1;
        for (int i = 0; i < nd; i++)
            if (d[i].stride == have)
                next = i;
        if (next < 0)
            return false;
        have *= d[next].radix;
    }
    for (int i = 0; i < nd; i++)
        if (d[i].reversed)
            at0 += (d[i].radix - 1) * d[i].stride;
    return have == n && at0 == first;
}

static bool list_digits(int64_t n, const int64_t *v, int *nd, struct digit *d)
{
    for (int64_t i = 0; i < n; i++)
        if (v[i] < 0 || v[i] >= n)
            return false;
    int k = DIGITS_MAX;
    for (int64_t step = 1; step < n;) {
        int64_t diff;
        int64_t radix = progression(v, n, step, &diff);
        if (radix < 2 || (n / step) % radix || k == 0 || !blocks_agree(v, n, step, radix, diff))
            return false;
        d[--k] = (struct digit){ radix, diff < 0 ? -diff : diff, diff < 0 };
        step *= radix;
    }
    *nd = DIGITS_MAX - k;
    memmove(d, d + k, (size_t)*nd * sizeof *d);
    return digits_cover(*nd, d, n, v[0]);
}

order_id order_intern_list(struct shardings *t, int64_t n, const int64_t *devices)
{
    struct digit d[DIGITS_MAX];
    int nd;
    if (list_digits(n, devices, &nd, d))
        return order_from_digits(t, n, nd, d);
    return intern_explicit(t, n, devices);
}

order_id order_from_list(struct shardings *t, int64_t n, const int64_t *devices)
{
    INVARIANT(n >= 1, "an order needs a device");
    return order_intern_list(t, n, devices);
}

/* ---- asking ----------------------------------------------------------------------------------------- */

int64_t order_device(const struct shardings *t, order_id o, int64_t cell)
{
    const struct order *e = order_get(t, o);
    if (e->explicit_)
        return e->explicit_[cell];
    int64_t device = 0;
    for (int i = e->ndigits - 1; i >= 0; i--) {
        const struct digit *d = &e->digits[i];
        int64_t c = cell % d->radix;
        cell /= d->radix;
        device += (d->reversed ? d->radix - 1 - c : c) * d->stride;
    }
    return device;
}

int64_t order_cell(const struct shardings *t, order_id o, int64_t device)
{
    const struct order_entry *x = order_at(t, o);
    const struct order *e = &x->o;
    if (e->explicit_) {
        if (x->inverse)
            return device >= 0 && device < x->ninverse ? x->inverse[device] : -1;
        for (int64_t i = e->ndevices - 1; i >= 0; i--)
            if (e->explicit_[i] == device)
                return i;
        return -1;
    }
    if (device < 0 || device >= e->ndevices)
        return -1;
    int64_t cell = 0;
    for (int i = 0; i < e->ndigits; i++) {
        const struct digit *d = &e->digits[i];
        int64_t c = device / d->stride % d->radix;
        cell = cell * d->radix + (d->reversed ? d->radix - 1 - c : c);
    }
    return cell;
}

bool order_is_iota(const struct shardings *t, order_id o)
{
    const struct order *e = order_get(t, o);
    return !e->explicit_ && (e->ndigits == 0 || (e->ndigits == 1 && !e->digits[0].reversed));
}
