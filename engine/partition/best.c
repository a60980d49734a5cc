/* partitioner=best: where it decides, for programs that send less than XLA's.
 *
 * XLA's way is always made first, as a trial, and its bytes are counted; only a plan that sends less
 * (or as much in fewer collectives) takes its place. So no single decision is worse. Decisions meet
 * in caches, though: a whole value that XLA makes once may serve three users. So the program is
 * compared with XLA's as a whole too: instructions that came out dearer are left to XLA, and in the
 * end the cheaper program is handed over.
 */
#include "partition/best_ways.h"

#include <string.h>

#include "base/fail.h"
#include "partition/list.h"

/* ---- trials -------------------------------------------------------------------------------------------- */

void best_begin(struct spmd *s, struct best_trial *t)
{
    *t = (struct best_trial){ .first = module_ninstrs(s->out) + 1, .remats = { s->remats.n },
                              .notes = { s->best->notes.n } };
}

void best_end(struct spmd *s, struct best_trial *t)
{
    t->last = module_ninstrs(s->out);
    t->remats[1] = s->remats.n;
    t->notes[1] = s->best->notes.n;
}

bool best_cost(struct spmd *s, const struct best_trial *t, int64_t *bytes, int64_t *collectives)
{
    *bytes = *collectives = 0;
    for (uint32_t i = t->first; i <= t->last; i++) {
        enum op_kind op = (enum op_kind)instr_at(s->out, (instr_id){ i })->op;
        if (op == OP_WHILE || op == OP_CONDITIONAL)
            return false;
        if (!op_is_collective(op) || best_rejected(s, (instr_id){ i }))
            continue;
        if (!add_ok(*bytes, collective_bytes(s->out, s->prog->num_partitions, (instr_id){ i }), bytes))
            return false;
        ++*collectives;
    }
    return true;
}

void best_reject(struct spmd *s, const struct best_trial *t)
{
    struct best_run *b = s->best;
    int64_t gone = t->remats[1] - t->remats[0];
    for (int64_t i = t->remats[1]; i < s->remats.n; i++)
        s->remats.v[i - gone] = s->remats.v[i];
    s->remats.n -= gone;
    gone = t->notes[1] - t->notes[0];
    for (int64_t i = t->notes[1]; i < b->notes.n; i++)
        b->notes.v[i - gone] = b->notes.v[i];
    b->notes.n -= gone;
    if (t->last < t->first)
        return;
    /* In its place among the others; those inside it go. */
    int64_t from = b->rejected.n, to;
    while (from > 0 && b->rejected.v[from - 1].first >= t->first)
        from--;
    for (to = from; to < b->rejected.n && b->rejected.v[to].last <= t->last; to++)
        ;
    if (to == from)
        vec_push(&s->arena, &b->rejected, ((struct best_range){ 0, 0 }));
    int64_t rest = b->rejected.n - to - (to == from);
    memmove(b->rejected.v + from + 1, b->rejected.v + to, (size_t)rest * sizeof *b->rejected.v);
    b->rejected.v[from] = (struct best_range){ t->first, t->last };
    b->rejected.n = from + 1 + rest;
}

bool best_rejected(const struct spmd *s, instr_id n)
{
    if (!s->best)
        return false;
    int64_t lo = 0, hi = s->best->rejected.n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (s->best->rejected.v[mid].last < n.i)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->best->rejected.n && s->best->rejected.v[lo].first <= n.i;
}

bool best_wanted(const struct spmd *s)
{
    return s->best && !s->failed && s->opt->all_gather &&
           !(s->best->plain && s->serving.i && s->best->plain[s->serving.i]);
}

void best_note(struct spmd *s, sharding_id from, sharding_id to, const char *plan, int64_t bytes,
               int64_t xla_bytes)
{
    vec_push(&s->arena, &s->best->notes,
             ((struct best_note){ .source = s->serving, .from = from, .to = to, .bytes = bytes,
                                  .xla_bytes = xla_bytes,
                                  .plan = arena_strdup(&s->prog->arena, plan) }));
}

/* ---- resharding ------------------------------------------------------------------------------------------ */

static bool plannable(const struct spmd *s, struct pval v, sharding_id target)
{
    const struct shape *base = shape_get(s->ir, v.base);
    return base->kind == SHAPE_ARRAY && base->count > 0 &&
           (sharding_is_tiled(s->sh, v.sharding) || sharding_is_replicated(s->sh, v.sharding)) &&
           (sharding_is_tiled(s->sh, target) || sharding_is_replicated(s->sh, target));
}

