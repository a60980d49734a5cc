/* numbers: the partitioned program on emulated devices against one device and against right values;
 * the inputs by the rule of the cases' README, computed here. */
#include "conformance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case.h"
#include "emulate/emulate.h"
#include "text/text.h"

/* The leaves of all entry parameters, or of the result. */
struct leaves {
    int64_t n;
    shape_id *shape;
};

struct boundary {
    struct ir *ir;
    struct leaves in, out;
};

struct arrays {
    int64_t n;
    struct tensor *v;
};

/* ---- elements ------------------------------------------------------------------------------------------- */

static enum dtype part_of(enum dtype t)
{
    return dtype_bytes(t) == 8 ? DTYPE_F32 : DTYPE_F64;
}

/* An element from integers: v, and w where it is complex. */
static void store(enum dtype t, int64_t v, int64_t w, char *p)
{
    enum dtype_kind kind = dtype_kind(t);
    size_t n = (size_t)dtype_bytes(t);
    if (kind == DTYPE_KIND_FLOAT) {
        float_store(t, (double)v, p);
    } else if (kind == DTYPE_KIND_COMPLEX) {
        float_store(part_of(t), (double)v, p);
        float_store(part_of(t), (double)w, p + n / 2);
    } else {
        memcpy(p, &v, n); /* little-endian, as every machine that we run on */
    }
}

static double number(const cJSON *x)
{
    const char *s = string_of(x);
    if (cJSON_IsBool(x))
        return cJSON_IsTrue(x);
    return s ? strtod(s, NULL) : x ? x->valuedouble : (double)NAN;
}

/* An element as a case writes it: 1.5, "nan", [re, im], "9007199254740993". */
static void store_json(enum dtype t, const cJSON *x, char *p)
{
    enum dtype_kind kind = dtype_kind(t);
    if (kind == DTYPE_KIND_FLOAT) {
        float_store(t, number(x), p);
    } else if (kind == DTYPE_KIND_COMPLEX) {
        bool pair = cJSON_IsArray(x);
        float_store(part_of(t), number(pair ? cJSON_GetArrayItem(x, 0) : x), p);
        float_store(part_of(t), pair ? number(cJSON_GetArrayItem(x, 1)) : 0, p + dtype_bytes(t) / 2);
    } else {
        const char *s = string_of(x);
        int64_t v = s ? (s[0] == '-' ? strtoll(s, NULL, 10) : (int64_t)strtoull(s, NULL, 10)) : (int64_t)number(x);
        store(t, v, 0, p);
    }
}

/* What store takes: parts of an element as doubles. */
static void load(enum dtype t, const char *p, double part[2])
{
    enum dtype_kind kind = dtype_kind(t);
    part[1] = 0;
    if (kind == DTYPE_KIND_FLOAT) {
        part[0] = float_load(t, p);
    } else if (kind == DTYPE_KIND_COMPLEX) {
        part[0] = float_load(part_of(t), p);
        part[1] = float_load(part_of(t), p + dtype_bytes(t) / 2);
    } else {
        int64_t v = 0;
        size_t n = (size_t)dtype_bytes(t);
        memcpy(&v, p, n);
        if (kind == DTYPE_KIND_SIGNED && n < sizeof v)
            v = (int64_t)((uint64_t)v << (64 - 8 * n)) >> (64 - 8 * n);
        part[0] = kind == DTYPE_KIND_UNSIGNED ? (double)(uint64_t)v : (double)v;
    }
}

static bool make(struct one_case *c, const struct shape *s, struct tensor *out)
{
    *out = (struct tensor){ .dtype = s->dtype, .rank = s->rank, .bytes = s->count * dtype_bytes(s->dtype) };
    out->dims = calloc((size_t)s->rank + 1, sizeof *out->dims);
    out->data = calloc((size_t)out->bytes + 1, 1);
    if (!out->dims || !out->data) {
        wrong(c, "no memory");
        return false;
    }
    memcpy(out->dims, s->dims, (size_t)s->rank * sizeof *out->dims);
    return true;
}

