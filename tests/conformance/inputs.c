/* NAME.hlo beside NAME.xla.json: real dumps, and what XLA made of them. Every instruction that XLA
 * names must have its sharding, at every call site. Of the partitioned program (passes=spmd) the table
 * shows total bytes and number of collectives beside XLA's, and the safe fall-backs: operations for
 * which the partitioner has no rule yet. The recorded programs are of an older XLA, which all-reduced
 * a few concatenations that are gathered since: bytes above the record are a failure, fewer are not. */
#include "conformance.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "partition/partition.h"
#include "text/text.h"

enum { SHOWN = 8 }; /* differences printed of one file */

struct input {
    const char *folder, *name;
    struct ir *ir;
    struct module *module;
    struct propagation *result;
    struct diag *diag;
    struct arena arena;
    struct map by_name; /* hash of computation/instruction -> loaded id */
    int64_t agree, total, shown;
    double load_ms, pass_ms, split_ms;
    int64_t bytes, collectives, fallbacks; /* of our program; bytes -1: not partitionable */
    bool verbose;
};

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static const char *existing(struct arena *a, const char *folder, const char *name, const char *ending)
{
    static const char *const packed[] = { "", ".gz" };
    for (int k = 0; k < 2; k++) {
        const char *path = arena_printf(a, "%s/%s%s%s", folder, name, ending, packed[k]);
        FILE *f = fopen(path, "rb");
        if (!f)
            continue;
        (void)fclose(f);
        return path;
    }
    return NULL;
}

static void names_index(struct input *in)
{
    const struct module *m = in->module;
    map_init(&in->by_name, &in->arena);
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *i = instr_at(m, (instr_id){ k });
        const char *comp = name_text(m->ir, comp_at(m, i->comp)->name);
        const char *name = name_text(m->ir, i->name);
        uint64_t h = hash_bytes(comp, strlen(comp), 1) * 31 + hash_bytes(name, strlen(name), 2);
        map_put(&in->by_name, h, k);
    }
}

static instr_id find(const struct input *in, const char *key)
{
    const char *slash = strchr(key, '/');
    uint64_t id;
    if (!slash)
        return (instr_id){ 0 };
    uint64_t h = hash_bytes(key, (size_t)(slash - key), 1) * 31 + hash_bytes(slash + 1, strlen(slash + 1), 2);
    return map_get(&in->by_name, h, &id) ? (instr_id){ (uint32_t)id } : (instr_id){ 0 };
}

static const char *spelled(struct input *in, sharding_id s)
{
    struct str out = STR_IN(&in->arena);
    if (s.i)
        sharding_print(in->ir->shardings, s, NULL, false, &out);
    return s.i ? str_text(&out) : "none";
}

static sharding_id parse(struct input *in, const char *text)
{
    struct source src = { "<expected>", text, strlen(text) };
    size_t used;
    sharding_id s = { UINT32_MAX };
    if (!sharding_parse(in->ir->shardings, &in->arena, &src, 0, text, strlen(text), &used, &s, NULL,
                        in->diag))
        return (sharding_id){ UINT32_MAX };
    return s;
}

static void differs(struct input *in, const char *key, const char *got, const char *want)
{
    if (in->shown++ < SHOWN || in->verbose)
        printf("    %s: got %s, XLA %s\n", key, got, want);
}

static void compare_one(struct input *in, const char *key, sharding_id got, const cJSON *want)
{
    sharding_id w = { 0 };
    if (cJSON_IsString(want))
        w = parse(in, want->valuestring);
    if (w.i == got.i)
        in->agree++;
    else
        differs(in, key, spelled(in, got), cJSON_IsString(want) ? want->valuestring : "none");
    in->total++;
}

/* A list holds one sharding a call site, in XLA's order of the copies: compared as multisets. */
static void compare_sites(struct input *in, const char *key, instr_id i, const cJSON *want)
{
    const struct graph *g = in->result->graph;
    uint32_t n = g->start[i.i + 1] - g->start[i.i];
    int count = cJSON_GetArraySize(want);
    bool *used = ARENA_ARRAY(&in->arena, bool, n + 1);
    for (int k = 0; k < count; k++) {
        const cJSON *one = cJSON_GetArrayItem(want, k);
        sharding_id w = { 0 };
        bool found = false;
        if (cJSON_IsString(one))
            w = parse(in, one->valuestring);
        for (uint32_t j = 0; j < n && !found; j++)
            if (!used[j] && in->result->final[g->list[g->start[i.i] + j].i].i == w.i)
                found = used[j] = true;
        in->total++;
        if (found)
            in->agree++;
        else
            differs(in, key, "another at that call", cJSON_IsString(one) ? one->valuestring : "none");
    }
}

/* The records have some parameters of inlined computations too: XLA's answer is then that of what the
 * call passes. */
static instr_id passed_for(const struct input *in, instr_id parameter)
{
    const struct module *m = in->module;
    const struct computation *c = comp_at(m, instr_at(m, parameter)->comp);
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *i = instr_at(m, (instr_id){ k });
        const struct attr *a = i->op == OP_CALL ? instr_attr(i, ATTR_TO_APPLY) : NULL;
        for (uint32_t p = 0; a && a->comp.i == instr_at(m, parameter)->comp.i && p < c->nparams; p++)
            if (c->params[p].i == parameter.i)
                return i->operands[p];
    }
    return parameter;
}

