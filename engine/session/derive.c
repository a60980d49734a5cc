/* Derived results: pure functions of (module, strategy), kept by key while memory lasts. Undo finds
 * what the older strategy had; two strategies that differ only in the partitioner's options share a
 * propagation. */
#include "session/internal.h"

#include <stdlib.h>
#include <string.h>

/* Entries and instructions (of working graphs and programs) that are kept. The newest four entries
 * always are: the current strategy, the one before, and the two of a diff. */
enum { KEEP_ALWAYS = 4, KEEP_ENTRIES = 64, KEEP_INSTRUCTIONS = 1500 * 1000 };

static void partitioned_free(struct partitioned *p)
{
    memory_free(p->memory);
    cost_plan_free(p->plan);
    program_free(p->program);
    arena_free(&p->arena);
    free(p);
}

static void derived_free(struct derived *e)
{
    while (e->parts) {
        struct partitioned *next = e->parts->next;
        partitioned_free(e->parts);
        e->parts = next;
    }
    propagation_free(e->prop);
    annotated_free(e->annotated);
    free(e->annotation_on);
    free(e);
}

void derived_drop_all(struct document *doc)
{
    doc->base.prop = NULL;
    while (doc->derived) {
        struct derived *next = doc->derived->next;
        derived_free(doc->derived);
        doc->derived = next;
    }
}

static int64_t weight(const struct derived *e)
{
    int64_t n = e->prop ? module_ninstrs(e->prop->graph->module) : 0;
    for (const struct partitioned *p = e->parts; p; p = p->next)
        n += p->program ? module_ninstrs(p->program->module) : 0;
    return n;
}

/* The list is kept newest first; what falls behind the budget goes. */
static void trim(struct document *doc)
{
    int64_t total = 0;
    int count = 0;
    for (struct derived **p = &doc->derived; *p; count++) {
        total += weight(*p);
        if (count >= KEEP_ALWAYS && (count >= KEEP_ENTRIES || total > KEEP_INSTRUCTIONS)) {
            struct derived *gone = *p;
            *p = gone->next;
            derived_free(gone);
            continue;
        }
        p = &(*p)->next;
    }
}

static struct derived *derived_for(struct document *doc, const struct strategy *s)
{
    for (struct derived **p = &doc->derived; *p; p = &(*p)->next) {
        struct derived *e = *p;
        if (e->key != s->propagation_key)
            continue;
        *p = e->next;
        e->next = doc->derived;
        doc->derived = e;
        return e;
    }
    trim(doc);
    struct derived *e = calloc(1, sizeof *e);
    if (!e)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for derived results");
    e->key = s->propagation_key;
    e->next = doc->derived;
    doc->derived = e;
    return e;
}

/* What has to be there first, with the command that brings it. */
static bool missing(struct diag *d, const char *what, const char *hint)
{
    const char *former = diag_stage(d, "usage");
    diag_error(d, NULL, (struct span){ 0, 0 }, "%s", what);
    diag_hint(d, "%s", hint);
    diag_stage(d, former);
    return false;
}

static bool need_module(const struct document *doc, struct diag *d)
{
    return doc->module || missing(d, "no module is loaded", "load FILE");
}

/* ---- the annotated module -------------------------------------------------------------------------- */

static bool make_annotated(struct document *doc, const struct strategy *s, struct derived *e,
                           struct diag *d)
{
    if (e->annotated)
        return true;
    const char *former = diag_stage(d, "shard");
    e->annotated = annotate(doc->module, s->nannotations, s->annotations, s->unshard_module, d);
    diag_stage(d, former);
    return e->annotated != NULL;
}

const struct annotated *document_annotated(struct document *doc, struct diag *d)
{
    if (!need_module(doc, d))
        return NULL;
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        boundary_failed(&f, d);
        return NULL;
    }
    struct derived *e = derived_for(doc, doc->current);
    bool ok = make_annotated(doc, doc->current, e, d);
    fail_leave(&f);
    return ok ? e->annotated : NULL;
}

/* ---- propagation ----------------------------------------------------------------------------------- */

/* The header's flags, one entry each: a single one stands for all. */
static const bool *expand_flags(struct arena *a, int kind, int64_t nlist, const bool *list,
                                int64_t nheader, const bool *header, bool silent, int64_t want,
                                int64_t *n)
{
    bool *out = ARENA_ARRAY(a, bool, want + 1);
    const bool *from = kind == 2 ? list : header;
    int64_t nfrom = kind == 2 ? nlist : nheader;
    for (int64_t k = 0; k < want; k++) {
        if (kind == 0 || kind == 1)
            out[k] = kind;
        else if (nfrom == 0)
            out[k] = silent;
        else
            out[k] = nfrom == want ? from[k] : nfrom == 1 ? from[0] : k < nfrom && from[k];
    }
    *n = want;
    return out;
}

