/* partitioner.jsonl: one module a line with a sharding on everything, partitioned without all-gather
 * as XLA's own tests do, and what its tests say of the result.
 *
 * Judged: refusals, numbers of collectives in the entry, what must not occur, the root's shape, and
 * that each collective that a matcher gives with a shape is there with this shape. Not judged: XLA's
 * tables of constants and the dynamic-slices that read them, where we compute with the partition id.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition/partition.h"
#include "text/text.h"

struct one_case {
    const cJSON *json;
    struct ir *ir;
    struct diag *diag;
    struct module *module;
    struct propagation *shardings;
    struct program *program;
    struct arena arena;
    struct str why; /* what is wrong; empty: nothing */
};

static const cJSON *at(const cJSON *o, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(o, key);
}

/* ---- running ------------------------------------------------------------------------------------------ */

/* The plans of S-205 from 0; the first is the default. */
static int method(const cJSON *o, const char *key)
{
    static const char *const words[] = { "ExplicitBatch", "IndexParallel", "OperandPassthrough",
                                         "TrivialSlicedOperand", "IndexPassthrough" };
    const char *given = field_text(o, key);
    for (int k = 0; k < (int)COUNTOF(words); k++)
        if (strcmp(given, words[k]) == 0)
            return k;
    return 0;
}

static void read_options(const cJSON *json, struct partition_options *p)
{
    const cJSON *o = at(json, "options"), *x;
    partition_options_default(p);
    p->full = false;
    p->all_gather = false;
    p->num_partitions = field_int(json, "num_devices");
    x = at(o, "threshold_for_windowed_einsum_mib");
    p->windowed_einsum_mib = cJSON_IsNumber(x) ? (int64_t)x->valuedouble : 256;
    x = at(o, "total_bytes_windowed_einsum_threshold");
    p->windowed_total_bytes = cJSON_IsNumber(x) ? (int64_t)x->valuedouble : 0;
    p->unroll = field_true(o, "unroll_windowed_einsum");
    p->bidirectional = field_true(o, "bidirectional_windowed_einsum");
    p->choose_faster_windowed_einsum = field_true(o, "choose_faster_windowed_einsum");
    x = at(o, "conv_halo_exchange_always_on_lhs");
    if (x)
        p->halo_always_on_lhs = cJSON_IsTrue(x);
    p->gather_method = method(o, "gather_method");
    p->scatter_method = method(o, "scatter_method");
}

static void run(struct one_case *c)
{
    const char *hlo = field_text(c->json, "hlo"), *name = field_text(c->json, "name");
    if (!strstr(hlo, "HloModule"))
        hlo = arena_printf(&c->arena, "HloModule module\n%s", hlo);
    c->module = module_load_text(c->ir, name, hlo, strlen(hlo), NULL, c->diag);
    if (!c->module)
        return;
    struct propagation_options po = { .spmd = true, .none = true };
    struct graph *g = graph_prepare(c->module, false, NULL, c->diag);
    c->shardings = g ? propagate(g, &po, NULL, c->diag) : NULL;
    if (!c->shardings)
        return;
    struct partition_options o;
    read_options(c->json, &o);
    c->program = partition(c->shardings, &o, NULL, c->diag);
}

/* ---- checks --------------------------------------------------------------------------------------------- */

static int64_t count_in(const struct module *m, comp_id comp, enum op_kind op)
{
    const struct computation *k = comp_at(m, comp);
    int64_t n = 0;
    for (uint32_t i = 0; i < k->ninstrs; i++)
        n += instr_at(m, k->instrs[i])->op == op;
    return n;
}

static int64_t count_all(const struct module *m, enum op_kind op)
{
    int64_t n = 0;
    for (uint32_t c = 1; c <= module_ncomps(m); c++)
        n += count_in(m, (comp_id){ c }, op);
    return n;
}

static bool judged(const char *kind)
{
    return strcmp(kind, "dynamic-slice") != 0;
}

static enum op_kind kind_of(const char *name)
{
    return op_find(name, strlen(name));
}

static void check_counts(struct one_case *c)
{
    const struct module *m = c->program->module;
    const cJSON *e;
    cJSON_ArrayForEach(e, at(c->json, "expect_collectives"))
    {
        int64_t n = count_in(m, m->entry, kind_of(e->string));
        if (cJSON_IsNumber(e) && judged(e->string) && n != (int64_t)e->valuedouble)
            add_reason(&c->why, "%" PRId64 " %s, expected %d", n, e->string, e->valueint);
    }
    cJSON_ArrayForEach(e, at(c->json, "collectives_range"))
    {
        int64_t n = count_in(m, m->entry, kind_of(e->string));
        const cJSON *least = cJSON_GetArrayItem(e, 0), *most = cJSON_GetArrayItem(e, 1);
        if (!judged(e->string))
            continue;
        if (cJSON_IsNumber(least) && n < (int64_t)least->valuedouble)
            add_reason(&c->why, "%" PRId64 " %s, expected at least %d", n, e->string, least->valueint);
        if (cJSON_IsNumber(most) && n > (int64_t)most->valuedouble)
            add_reason(&c->why, "%" PRId64 " %s, expected at most %d", n, e->string, most->valueint);
    }
    cJSON_ArrayForEach(e, at(c->json, "absent_everywhere"))
    {
        if (cJSON_IsString(e) && judged(e->valuestring) &&
            count_all(m, kind_of(e->valuestring)) > 0)
            add_reason(&c->why, "%s must not occur", e->valuestring);
    }
}

/* What one of the matcher's nodes says itself: its operation and shape, through all_of. */
static void own_words(const cJSON *node, const char **op, const char **shape)
{
    const cJSON *e, *x = at(node, "op"), *y = at(node, "shape");
    if (cJSON_IsString(x))
        *op = x->valuestring;
    if (cJSON_IsString(y))
        *shape = y->valuestring;
    cJSON_ArrayForEach(e, at(node, "all_of"))
        own_words(e, op, shape);
}