static void generate(const struct shape *s, int64_t k, struct tensor *out)
{
    enum dtype_kind kind = dtype_kind(s->dtype);
    size_t size = (size_t)dtype_bytes(s->dtype);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t v = (7 * i + 13 * k + 3) % 17, w = (5 * i + 11 * k + 2) % 13 - 6;
        if (kind == DTYPE_KIND_PRED)
            v = v % 3 == 0;
        else if (kind != DTYPE_KIND_UNSIGNED)
            v -= 8;
        store(s->dtype, v, w, (char *)out->data + (size_t)i * size);
    }
}

static bool fill(struct one_case *c, const struct shape *s, const cJSON *values, struct tensor *out)
{
    const cJSON *e;
    int64_t i = 0;
    if (cJSON_GetArraySize(values) != s->count) {
        wrong(c, "%d values for %" PRId64 " elements", cJSON_GetArraySize(values), s->count);
        return false;
    }
    cJSON_ArrayForEach(e, values)
        store_json(s->dtype, e, (char *)out->data + (size_t)i++ * (size_t)dtype_bytes(s->dtype));
    return true;
}

/* ---- comparing --------------------------------------------------------------------------------------------- */

static bool same_part(double a, double b, bool signed_zeros)
{
    return (isnan(a) && isnan(b)) || (a == b && (!signed_zeros || signbit(a) == signbit(b)));
}

static bool near_part(double a, double b, double tolerance)
{
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tolerance * fmax(1, fabs(b));
}

static bool equal_at(const struct tensor *a, const struct tensor *b, int64_t i, double tolerance, bool signed_zeros)
{
    size_t n = (size_t)dtype_bytes(a->dtype);
    const char *p = (const char *)a->data + (size_t)i * n, *q = (const char *)b->data + (size_t)i * n;
    enum dtype_kind kind = dtype_kind(a->dtype);
    double x[2], y[2];
    if (tolerance == 0 && kind != DTYPE_KIND_FLOAT && kind != DTYPE_KIND_COMPLEX)
        return memcmp(p, q, n) == 0;
    load(a->dtype, p, x);
    load(b->dtype, q, y);
    if (tolerance == 0)
        return same_part(x[0], y[0], signed_zeros) && same_part(x[1], y[1], signed_zeros);
    if (kind == DTYPE_KIND_COMPLEX)
        return hypot(x[0] - y[0], x[1] - y[1]) <= tolerance * fmax(1, hypot(y[0], y[1])) ||
               (same_part(x[0], y[0], false) && same_part(x[1], y[1], false));
    return near_part(x[0], y[0], tolerance);
}

static const char *element(struct one_case *c, const struct tensor *t, int64_t i)
{
    double part[2];
    load(t->dtype, (const char *)t->data + (size_t)i * (size_t)dtype_bytes(t->dtype), part);
    if (dtype_kind(t->dtype) == DTYPE_KIND_COMPLEX)
        return arena_printf(&c->arena, "[%g, %g]", part[0], part[1]);
    return arena_printf(&c->arena, "%.9g", part[0]);
}

static void compare(struct one_case *c, const char *whose, const char *against, int64_t k, const struct tensor *ours,
                    const struct tensor *wanted, double tolerance, bool signed_zeros)
{
    bool same = ours->rank == wanted->rank && ours->dtype == wanted->dtype;
    int64_t n = 1, differ = 0, first = -1;
    for (int d = 0; same && d < ours->rank; d++) {
        same = ours->dims[d] == wanted->dims[d];
        n *= ours->dims[d];
    }
    if (!same) {
        wrong(c, "%s against %s, output %" PRId64 ": another shape or type", whose, against, k);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (equal_at(ours, wanted, i, tolerance, signed_zeros))
            continue;
        first = first < 0 ? i : first;
        differ++;
    }
    if (differ)
        wrong(c, "%s against %s, output %" PRId64 " at element %" PRId64 ": %s, not %s (%" PRId64 " of %" PRId64 " differ)",
              whose, against, k, first, element(c, ours, first), element(c, wanted, first), differ, n);
}