/* The flags as they stand, header's or set: one entry and n equal entries are different things to
 * XLA (P-64, P-87..P-89). */
static const bool *plain_flags(struct arena *a, int kind, int64_t nlist, const bool *list,
                               int64_t nheader, const bool *header, bool silent, int64_t *n)
{
    bool *one = ARENA_ARRAY(a, bool, 1);
    if (kind == 2 || (kind != 0 && kind != 1 && nheader > 0)) {
        *n = kind == 2 ? nlist : nheader;
        return kind == 2 ? list : header;
    }
    one[0] = kind == 0 || kind == 1 ? kind : silent;
    *n = 1;
    return one;
}

/* An entry that the user annotated keeps what the user said (language.md section 5). False: there
 * is none such, and the flags may stay as they are. */
static bool hold_annotated(const struct document *doc, const struct strategy *s, bool *out,
                           int64_t nout, bool *params, int64_t nparams)
{
    const struct module *m = doc->module;
    const struct computation *entry = comp_at(m, m->entry);
    bool held = false;
    for (int k = 0; k < s->nannotations; k++) {
        const struct annotation *a = &s->annotations[k];
        if (a->kind != ANNOTATE_SHARD)
            continue;
        for (int64_t p = 0; p < entry->nparams && p < nparams; p++)
            if (entry->params[p].i == a->target.i) {
                params[p] = false;
                held = true;
            }
        for (int64_t leaf = 0; a->target.i == entry->root.i && leaf < nout; leaf++)
            if (a->leaf < 0 || a->leaf == leaf) {
                out[leaf] = false;
                held = true;
            }
    }
    return held;
}

static void fill_options(const struct document *doc, const struct strategy *s, struct arena *a,
                         struct propagation_options *o)
{
    const struct module *m = doc->module;
    const struct computation *entry = comp_at(m, m->entry);
    const struct options *so = &s->options;
    int64_t nleaves = shape_get(doc->ir, instr_at(m, entry->root)->shape)->nleaves;
    int64_t nout, nparams;
    bool *out =
        (bool *)(uintptr_t)expand_flags(a, so->to_output, so->nto_output, so->to_output_list,
                                        m->nto_output, m->to_output, doc->is_model, nleaves, &nout);
    bool *params = (bool *)(uintptr_t)expand_flags(
        a, so->to_parameters, so->nto_parameters, so->to_parameters_list, m->nto_parameters,
        m->to_parameters, doc->is_model, entry->nparams, &nparams);
    const bool *to_output = out, *to_parameters = params;
    if (!hold_annotated(doc, s, out, nout, params, nparams)) {
        to_output = plain_flags(a, so->to_output, so->nto_output, so->to_output_list, m->nto_output,
                                m->to_output, doc->is_model, &nout);
        to_parameters =
            plain_flags(a, so->to_parameters, so->nto_parameters, so->to_parameters_list,
                        m->nto_parameters, m->to_parameters, doc->is_model, &nparams);
    }
    *o = (struct propagation_options){
        .spmd = so->is_spmd,
        .propagate_metadata = so->propagate_metadata,
        .cse_only = so->cse_only,
        .none = strategy_none(doc, s),
        .nto_output = nout,
        .to_output = to_output,
        .nto_parameters = nparams,
        .to_parameters = to_parameters,
    };
}

bool document_may_change(struct document *doc, instr_id loaded, int64_t leaf)
{
    struct fail_frame f;
    if (!doc->module || !FAIL_ENTER(&f))
        return true;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct propagation_options o;
    fill_options(doc, doc->current, &tmp, &o);
    const struct computation *entry = comp_at(doc->module, doc->module->entry);
    bool may = true;
    for (int64_t k = 0; k < entry->nparams && (k < o.nto_parameters || o.nto_parameters == 1); k++)
        if (entry->params[k].i == loaded.i)
            may = o.to_parameters[o.nto_parameters == 1 ? 0 : k];
    for (int64_t k = 0; k < o.nto_output && loaded.i == entry->root.i; k++)
        if (leaf < 0 || leaf == k || o.nto_output == 1)
            may = may && o.to_output[k];
    arena_close(&tmp);
    fail_leave(&f);
    return may;
}