struct pval best_reshard(struct spmd *s, struct pval v, sharding_id target, instr_id pad)
{
    if (!best_wanted(s) || pad.i || !plannable(s, v, target))
        return reshard_as_xla(s, v, target, pad);
    const struct shape *base = shape_get(s->ir, v.base);
    struct best_trial t;
    int64_t bytes, n;
    best_begin(s, &t);
    struct pval r = reshard_as_xla(s, v, target, pad);
    best_end(s, &t);
    if (s->failed || !best_cost(s, &t, &bytes, &n) || n == 0)
        return r;
    struct best_problem p = { .t = s->sh, .rank = base->rank, .dims = base->dims,
                              .bytes = dtype_bytes(base->dtype), .ndevices = s->groups->size,
                              .from = v.sharding, .to = target, .limit_bytes = bytes,
                              .limit_collectives = n };
    struct best_plan plan;
    if (!best_plan(&p, &plan))
        return r;
    best_reject(s, &t);
    struct str words = STR_IN(&s->arena);
    best_plan_words(&plan, &words);
    best_note(s, v.sharding, target, str_text(&words), plan.bytes, bytes);
    const char *old = s->reason;
    s->reason = arena_printf(&s->prog->arena,
                             "a path of fewest bytes between two shardings: %s (partitioner=best; XLA "
                             "would send %" PRId64 " bytes)",
                             str_text(&words), bytes);
    r = pval_make(s, best_emit(s, &plan, base, v.local, (comp_id){ 0 }), v.base, target);
    s->reason = old;
    INVARIANT(shape_strip(s->ir, instr_at(s->out, r.local)->shape).i ==
                  shape_strip(s->ir, shard_shape(s, v.base, target)).i,
              "a plan ends in another shape than its target's");
    return r;
}

/* ---- instructions ----------------------------------------------------------------------------------------- */

bool best_handler(struct spmd *s, instr_id source, best_way way, void (*usual)(struct spmd *, instr_id))
{
    struct best_trial kept;
    int64_t bytes, n, xla_bytes;
    bool changed = false;
    const char *words = "";
    best_begin(s, &kept);
    usual(s, source);
    best_end(s, &kept);
    if (s->failed || !best_cost(s, &kept, &bytes, &n) || n == 0)
        return false;
    struct best_trial xla = kept;
    xla_bytes = bytes;
    for (int k = 0;; k++) {
        struct best_trial t;
        struct pval v;
        int64_t b, m;
        const char *old = s->reason;
        best_begin(s, &t);
        if (!way(s, source, k, &xla, bytes, &v))
            break;
        bool applies = v.local.i != 0;
        if (applies)
            v = reshard(s, v, source_sharding(s, source));
        s->reason = old;
        best_end(s, &t);
        if (s->failed)
            return changed;
        if (!applies || !best_cost(s, &t, &b, &m) || b > bytes || (b == bytes && m >= n)) {
            best_reject(s, &t);
            continue;
        }
        best_reject(s, &kept);
        for (int i = 0; i < 2; i++) { /* what the former noted is gone */
            t.remats[i] -= kept.remats[1] - kept.remats[0];
            t.notes[i] -= kept.notes[1] - kept.notes[0];
        }
        kept = t;
        bytes = b;
        n = m;
        changed = true;
        words = s->best->way;
        set_value(s, source, v);
    }
    if (changed)
        best_note(s, (sharding_id){ 0 }, (sharding_id){ 0 }, words, bytes, xla_bytes);
    return changed;
}

/* ---- whole programs ------------------------------------------------------------------------------------- */

struct verdict {
    int64_t bytes, collectives;
    int64_t *by_source; /* [working instruction] */
};

static struct verdict judge(const struct program *p, int64_t nsources, struct arena *a)
{
    struct verdict v = { 0 };
    struct collective *list;
    v.collectives = collectives_list(p->module, p->num_partitions, 1, a, &list, &v.bytes);
    v.by_source = ARENA_ARRAY(a, int64_t, nsources + 1);
    for (int64_t i = 0; i < v.collectives; i++) {
        int64_t *at = &v.by_source[p->notes[list[i].instr.i].source.i];
        if (!add_ok(*at, list[i].bytes, at))
            *at = INT64_MAX;
    }
    return v;
}

static bool better(const struct verdict *a, const struct verdict *b)
{
    return a->bytes < b->bytes || (a->bytes == b->bytes && a->collectives < b->collectives);
}

/* Instruction i came out dearer than in XLA's program: it is left to XLA, and so are those that share
 * an operand with it and were decided otherwise. What XLA made for one of them served i too. true:
 * that is news. */
static bool leave_to_xla(const struct module *m, const struct users *users, const bool *decided,
                         uint32_t i, bool *plain)
{
    bool more = !plain[i];
    plain[i] = true;
    const struct instr *in = i ? instr_at(m, (instr_id){ i }) : NULL;
    for (uint32_t k = 0; in && k < in->noperands; k++) {
        const instr_id *u = users_of(users, in->operands[k]);
        for (uint32_t j = 0; j < users_count(users, in->operands[k]); j++)
            if (decided[u[j].i] && !plain[u[j].i])
                plain[u[j].i] = more = true;
    }
    return more;
}

enum { ROUNDS = 4 };