static void compare_all(struct one_case *c, const char *whose, const char *against, const struct arrays *a,
                        const struct arrays *b, double tolerance, bool signed_zeros)
{
    for (int64_t k = 0; k < a->n && k < b->n; k++)
        compare(c, whose, against, k, &a->v[k], &b->v[k], tolerance, signed_zeros);
}

static void arrays_free(struct arrays *a)
{
    for (int64_t k = 0; k < a->n; k++)
        tensor_free(&a->v[k]);
    a->n = 0;
}

/* ---- running ----------------------------------------------------------------------------------------------- */

static void add_leaves(struct one_case *c, struct ir *ir, shape_id s, struct leaves *l)
{
    int64_t n = shape_get(ir, s)->nleaves;
    shape_id *more = ARENA_ARRAY(&c->arena, shape_id, l->n + n + 1);
    if (l->n)
        memcpy(more, l->shape, (size_t)l->n * sizeof *more);
    for (int64_t k = 0; k < n; k++)
        more[l->n + k] = shape_leaf(ir, s, k);
    l->shape = more;
    l->n += n;
}

static bool find_boundary(struct one_case *c, struct boundary *b)
{
    struct diag *d = diag_new();
    struct module *m = module_load(b->ir, c->model, NULL, d);
    if (!m)
        wrong(c, "not read: %s", d->msgs.n ? d->msgs.v[0].text : "nothing said");
    const struct computation *entry = m ? comp_at(m, m->entry) : NULL;
    for (uint32_t k = 0; entry && k < entry->nparams; k++)
        add_leaves(c, b->ir, instr_at(m, entry->params[k])->shape, &b->in);
    if (entry)
        add_leaves(c, b->ir, instr_at(m, entry->root)->shape, &b->out);
    bool ok = m != NULL;
    module_free(m);
    diag_free(d);
    return ok;
}

static bool write_inputs(struct one_case *c, const struct boundary *b, const char *folder)
{
    const cJSON *given = at(c->json, "inputs");
    if (mkdir(folder, 0777) != 0) {
        wrong(c, "%s cannot be made", folder);
        return false;
    }
    for (int64_t k = 0; k < b->in.n; k++) {
        char key[24];
        struct tensor t;
        const struct shape *s = shape_get(b->ir, b->in.shape[k]);
        (void)snprintf(key, sizeof key, "%" PRId64, k);
        if (s->kind != SHAPE_ARRAY)
            continue;
        if (!make(c, s, &t))
            return false;
        const cJSON *values = at(given, key);
        bool ok = !values || fill(c, s, values, &t);
        if (!values)
            generate(s, k, &t);
        ok = ok && npy_write(arena_printf(&c->arena, "%s/%s.npy", folder, key), &t, NULL);
        tensor_free(&t);
        if (!ok) {
            wrong(c, "input %s cannot be written", key);
            return false;
        }
    }
    return true;
}

static bool read_outputs(struct one_case *c, const char *whose, const struct boundary *b, const char *folder,
                         const struct answer *answer, struct arrays *out)
{
    out->v = ARENA_ARRAY(&c->arena, struct tensor, b->out.n + 1);
    for (int64_t k = 0; k < b->out.n; k++) {
        const struct shape *s = shape_get(b->ir, b->out.shape[k]);
        const char *path = arena_printf(&c->arena, "%s/%" PRId64 ".npy", folder, k);
        struct diag *d = diag_new();
        bool ok = s->kind == SHAPE_ARRAY && npy_read(path, s->dtype, s->rank, s->dims, &out->v[k], d);
        if (!ok && answer->status)
            wrong(c, "%s: %s", whose, failure(c, answer));
        else if (!ok)
            wrong(c, "%s: output %" PRId64 ": %s", whose, k, d->msgs.n ? d->msgs.v[0].text : "no array");
        diag_free(d);
        if (!ok)
            return false;
        out->n++;
    }
    return true;
}