static bool propagate_scratch(struct document *doc, const struct strategy *s, struct derived *e,
                              const struct propagation_options *o, struct tick *t, struct diag *d)
{
    const struct module *from = doc->module;
    if (s->nannotations > 0 || s->unshard_module) {
        if (!make_annotated(doc, s, e, d))
            return false;
        from = e->annotated->module;
    }
    struct graph *g = graph_prepare(from, s->options.prepare, t, d);
    if (!g)
        return false;
    e->prop = propagate(g, o, t, d);
    if (e->prop)
        e->prop->graph->loaded = doc->module; /* the annotated one may go before increments do */
    return e->prop != NULL;
}

static bool make_propagation(struct document *doc, const struct strategy *s, struct derived *e,
                             struct tick *t, struct diag *d)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct propagation_options o;
    fill_options(doc, s, &tmp, &o);
    const char *former = diag_stage(d, "shard");
    doc->computations++;
    e->prop = increment_for(doc, s, &o, t);
    if (e->prop)
        doc->increments++;
    bool ok = e->prop || propagate_scratch(doc, s, e, &o, t, d);
    diag_stage(d, former);
    arena_close(&tmp);
    return ok;
}

const struct propagation *strategy_propagation(struct document *doc, const struct strategy *s,
                                               struct tick *t, struct diag *d)
{
    if (!need_module(doc, d))
        return NULL;
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        boundary_failed(&f, d);
        return NULL;
    }
    struct derived *e = derived_for(doc, s);
    bool ok = e->prop || make_propagation(doc, s, e, t, d);
    if (ok)
        e->strategy = s;
    fail_leave(&f);
    return ok ? e->prop : NULL;
}

const struct propagation *document_propagation(struct document *doc, struct tick *t, struct diag *d)
{
    return strategy_propagation(doc, doc->current, t, d);
}

bool document_try(struct document *doc, int n, const struct annotation *list, struct trial *out,
                  struct tick *t, struct diag *d)
{
    *out = (struct trial){ 0 };
    if (!need_module(doc, d))
        return false;
    struct strategy s = *doc->current;
    struct derived e = { 0 };
    int64_t computations = doc->computations;
    s.annotations = list;
    s.nannotations = n;
    struct fail_frame f;
    bool ok = FAIL_ENTER(&f);
    doc->trying = true;
    if (ok) {
        ok = make_propagation(doc, &s, &e, t, d);
        fail_leave(&f);
    } else {
        boundary_failed(&f, d);
    }
    doc->trying = false;
    doc->computations = computations;
    *out = (struct trial){ .annotated = e.annotated, .prop = e.prop };
    if (!ok)
        trial_free(out);
    return ok;
}

void document_try_base(struct document *doc, int n, const struct annotation *list, const struct propagation *p)
{
    doc->base = (struct trial_base){ .strategy = *doc->current, .prop = p };
    doc->base.strategy.annotations = list;
    doc->base.strategy.nannotations = n;
}

void trial_free(struct trial *t)
{
    program_free(t->program);
    propagation_free(t->prop);
    annotated_free(t->annotated);
    arena_free(&t->arena);
    *t = (struct trial){ 0 };
}

const struct propagation *document_previous(struct document *doc, struct tick *t)
{
    return doc->module && doc->current->parent
               ? strategy_propagation(doc, doc->current->parent, t, NULL)
               : NULL;
}

/* ---- the program ----------------------------------------------------------------------------------- */

static struct partitioned *part_of(struct derived *e, uint64_t key)
{
    for (struct partitioned *p = e->parts; p; p = p->next)
        if (p->key == key)
            return p;
    struct partitioned *p = calloc(1, sizeof *p);
    if (!p)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for derived results");
    p->key = key;
    p->next = e->parts;
    e->parts = p;
    return p;
}

struct partitioned *partitioned_for(struct document *doc, const struct strategy *s)
{
    return part_of(derived_for(doc, s), s->key);
}

static bool need_devices(int64_t n, struct diag *d)
{
    return n > 0 || missing(d, "no devices", "mesh data=2 model=4");
}

static bool make_program(struct document *doc, const struct strategy *s, struct derived *e,
                         struct partitioned *p, struct tick *t, struct diag *d)
{
    if (p->program)
        return true;
    struct partition_options o = s->options.partition;
    o.num_partitions = strategy_devices(doc, s);
    if (o.replica_count == 0)
        o.replica_count = doc->module->replica_count;
    const char *former = diag_stage(d, "partition");
    doc->computations++;
    p->program = partition(e->prop, &o, t, d);
    diag_stage(d, former);
    return p->program != NULL;
}