/* A window along a dimension that is split: XLA takes the whole array for one that starts anywhere (S-143,
 * S-144); a static one of half of it or less is gathered from every neighbour that could have a part (S-140). */
static bool cuts_split_dim(const struct propagation *p, instr_id i)
{
    const struct module *m = p->graph->module;
    const struct instr *in = instr_at(m, i);
    if (in->op != OP_SLICE && in->op != OP_DYNAMIC_SLICE && in->op != OP_DYNAMIC_UPDATE_SLICE)
        return false;
    bool update = in->op == OP_DYNAMIC_UPDATE_SLICE;
    instr_id from = update ? i : in->operands[0];
    const struct shape *whole = instr_shape(m, from), *window = instr_shape(m, update ? in->operands[1] : i);
    struct shardings *t = m->ir->shardings;
    sharding_id sh = p->final[from.i];
    if (!sh.i || !sharding_is_tiled(t, sh))
        return false;
    bool some = false;
    for (int d = 0; d < whole->rank; d++) {
        if (whole->dims[d] == window->dims[d])
            continue;
        bool split = sharding_tile(t, sh, d) > 1;
        if (in->op == OP_SLICE && (!split || window->dims[d] > whole->dims[d] / 2))
            return false;
        some = some || split;
    }
    return some;
}

/* no_rule decides where XLA's program has arrays made whole for want of a rule (S-74, S-127), for
 * convolutions in groups, FFTs and solvers, of which XLA knows few tilings (S-202, S-167), and for windows along
 * split dimensions. false: nowhere. */
static bool leave_rules_to_xla(const struct propagation *p, const struct program *xla, bool *plain)
{
    const struct module *m = p->graph->module;
    bool some = false;
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        const struct instr *in = instr_at(m, (instr_id){ i });
        bool grouped = in->op == OP_CONVOLUTION && (instr_int(in, ATTR_FEATURE_GROUP_COUNT, 1) > 1 ||
                                                    instr_int(in, ATTR_BATCH_GROUP_COUNT, 1) > 1);
        plain[i] = !grouped && in->op != OP_FFT && in->op != OP_TRIANGULAR_SOLVE &&
                   !cuts_split_dim(p, (instr_id){ i });
        some = some || !plain[i];
    }
    for (int64_t k = 0; k < xla->nremats; k++)
        if (xla->remats[k].source.i) {
            plain[xla->remats[k].source.i] = false;
            some = true;
        }
    return some;
}

/* What XLA's program makes whole is kept by the one that takes its place. */
static void keep_remats(struct program *q, const struct program *old)
{
    const struct remat_note *list = program_remats(old, &q->nxla_remats);
    q->xla_remats = arena_copy(&q->arena, list, q->nxla_remats, sizeof *list);
    for (int64_t k = 0; k < q->nxla_remats; k++)
        if (list[k].reason)
            q->xla_remats[k].reason = arena_strdup(&q->arena, list[k].reason);
}

const struct remat_note *program_remats(const struct program *p, int64_t *n)
{
    *n = p->nxla_remats ? p->nxla_remats : p->nremats;
    return p->nxla_remats ? p->xla_remats : p->remats;
}

struct program *best_program(const struct propagation *p, const struct partition_options *o,
                             struct tick *tick, struct diag *d)
{
    struct partition_options xla = *o, other = *o;
    xla.best = false;
    other.best = true;
    struct program *best = partition_as(p, &xla, NULL, tick, d);
    if (!best)
        return NULL;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t n = module_ninstrs(p->graph->module);
    struct verdict first = judge(best, n, &tmp), least = first;
    bool *plain = ARENA_ARRAY(&tmp, bool, n + 1), *decided = ARENA_ARRAY(&tmp, bool, n + 1);
    bool more = o->best || leave_rules_to_xla(p, best, plain);
    struct users users;
    users_make(p->graph->module, &tmp, &users);
    for (int round = 0; round < ROUNDS && more && first.collectives > 0; round++) {
        struct program *q = partition_as(p, &other, plain, tick, d);
        if (!q)
            break;
        struct verdict v = judge(q, n, &tmp);
        more = false;
        for (int64_t i = 0; i < q->nbest; i++)
            decided[q->bests[i].source.i] = true;
        for (int64_t i = 0; i <= n; i++)
            if (v.by_source[i] > first.by_source[i] &&
                leave_to_xla(p->graph->module, &users, decided, (uint32_t)i, plain))
                more = true;
        bool take = better(&v, &least);
        if (take)
            least = v;
        if (take && !o->best && o->no_rule == NO_RULE_AUTO)
            keep_remats(q, best);
        program_free(take ? best : q);
        if (take)
            best = q;
    }
    best->best = o->best || least.bytes < first.bytes;
    best->no_rule = !o->best;
    best->xla_bytes = first.bytes;
    best->xla_collectives = first.collectives;
    best->best_bytes = least.bytes;
    arena_close(&tmp);
    return best;
}