static bool run(struct one_case *c, const char *whose, const struct boundary *b, const char *inputs, bool one,
                struct arrays *out)
{
    const char *folder = in_folder(c, one ? "one" : "many");
    const struct answer *a =
        ask(c, c->model, AS_JSON, "run inputs=%s outputs=%s%s", inputs, folder, one ? " devices=1" : "");
    if (!read_outputs(c, whose, b, folder, a, out)) {
        arrays_free(out);
        return false;
    }
    const cJSON *said = answer_to(a, "run");
    if (!one && field_true(at(c->expect, "numbers"), "replicas_equal") && !field_true(said, "replicas_equal"))
        wrong(c, "copies of one piece differ");
    return true;
}

/* The values that the case gives. */
static bool expected(struct one_case *c, const struct boundary *b, const cJSON *outputs, struct arrays *out)
{
    const cJSON *e;
    if (cJSON_GetArraySize(outputs) != b->out.n) {
        wrong(c, "%" PRId64 " outputs, not %d", b->out.n, cJSON_GetArraySize(outputs));
        return false;
    }
    out->v = ARENA_ARRAY(&c->arena, struct tensor, b->out.n + 1);
    cJSON_ArrayForEach(e, outputs)
    {
        const struct shape *s = shape_get(b->ir, b->out.shape[out->n]);
        const cJSON *dims = at(e, "shape");
        bool same = s->kind == SHAPE_ARRAY && cJSON_GetArraySize(dims) == s->rank;
        for (int k = 0; same && k < s->rank; k++)
            same = (int64_t)cJSON_GetArrayItem(dims, k)->valuedouble == s->dims[k];
        if (!same) {
            wrong(c, "output %" PRId64 " is of another shape", out->n);
            return false;
        }
        if (!make(c, s, &out->v[out->n]))
            return false;
        if (!fill(c, s, at(e, "values"), &out->v[out->n++]))
            return false;
    }
    return true;
}

static void judge_numbers(struct one_case *c, const struct boundary *b, const cJSON *wanted)
{
    struct arrays many = { 0 }, one = { 0 }, right = { 0 };
    const char *inputs = in_folder(c, "in");
    double tolerance = number(at(wanted, "tolerance"));
    const cJSON *outputs = at(wanted, "outputs");
    bool with_one = strcmp(field_text(wanted, "compare"), "unpartitioned") == 0;
    if (!with_one && strcmp(field_text(wanted, "compare"), "values") != 0)
        wrong(c, "unknown value of compare");
    if (write_inputs(c, b, inputs)) {
        bool ran = run(c, "partitioned", b, inputs, false, &many);
        bool ran_one = with_one && run(c, "one device", b, inputs, true, &one);
        bool given = outputs && expected(c, b, outputs, &right);
        /* A sum over devices makes -0 + 0 = 0 where it only moves values. */
        if (ran && given)
            compare_all(c, "partitioned", "expected", &many, &right, tolerance, false);
        if (ran_one && given)
            compare_all(c, "one device", "expected", &one, &right, tolerance, true);
        if (ran && ran_one)
            compare_all(c, "partitioned", "one device", &many, &one, tolerance, false);
    }
    arrays_free(&many);
    arrays_free(&one);
    arrays_free(&right);
}

void check_numbers(struct one_case *c, const cJSON *wanted)
{
    if (!known_fields(c, wanted, "numbers", " compare tolerance replicas_equal outputs in_words "))
        return;
    struct boundary b = { .ir = ir_new() };
    if (find_boundary(c, &b))
        judge_numbers(c, &b, wanted);
    ir_free(b.ir);
}

void check_run_warns(struct one_case *c, const cJSON *wanted)
{
    const struct answer *a = ask(c, c->model, AS_JSON, "run outputs=%s", in_folder(c, "invented"));
    const char *text = warnings_of(c, a);
    const cJSON *e;
    if (a->status)
        wrong(c, "run: %s", failure(c, a));
    cJSON_ArrayForEach(e, wanted)
        if (!cJSON_IsString(e) || !has_word(text, e->valuestring, false))
            wrong(c, "run does not warn of '%s'", cJSON_IsString(e) ? e->valuestring : "?");
}