static bool need_unpartitioned(const struct document *doc, struct diag *d)
{
    if (!doc->partitioned)
        return true;
    const char *former = diag_stage(d, "partition");
    diag_error(d, NULL, (struct span){ 0, 0 }, "this module is a partitioned program already");
    diag_hint(d, "comms, show, info and export hlo work on it; load the dump from before "
                 "partitioning for more");
    diag_stage(d, former);
    return false;
}

const struct program *strategy_program(struct document *doc, const struct strategy *s,
                                       struct tick *t, struct diag *d)
{
    if (!need_module(doc, d) || !need_unpartitioned(doc, d) ||
        !need_devices(strategy_devices(doc, s), d) || !strategy_propagation(doc, s, t, d))
        return NULL;
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        boundary_failed(&f, d);
        return NULL;
    }
    struct derived *e = derived_for(doc, s);
    struct partitioned *p = part_of(e, s->key);
    bool ok = make_program(doc, s, e, p, t, d);
    fail_leave(&f);
    return ok ? p->program : NULL;
}

const struct program *document_program(struct document *doc, struct tick *t, struct diag *d)
{
    return strategy_program(doc, doc->current, t, d);
}

static void list_dump(struct document *doc, struct partitioned *p, int64_t ndevices)
{
    if (p->listed)
        return;
    p->n = collectives_list(doc->module, ndevices, max_i64(doc->module->replica_count, 1),
                            &p->arena, &p->list, &p->total);
    p->listed = true;
}

static void list_program(struct document *doc, struct partitioned *p)
{
    if (p->listed)
        return;
    p->n = collectives_list(p->program->module, p->program->num_partitions,
                            max_i64(doc->module->replica_count, 1), &p->arena, &p->list, &p->total);
    p->listed = true;
}

bool strategy_collectives(struct document *doc, const struct strategy *s,
                          const struct collective **list, int64_t *n, int64_t *total,
                          struct tick *t, struct diag *d)
{
    if (!need_module(doc, d) || !need_devices(strategy_devices(doc, s), d))
        return false;
    if (!doc->partitioned && !strategy_program(doc, s, t, d))
        return false;
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct partitioned *p = part_of(derived_for(doc, s), s->key);
    if (doc->partitioned)
        list_dump(doc, p, strategy_devices(doc, s));
    else
        list_program(doc, p);
    *list = p->list;
    *n = p->n;
    *total = p->total;
    fail_leave(&f);
    return true;
}

bool document_collectives(struct document *doc, const struct collective **list, int64_t *n,
                          int64_t *total, struct tick *t, struct diag *d)
{
    return strategy_collectives(doc, doc->current, list, n, total, t, d);
}

static bool try_strategy(struct document *doc, const struct strategy *s, struct trial *out,
                         struct tick *t, struct diag *d)
{
    struct derived e = { 0 };
    struct partitioned p = { 0 };
    bool ok = make_propagation(doc, s, &e, t, d) && make_program(doc, s, &e, &p, t, d);
    out->annotated = e.annotated;
    out->prop = e.prop;
    out->program = p.program;
    if (ok)
        out->n = collectives_list(p.program->module, p.program->num_partitions,
                                  max_i64(doc->module->replica_count, 1), &out->arena, &out->list,
                                  &out->total);
    return ok;
}

bool document_try_edit(struct document *doc, const struct annotation *one, struct trial *out,
                       struct tick *t, struct diag *d)
{
    *out = (struct trial){ 0 };
    if (!need_module(doc, d))
        return false;
    struct strategy s = *doc->current;
    int64_t computations = doc->computations, increments = doc->increments;
    struct fail_frame f;
    bool ok = FAIL_ENTER(&f);
    if (ok) {
        ok = strategy_put(doc, &s, one, d) && try_strategy(doc, &s, out, t, d);
        fail_leave(&f);
    } else {
        boundary_failed(&f, d);
    }
    doc->computations = computations;
    doc->increments = increments;
    if (!ok)
        trial_free(out);
    return ok;
}

/* ---- whose annotation ------------------------------------------------------------------------------ */

static void index_annotations(const struct document *doc, struct derived *e)
{
    uint32_t n = module_ninstrs(doc->module);
    const struct strategy *s = doc->current;
    e->annotation_on = malloc((n + 1) * sizeof *e->annotation_on);
    if (!e->annotation_on)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for derived results");
    for (uint32_t k = 0; k <= n; k++)
        e->annotation_on[k] = -1;
    for (int k = 0; k < s->nannotations; k++)
        if (s->annotations[k].kind == ANNOTATE_SHARD)
            e->annotation_on[s->annotations[k].target.i] = k;
}