static bool shape_is(struct one_case *c, shape_id id, const char *text)
{
    struct source src = { "<expected>", text, strlen(text) };
    size_t used;
    shape_id want;
    return shape_parse(c->ir, &src, 0, text, src.len, &used, &want, NULL) &&
           shape_same(c->ir, id, want);
}

static bool there_is(struct one_case *c, enum op_kind op, const char *shape)
{
    const struct module *m = c->program->module;
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        const struct instr *in = instr_at(m, (instr_id){ i });
        if (in->op == op && shape_is(c, in->shape, shape))
            return true;
    }
    return false;
}

/* Every collective that the matcher mentions with a shape. */
static void check_mentions(struct one_case *c, const cJSON *matcher)
{
    VEC(const cJSON *) stack = { 0 };
    vec_push(&c->arena, &stack, matcher);
    while (stack.n) {
        const cJSON *node = stack.v[--stack.n], *e;
        const char *op = NULL, *shape = NULL;
        own_words(node, &op, &shape);
        enum op_kind kind = op ? kind_of(op) : OP_NONE;
        if (shape && kind != OP_NONE && op_is_collective(kind) && !there_is(c, kind, shape))
            add_reason(&c->why, "no %s of shape %s", op, shape);
        cJSON_ArrayForEach(e, at(node, "operands"))
            vec_push(&c->arena, &stack, e);
        cJSON_ArrayForEach(e, at(node, "all_of"))
            vec_push(&c->arena, &stack, e);
    }
}

static void check_matches(struct one_case *c)
{
    const struct module *m = c->program->module;
    const cJSON *e;
    cJSON_ArrayForEach(e, at(c->json, "match"))
    {
        const cJSON *matcher = at(e, "matcher");
        const char *op = NULL, *shape = NULL;
        if (at(e, "when") || !cJSON_IsObject(matcher))
            continue;
        own_words(matcher, &op, &shape);
        instr_id root = comp_at(m, m->entry)->root;
        if (shape && strcmp(field_text(e, "target"), "entry.root") == 0 &&
            !shape_is(c, instr_at(m, root)->shape, shape))
            add_reason(&c->why, "the root is not of shape %s", shape);
        check_mentions(c, matcher);
    }
}

/* The checks that are about presence and number: find(opcode=X) exists, count(entry, opcode=X) == N. */
static void check_checks(struct one_case *c)
{
    const struct module *m = c->program->module;
    const cJSON *e;
    cJSON_ArrayForEach(e, at(c->json, "checks"))
    {
        char word[64];
        const char *target = field_text(e, "target"), *op = field_text(e, "op");
        const cJSON *value = at(e, "value");
        if (at(e, "when"))
            continue;
        if (sscanf(target, "count(entry, opcode=%63[a-z-])", word) == 1 &&
            strcmp(op, "==") == 0 && cJSON_IsNumber(value)) {
            int64_t n = count_in(m, m->entry, kind_of(word));
            if (n != (int64_t)value->valuedouble)
                add_reason(&c->why, "%" PRId64 " %s, expected %d", n, word, value->valueint);
        } else if (sscanf(target, "find(opcode=%63[a-z-])", word) == 1 &&
                   target[strlen("find(opcode=") + strlen(word) + 1] == '\0') {
            bool there = count_all(m, kind_of(word)) > 0;
            if ((strcmp(op, "exists") == 0 && !there) || (strcmp(op, "absent") == 0 && there))
                add_reason(&c->why, "%s: %s", word, op);
        }
    }
}

/* No collective may carry a sharding. */
static void check_bare(struct one_case *c)
{
    const struct module *m = c->program->module;
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        const struct instr *in = instr_at(m, (instr_id){ i });
        if (op_is_collective((enum op_kind)in->op) && in->sharding.i)
            add_reason(&c->why, "a collective carries a sharding");
    }
}

static void check(struct one_case *c)
{
    const char *error = field_text(c->json, "expect_error");
    const char *said = c->diag->msgs.n ? c->diag->msgs.v[0].text : "nothing said";
    if (error[0]) {
        if (c->program)
            add_reason(&c->why, "must be refused: %s", error);
        else if (!strstr(said, error))
            add_reason(&c->why, "refused with \"%s\", expected \"%s\"", said, error);
        return;
    }
    if (!c->program) {
        add_reason(&c->why, "refused: %s", said);
        return;
    }
    struct diag *d = diag_new();
    if (!module_verify(c->program->module, d))
        add_reason(&c->why, "the program is not valid: %s", d->msgs.n ? d->msgs.v[0].text : "nothing said");
    diag_free(d);
    check_counts(c);
    check_matches(c);
    check_checks(c);
    check_bare(c);
}

static void run_case(void *context, struct conformance *out, const cJSON *json)
{
    (void)context;
    struct one_case c = { .json = json };
    c.why = STR_IN(&c.arena);
    c.ir = ir_new();
    c.diag = diag_new();
    run(&c);
    check(&c);
    if (c.why.n)
        conformance_fail(out, field_text(json, "name"), NULL, str_text(&c.why));
    else
        conformance_pass(out, field_text(json, "name"));
    program_free(c.program);
    propagation_free(c.shardings);
    module_free(c.module);
    diag_free(c.diag);
    arena_free(&c.arena);
    ir_free(c.ir);
}

void conformance_partitioner(const char *path, struct conformance *c)
{
    char buffer[4096];
    const char *file = conformance_file(path, "partitioner.jsonl", buffer);
    if (file)
        conformance_lines(file, c, run_case, NULL);
}