static void compare(struct input *in, const cJSON *item)
{
    const struct graph *g = in->result->graph;
    instr_id i = find(in, item->string);
    if (!i.i) {
        in->total++;
        differs(in, item->string, "no such instruction", "one");
        return;
    }
    if (g->removed[i.i] == REMOVED_INLINED && instr_at(in->module, i)->op == OP_PARAMETER)
        i = passed_for(in, i);
    uint32_t n = g->start[i.i + 1] - g->start[i.i];
    if (n == 0) {
        in->total++;
        differs(in, item->string, "removed", cJSON_IsString(item) ? item->valuestring : "none or several");
        return;
    }
    if (cJSON_IsArray(item)) {
        compare_sites(in, item->string, i, item);
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        compare_one(in, item->string, in->result->final[g->list[g->start[i.i] + k].i], item);
}

static bool run_input(struct input *in)
{
    const char *hlo = existing(&in->arena, in->folder, in->name, ".hlo");
    double t = now_ms();
    in->module = hlo ? module_load(in->ir, hlo, NULL, in->diag) : NULL;
    in->load_ms = now_ms() - t;
    if (!in->module)
        return false;
    struct propagation_options o = { .spmd = true,
                                     .nto_output = in->module->nto_output,
                                     .to_output = in->module->to_output,
                                     .nto_parameters = in->module->nto_parameters,
                                     .to_parameters = in->module->to_parameters };
    t = now_ms();
    struct graph *g = graph_prepare(in->module, true, NULL, in->diag);
    in->result = g ? propagate(g, &o, NULL, in->diag) : NULL;
    in->pass_ms = now_ms() - t;
    return in->result != NULL;
}

static void split(struct input *in)
{
    struct partition_options o;
    partition_options_default(&o);
    o.num_partitions = in->module->num_partitions ? in->module->num_partitions : 1;
    o.replica_count = in->module->replica_count;
    o.full = false;
    double t = now_ms();
    struct program *p = partition(in->result, &o, NULL, in->diag);
    in->bytes = -1;
    if (p) {
        struct collective *list;
        in->collectives = collectives_list(p->module, o.num_partitions, 1, &in->arena, &list, &in->bytes);
        for (int64_t k = 0; k < p->nremats; k++)
            in->fallbacks += p->remats[k].fallback;
    }
    in->split_ms = now_ms() - t;
    program_free(p);
}

static cJSON *answers(struct input *in)
{
    const char *path = existing(&in->arena, in->folder, in->name, ".xla.json");
    struct source *src;
    if (!path || !file_read(path, &src, in->diag))
        return NULL;
    cJSON *json = cJSON_ParseWithLength(src->text, src->len);
    source_free(src);
    return json;
}

static void one_input(const char *folder, const char *name, struct conformance *c, int64_t *agree,
                      int64_t *total)
{
    struct input in = { .folder = folder, .name = name, .verbose = c->verbose };
    in.ir = ir_new();
    in.diag = diag_new();
    cJSON *json = answers(&in);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "shardings"), *item;
    if (!cJSON_IsObject(list)) {
        printf("%-36s skipped: no answers\n", name);
        c->skipped++;
    } else if (!run_input(&in)) {
        printf("%-36s FAILED: %s\n", name, in.diag->msgs.n ? in.diag->msgs.v[0].text : "?");
        c->failed++;
    } else {
        names_index(&in);
        cJSON_ArrayForEach(item, list)
            compare(&in, item);
        split(&in);
        const cJSON *theirs = cJSON_GetObjectItemCaseSensitive(json, "collective_bytes");
        const cJSON *them = cJSON_GetObjectItemCaseSensitive(json, "collectives");
        bool known = cJSON_IsNumber(theirs) && cJSON_IsArray(them);
        int64_t xla = known ? (int64_t)theirs->valuedouble : -1;
        const char *word = !known ? "" : in.bytes == xla ? "=" : in.bytes < xla ? "fewer" : "MORE";
        printf("%-34s %6" PRId64 "/%6" PRId64 " shardings  %14" PRId64 "/%14" PRId64 " bytes %-5s %5" PRId64 "/%5d collectives  %2" PRId64 " fall-backs"
               "  pass %6.1f ms  partition %6.1f ms\n",
               name, in.agree, in.total, in.bytes, xla, word, in.collectives, known ? cJSON_GetArraySize(them) : -1,
               in.fallbacks, in.pass_ms, in.split_ms);
        if (in.agree != in.total)
            conformance_fail(c, name, NULL, "other shardings");
        else if (known && (in.bytes < 0 || in.bytes > xla))
            conformance_fail(c, name, NULL, in.bytes < 0 ? "not partitionable" : "more bytes than XLA's program");
        else
            conformance_pass(c, name);
    }
    *agree += in.agree;
    *total += in.total;
    cJSON_Delete(json);
    propagation_free(in.result);
    module_free(in.module);
    ir_free(in.ir);
    diag_free(in.diag);
    arena_free(&in.arena);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void conformance_inputs(const char *folder, const char *only, struct conformance *c)
{
    struct arena a = { 0 };
    VEC(const char *) names = { 0 };
    DIR *dir = opendir(folder);
    int64_t agree = 0, total = 0;
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        const char *ending = strstr(e->d_name, ".xla.json");
        if (ending && (!only || strstr(e->d_name, only)))
            vec_push(&a, &names, arena_strndup(&a, e->d_name, (size_t)(ending - e->d_name)));
    }
    (void)closedir(dir);
    if (names.n)
        qsort(names.v, (size_t)names.n, sizeof *names.v, by_text);
    for (int64_t k = 0; k < names.n; k++)
        one_input(folder, names.v[k], c, &agree, &total);
    if (names.n)
        printf("%-36s %7" PRId64 " / %7" PRId64 "\n", "shardings in all", agree, total);
    arena_free(&a);
}