int document_annotation_of(struct document *doc, instr_id working, struct diag *d)
{
    struct derived *e = derived_for(doc, doc->current);
    if (!e->prop || doc->current->nannotations == 0)
        return -1;
    instr_id source = e->prop->graph->origin[working.i].source;
    if (source.i == 0)
        return -1;
    if (source.i > module_ninstrs(doc->module) && !e->annotated) { /* an increment's: not made so far */
        struct fail_frame f;
        if (!FAIL_ENTER(&f)) {
            boundary_failed(&f, d);
            return -1;
        }
        (void)make_annotated(doc, doc->current, e, d);
        fail_leave(&f);
    }
    if (e->annotated && e->annotated->annotation_of &&
        source.i <= module_ninstrs(e->annotated->module) &&
        e->annotated->annotation_of[source.i] >= 0)
        return e->annotated->annotation_of[source.i];
    if (source.i > module_ninstrs(doc->module))
        return -1;
    if (!e->annotation_on) {
        struct fail_frame f;
        if (!FAIL_ENTER(&f)) {
            boundary_failed(&f, d);
            return -1;
        }
        index_annotations(doc, e);
        fail_leave(&f);
    }
    return e->annotation_on[source.i];
}

/* ---- reshard A -> B -------------------------------------------------------------------------------- */

void move_drop(struct document *doc)
{
    program_free(doc->move_program);
    propagation_free(doc->move_prop);
    module_free(doc->move_module);
    doc->move_module = NULL;
    doc->move_program = NULL;
    doc->move_prop = NULL;
    arena_free(&doc->move_arena);
}

static bool make_move(struct document *doc, struct module *m, bool best, struct diag *d)
{
    struct graph *g = graph_prepare(m, false, NULL, d);
    if (!g)
        return false;
    struct propagation_options o = { .spmd = true, .none = true };
    doc->move_prop = propagate(g, &o, NULL, d);
    if (!doc->move_prop)
        return false;
    struct partition_options po = doc->current->options.partition;
    po.num_partitions = document_devices(doc);
    po.best = best;
    po.no_rule = NO_RULE_XLA;
    doc->move_program = partition(doc->move_prop, &po, NULL, d);
    return doc->move_program != NULL;
}

const struct program *document_reshard(struct document *doc, shape_id shape, sharding_id from,
                                       sharding_id to, const struct collective **list, int64_t *n,
                                       int64_t *total, struct diag *d)
{
    bool best = doc->current->options.partition.best;
    return document_reshard_as(doc, shape, from, to, best, list, n, total, d);
}

const struct program *document_reshard_as(struct document *doc, shape_id shape, sharding_id from,
                                          sharding_id to, bool best, const struct collective **list,
                                          int64_t *n, int64_t *total, struct diag *d)
{
    if (!need_devices(document_devices(doc), d))
        return NULL;
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        boundary_failed(&f, d);
        return NULL;
    }
    const struct shape *v = shape_get(doc->ir, shape);
    struct shardings *t = doc->ir->shardings;
    int64_t ndevices = document_devices(doc);
    struct span none = { 0, 0 };
    if (v->kind != SHAPE_ARRAY ||
        !sharding_fits(t, from, v->rank, v->dims, ndevices, NULL, none, d) ||
        !sharding_fits(t, to, v->rank, v->dims, ndevices, NULL, none, d)) {
        fail_leave(&f);
        return NULL;
    }
    move_drop(doc);
    struct module *m = module_new(doc->ir, name_put(doc->ir, "move", 4));
    doc->move_module = m;
    comp_id c = comp_new(m, name_put(doc->ir, "main", 4));
    struct attr number = attr_int(ATTR_INDEX, 0);
    instr_id a = instr_new(m, c, OP_PARAMETER, shape, 0, NULL, 1, &number);
    instr_id b = instr_new(m, c, OP_COPY, shape, 1, &a, 0, NULL);
    instr_at(m, a)->name = name_put(doc->ir, "from", 4);
    instr_at(m, b)->name = name_put(doc->ir, "to", 2);
    instr_at(m, a)->sharding = from;
    instr_at(m, b)->sharding = to;
    comp_finish(m, c, b);
    m->entry = c;
    m->num_partitions = document_devices(doc);
    const char *former = diag_stage(d, "partition");
    bool ok = make_move(doc, m, best, d);
    diag_stage(d, former);
    if (ok) {
        struct collective *out;
        *n = collectives_list(doc->move_program->module, doc->move_program->num_partitions, 1,
                              &doc->move_arena, &out, total);
        *list = out;
    }
    fail_leave(&f);
    return ok ? doc->move_program : NULL;
}
