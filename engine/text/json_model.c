/* JSON models: a few lines that a person writes, read into the same IR as a dump. The page of the
 * format is models/README.md. */
#include "text/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "text/reader.h"
#include "text/unique.h"

/* ---- messages -------------------------------------------------------------------------------- */

static const char *text_end(const struct model *j)
{
    return j->src->text + j->src->len;
}

static const char *top(const struct model *j)
{
    const char *p = j->src->text;
    while (p < text_end(j) && *p != '{')
        p++;
    return p;
}

static struct span span_at(const struct model *j, const char *key)
{
    return json_span(j->src, key ? json_member(top(j), text_end(j), key) : top(j));
}

struct span json_at(const struct model *j, const char *key)
{
    const char *p = key ? json_member(j->place, text_end(j), key) : NULL;
    return json_span(j->src, p ? p : j->place);
}

#define MODEL_FAIL(j, span, ...) ((j)->nerrors++, diag_error((j)->d, (j)->src, (span), __VA_ARGS__))

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static const char *nearest_size(const struct model *j, const char *word)
{
    const char *best = NULL;
    int least = 2;
    const cJSON *s;
    cJSON_ArrayForEach(s, j->sizes)
    {
        int e = s->string ? edit_distance(word, s->string, 2) : 9;
        if (e < least) {
            least = e;
            best = s->string;
        }
    }
    return best;
}

/* f32[B,2,D]: named sizes are put in before the shape is read as HLO writes it. */
static bool expand_sizes(struct model *j, const char *text, struct span at, struct str *out)
{
    const char *p = strchr(text, '[');
    if (!p)
        return MODEL_FAIL(j, at, "expected a shape, like \"f32[8,16]\", not \"%.60s\"", text);
    str_add(out, text, (size_t)(p - text));
    while (*p) {
        if (!is_letter(*p)) {
            str_addc(out, *p++);
            continue;
        }
        const char *from = p;
        while (is_letter(*p) || (*p >= '0' && *p <= '9'))
            p++;
        const char *word = arena_strndup(&j->tmp, from, (size_t)(p - from));
        const cJSON *s = j->sizes ? cJSON_GetObjectItemCaseSensitive(j->sizes, word) : NULL;
        if (!s) {
            MODEL_FAIL(j, at, "the size '%.60s' is not among \"sizes\"", word);
            const char *near = nearest_size(j, word);
            if (near)
                diag_hint(j->d, "did you mean '%s'?", near);
            return false;
        }
        str_addi(out, (int64_t)s->valuedouble);
    }
    return true;
}

bool json_shape(struct model *j, const cJSON *text, struct span at, shape_id *out)
{
    if (!cJSON_IsString(text))
        return MODEL_FAIL(j, at, "expected a shape in quotes, like \"f32[8,16]\"");
    struct str s = STR_IN(&j->tmp);
    if (!expand_sizes(j, text->valuestring, at, &s))
        return false;
    size_t used;
    struct diag *d = diag_new();
    bool ok = shape_parse(j->c, NULL, 0, str_text(&s), s.n, &used, out, d) && used == s.n;
    if (!ok) {
        const char *why = d->msgs.n ? d->msgs.v[0].text : "unexpected text behind the shape";
        MODEL_FAIL(j, at, "%s", why);
        if (d->msgs.n && d->msgs.v[0].hint)
            diag_hint(j->d, "%s", d->msgs.v[0].hint);
    }
    diag_free(d);
    if (ok && shape_get(j->c, *out)->kind != SHAPE_ARRAY)
        return MODEL_FAIL(j, at, "a tensor of a JSON model is an array, like f32[8,16]");
    if (ok && shape_get(j->c, *out)->rank > JSON_MAX_RANK)
        return MODEL_FAIL(j, at, "more than %d dimensions", JSON_MAX_RANK);
    return ok;
}

static bool check_sizes(struct model *j)
{
    const cJSON *s;
    j->sizes = cJSON_GetObjectItemCaseSensitive(j->root, "sizes");
    if (!j->sizes)
        return true;
    if (!cJSON_IsObject(j->sizes))
        return MODEL_FAIL(j, span_at(j, "sizes"), "\"sizes\" is an object, like {\"B\": 64}");
    const char *p = json_member(top(j), text_end(j), "sizes");
    cJSON_ArrayForEach(s, j->sizes)
    {
        struct span at = json_span(j->src, json_member(p, text_end(j), s->string));
        if (!cJSON_IsNumber(s) || s->valuedouble < 0 || s->valuedouble != floor(s->valuedouble) ||
            s->valuedouble > 9007199254740992.0)
            return MODEL_FAIL(j, at, "the size '%.60s' must be a whole number", s->string);
    }
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* What HLO text can carry as a name. */
static bool good_name(const char *s)
{
    if (!is_letter(*s))
        return false;
    for (; *s; s++)
        if (!is_letter(*s) && !(*s >= '0' && *s <= '9') && *s != '.' && *s != '-')
            return false;
    return true;
}

static bool define(struct model *j, const char *name, struct span at, instr_id id)
{
    if (!good_name(name))
        return MODEL_FAIL(
            j, at, "'%.60s' is no name: a letter, then letters, digits, '_', '.', '-'", name);
    if (dtype_find(name, strlen(name)) != DTYPE_NONE || strcmp(name, "token") == 0 ||
        strcmp(name, "opaque") == 0 || strcmp(name, "tuple") == 0) {
        MODEL_FAIL(j, at, "'%s' is the name of a type: XLA could not read the module's HLO text",
                   name);
        diag_hint(j->d, "call it '%s_'", name);
        return false;
    }
    name_id n = name_put(j->c, name, strlen(name));
    uint64_t before;
    if (map_get(&j->values, n.i, &before))
        return MODEL_FAIL(j, at, "'%.60s' is defined twice", name);
    map_put(&j->values, n.i, id.i);
    struct instr *i = instr_at(j->m, id);
    i->name = n;
    i->at = at;
    return true;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static bool put_sharding(struct model *j, const cJSON *text, struct span at, instr_id id)
{
    if (!text)
        return true;
    if (!cJSON_IsString(text))
        return MODEL_FAIL(j, at, "a sharding is a text, like \"{devices=[2,4]<=[8]}\"");
    sharding_id s;
    size_t used, n = strlen(text->valuestring);
    const char *kept = arena_strndup(&j->m->arena, text->valuestring, n);
    struct diag *d = diag_new();
    bool ok = sharding_parse(j->c->shardings, &j->m->arena, NULL, 0, kept, n, &used, &s, NULL, d) &&
              used == n;
    if (!ok)
        MODEL_FAIL(j, at, "%s",
                   d->msgs.n ? d->msgs.v[0].text : "unexpected text behind the sharding");
    else
        instr_at(j->m, id)->sharding = s;
    diag_free(d);
    return ok;
}

/* A parameter is a shape, or an object with shape and sharding. */
static bool read_param(struct model *j, const cJSON *p, const char *at, int64_t k)
{
    const cJSON *shape = cJSON_IsObject(p) ? cJSON_GetObjectItemCaseSensitive(p, "shape") : p;
    const char *where = cJSON_IsObject(p) ? json_member(at, text_end(j), "shape") : at;
    shape_id s;
    if (!json_shape(j, shape, json_span(j->src, where ? where : at), &s))
        return false;
    struct attr number = attr_int(ATTR_INDEX, k);
    instr_id id = instr_new(j->m, j->entry, OP_PARAMETER, s, 0, NULL, 1, &number);
    if (!define(j, p->string, json_span(j->src, at), id))
        return false;
    if (!cJSON_IsObject(p))
        return true;
    const cJSON *sharding = cJSON_GetObjectItemCaseSensitive(p, "sharding");
    return put_sharding(j, sharding, json_span(j->src, json_member(at, text_end(j), "sharding")),
                        id);
}

static void read_params(struct model *j)
{
    const cJSON *params = cJSON_GetObjectItemCaseSensitive(j->root, "params"), *p;
    if (!cJSON_IsObject(params)) {
        MODEL_FAIL(j, span_at(j, params ? "params" : NULL),
                   "a model needs \"params\", like {\"x\": \"f32[8,16]\"}");
        return;
    }
    const char *at = json_member(top(j), text_end(j), "params");
    int64_t k = 0;
    cJSON_ArrayForEach(p, params)
    {
        const char *q = json_member(at, text_end(j), p->string);
        (void)read_param(j, p, q ? q : at, k++);
    }
}

/* ---- operations ------------------------------------------------------------------------------ */

int json_nargs(const struct model *j)
{
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j->op, "args"));
}

static const char *arg_place(const struct model *j, int k)
{
    const char *args = json_member(j->place, text_end(j), "args");
    const char *p = json_element(args, text_end(j), k);
    return p ? p : j->place;
}

static const char *nearest_value(const struct model *j, const char *name)
{
    const char *best = NULL;
    int least = 3;
    for (uint32_t i = 1; i <= module_ninstrs(j->m); i++) {
        const struct instr *in = instr_at(j->m, (instr_id){ i });
        if (in->comp.i != j->entry.i)
            continue;
        const char *t = name_text(j->c, in->name);
        int e = edit_distance(name, t, 3);
        if (e < least && *t) {
            least = e;
            best = t;
        }
    }
    return best;
}

/* A number among the arguments is a constant spread over the operation's shape. */
static instr_id number_arg(struct model *j, int k, double v)
{
    enum dtype t = j->sh->dtype;
    shape_id scalar = shape_array(j->c, t, 0, NULL);
    bool whole = dtype_kind(t) == DTYPE_KIND_SIGNED || dtype_kind(t) == DTYPE_KIND_UNSIGNED ||
                 dtype_kind(t) == DTYPE_KIND_PRED;
    instr_id c =
        json_emit(j, arena_printf(&j->tmp, "const%d", k), OP_CONSTANT, scalar, 0, NULL, 0, NULL);
    instr_at(j->m, c)->literal =
        whole ? literal_scalar_i(j->m, t, (int64_t)v) : literal_scalar_f(j->m, t, v);
    if (j->sh->rank == 0)
        return c;
    return json_broadcast(j, arena_printf(&j->tmp, "fill%d", k), c, 0, NULL, j->shape);
}

bool json_arg(struct model *j, int k, instr_id *out)
{
    const cJSON *a = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(j->op, "args"), k);
    struct span at = json_span(j->src, arg_place(j, k));
    if (cJSON_IsNumber(a)) {
        *out = number_arg(j, k, a->valuedouble);
        return true;
    }
    if (!cJSON_IsString(a))
        return MODEL_FAIL(j, at, "an argument is the name of a tensor, or a number");
    const char *name = a->valuestring;
    uint32_t n = intern_find(&j->c->names, name, strlen(name));
    uint64_t id;
    if (n && map_get(&j->values, n, &id)) {
        out->i = (uint32_t)id;
        return true;
    }
    MODEL_FAIL(j, at, "no tensor is called '%.60s' up to here", name);
    const char *near = nearest_value(j, name);
    if (near)
        diag_hint(j->d, "did you mean '%s'?", near);
    return false;
}

instr_id json_emit(struct model *j, const char *part, enum op_kind op, shape_id shape, int n,
                   const instr_id *operands, int nattrs, const struct attr *attrs)
{
    instr_id id = instr_new(j->m, j->entry, op, shape, n, operands, nattrs, attrs);
    struct instr *i = instr_at(j->m, id);
    i->at = j->at;
    if (!part)
        return id; /* named by its tensor, when the operation is complete */
    const char *name = arena_printf(&j->tmp, "%s.%s", j->name, part);
    i->name = name_put(j->c, name, strlen(name));
    for (uint64_t taken; map_get(&j->values, i->name.i, &taken);) {
        name = arena_printf(&j->tmp, "%s_", name);
        i->name = name_put(j->c, name, strlen(name));
    }
    map_put(&j->values, i->name.i, id.i);
    return id;
}

/* einsum and the like may be a key of their own: {"name": "h", "einsum": "bd,df->bf", ..}. */
static bool op_kind_of(struct model *j)
{
    const cJSON *op = cJSON_GetObjectItemCaseSensitive(j->op, "op");
    if (cJSON_IsString(op)) {
        j->kind = op->valuestring;
        return true;
    }
    if (cJSON_GetObjectItemCaseSensitive(j->op, "einsum")) {
        j->kind = "einsum";
        return true;
    }
    return OP_FAIL(j, NULL, "an operation needs \"op\", or \"einsum\"");
}

static bool begin_op(struct model *j, const cJSON *op, const char *place)
{
    j->op = op;
    j->place = place;
    j->name = NULL;
    if (!cJSON_IsObject(op))
        return OP_FAIL(j, NULL,
                       "an operation is an object, like {\"name\": \"y\", \"op\": \"add\", "
                       "\"args\": [\"a\", \"b\"], \"shape\": \"f32[8]\"}");
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(op, "name");
    if (!cJSON_IsString(name))
        return OP_FAIL(j, name ? "name" : NULL, "an operation needs \"name\"");
    j->name = name->valuestring;
    j->at = json_at(j, "name");
    if (!op_kind_of(j))
        return false;
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(op, "shape");
    if (!shape)
        return OP_FAIL(j, NULL, "'%.60s' needs \"shape\": every shape is given in the file",
                       j->name);
    if (!json_shape(j, shape, json_at(j, "shape"), &j->shape))
        return false;
    j->sh = shape_get(j->c, j->shape);
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(op, "args");
    return !args || cJSON_IsArray(args) || OP_FAIL(j, "args", "\"args\" is a list");
}

/* The last instruction that an operation made is the tensor. Its parts are recorded too, so a later
 * tensor cannot take their names. */
static bool finish_op(struct model *j)
{
    instr_id last = comp_at(j->m, j->entry)->last;
    if (!define(j, j->name, j->at, last))
        return false;
    return put_sharding(j, cJSON_GetObjectItemCaseSensitive(j->op, "sharding"),
                        json_at(j, "sharding"), last);
}

static void one_op(struct model *j, const cJSON *op, const char *place)
{
    if (begin_op(j, op, place) && json_op(j)) {
        (void)finish_op(j);
        return;
    }
    /* The name counts as defined, or its users would be reported as well. */
    instr_id last = comp_at(j->m, j->entry)->last;
    if (j->name && good_name(j->name) && last.i)
        map_put(&j->values, name_put(j->c, j->name, strlen(j->name)).i, last.i);
}

static void read_ops(struct model *j)
{
    const cJSON *ops = cJSON_GetObjectItemCaseSensitive(j->root, "ops"), *op;
    if (!cJSON_IsArray(ops)) {
        MODEL_FAIL(j, span_at(j, ops ? "ops" : NULL), "a model needs \"ops\", a list");
        return;
    }
    const char *at = json_element(json_member(top(j), text_end(j), "ops"), text_end(j), 0);
    cJSON_ArrayForEach(op, ops)
    {
        one_op(j, op, at ? at : top(j));
        at = at ? json_next(at, text_end(j)) : NULL;
    }
}

/* Called computations stand in front of the entry (P-53), so they are made before its first
 * instruction. */
static void make_reducers(struct model *j)
{
    const cJSON *op;
    cJSON_ArrayForEach(op, cJSON_GetObjectItemCaseSensitive(j->root, "ops"))
    {
        const cJSON *kind = cJSON_GetObjectItemCaseSensitive(op, "op");
        const cJSON *shape = cJSON_GetObjectItemCaseSensitive(op, "shape");
        const char *text = cJSON_IsString(shape) ? shape->valuestring : "";
        enum dtype t = dtype_find(text, strcspn(text, "["));
        if (t != DTYPE_NONE)
            json_reducers(j, cJSON_IsString(kind) ? kind->valuestring : "einsum", op, t);
    }
}

/* ---- outputs --------------------------------------------------------------------------------- */

static bool output(struct model *j, const cJSON *o, struct span at, instr_id *id)
{
    uint64_t v;
    if (!cJSON_IsString(o))
        return MODEL_FAIL(j, at, "an output is the name of a tensor");
    uint32_t n = intern_find(&j->c->names, o->valuestring, strlen(o->valuestring));
    if (!n || !map_get(&j->values, n, &v)) {
        MODEL_FAIL(j, at, "no tensor is called '%.60s'", o->valuestring);
        const char *near = nearest_value(j, o->valuestring);
        if (near)
            diag_hint(j->d, "did you mean '%s'?", near);
        return false;
    }
    id->i = (uint32_t)v;
    return true;
}

/* One output is the root itself, several are a tuple; without "outputs", the last tensor. */
static void read_outputs(struct model *j)
{
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(j->root, "outputs");
    int n = cJSON_GetArraySize(outputs);
    if (outputs && (!cJSON_IsArray(outputs) || n == 0)) {
        MODEL_FAIL(j, span_at(j, "outputs"), "\"outputs\" is a list of names");
        return;
    }
    const char *at = json_element(json_member(top(j), text_end(j), "outputs"), text_end(j), 0);
    instr_id *ids = ARENA_ARRAY(&j->tmp, instr_id, n);
    shape_id *shapes = ARENA_ARRAY(&j->tmp, shape_id, n);
    for (int k = 0; k < n; k++) {
        if (!output(j, cJSON_GetArrayItem(outputs, k), json_span(j->src, at), &ids[k]))
            return;
        shapes[k] = instr_at(j->m, ids[k])->shape;
        at = at ? json_next(at, text_end(j)) : NULL;
    }
    if (j->nerrors)
        return;
    instr_id root = n ? ids[0] : (instr_id){ 0 };
    if (n > 1) {
        root = instr_new(j->m, j->entry, OP_TUPLE, shape_tuple(j->c, n, shapes), n, ids, 0, NULL);
        instr_at(j->m, root)->at = span_at(j, "outputs");
        name_id name = name_put(j->c, "outputs", 7);
        uint64_t v;
        if (!map_get(&j->values, name.i, &v))
            instr_at(j->m, root)->name = name;
    }
    comp_finish(j->m, j->entry, root);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool set_flags(struct model *j)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(j->root, "num_partitions");
    if (n && (!cJSON_IsNumber(n) || n->valuedouble < 1 || n->valuedouble > 9007199254740992.0 ||
              n->valuedouble != floor(n->valuedouble)))
        return MODEL_FAIL(j, span_at(j, "num_partitions"),
                          "\"num_partitions\" is a whole number from 1 up");
    if (n)
        j->m->num_partitions = (int64_t)n->valuedouble;
    /* language.md section 5: outputs and parameters may take what propagation finds. */
    bool *yes = ARENA_ARRAY(&j->m->arena, bool, 1);
    yes[0] = true;
    j->m->nto_output = j->m->nto_parameters = 1;
    j->m->to_output = j->m->to_parameters = yes;
    return true;
}

static bool known_keys(struct model *j)
{
    static const char *const keys[] = { "model", "about",   "sizes",         "params",
                                        "ops",   "outputs", "num_partitions" };
    const cJSON *k;
    cJSON_ArrayForEach(k, j->root)
    {
        bool known = false;
        for (size_t i = 0; i < COUNTOF(keys); i++)
            known = known || strcmp(k->string, keys[i]) == 0;
        if (known)
            continue;
        MODEL_FAIL(j, span_at(j, k->string), "a model has no \"%.60s\"", k->string);
        const char *best = NULL;
        int least = 3;
        for (size_t i = 0; i < COUNTOF(keys); i++) {
            int e = edit_distance(k->string, keys[i], 3);
            if (e < least) {
                least = e;
                best = keys[i];
            }
        }
        if (best)
            diag_hint(j->d, "did you mean \"%s\"?", best);
        return false;
    }
    return true;
}

static void read_model(struct model *j)
{
    if (!cJSON_IsObject(j->root)) {
        MODEL_FAIL(j, ((struct span){ 0, 1 }), "a model is an object, { .. }");
        return;
    }
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(j->root, "model");
    if (!cJSON_IsString(name) || !good_name(name->valuestring)) {
        MODEL_FAIL(j, span_at(j, name ? "model" : NULL),
                   "a model needs \"model\", its name (letters, digits, '_', '.', '-')");
        return;
    }
    j->m->name = name_put(j->c, name->valuestring, strlen(name->valuestring));
    if (!known_keys(j) || !check_sizes(j) || !set_flags(j))
        return;
    make_reducers(j);
    j->entry = comp_new(j->m, name_put(j->c, "main", 4));
    comp_at(j->m, j->entry)->entry = true;
    j->m->entry = j->entry;
    read_params(j);
    read_ops(j);
    if (j->nerrors == 0 && comp_at(j->m, j->entry)->first.i == 0)
        MODEL_FAIL(j, span_at(j, NULL), "the model is empty");
    read_outputs(j);
}

static bool bad_syntax(struct model *j, const char *at)
{
    const char *end = text_end(j), *next = at ? at : end;
    while (next < end && strchr(" \t\r\n", *next))
        next++;
    if (next >= end) {
        at = end;
        while (at > j->src->text && strchr(" \t\r\n", at[-1]))
            at--;
        return MODEL_FAIL(j, ((struct span){ (uint32_t)(at - j->src->text), 1 }),
                          "unexpected end of file: the JSON text is not complete");
    }
    return MODEL_FAIL(j, ((struct span){ (uint32_t)(next - j->src->text), 1 }),
                      "this is no JSON: a comma, quote or bracket is missing or too many here");
}

static void read_text(struct model *j, cJSON *volatile *keep)
{
    const char *stop = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(j->src->text, j->src->len, &stop, false);
    *keep = root;
    if (!root) {
        (void)bad_syntax(j, stop);
        return;
    }
    while (stop && *stop && strchr(" \t\r\n", *stop))
        stop++;
    if (stop && stop < text_end(j)) {
        MODEL_FAIL(j, ((struct span){ (uint32_t)(stop - j->src->text), 1 }),
                   "unexpected text behind the model");
        return;
    }
    j->root = root;
    read_model(j);
}

struct module *json_model_read(struct ir *c, struct source *src, struct diag *d)
{
    struct module *m = module_of_source(c, src);
    const char *former = diag_stage(d, "parse");
    cJSON *volatile root = NULL;
    struct fail_frame f;
    /* cJSON's tree and the module are not in arenas: they are freed on the way of a failure too. */
    if (!FAIL_ENTER(&f)) {
        cJSON_Delete(root);
        module_free(m);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    struct model j = { .c = c, .m = m, .src = src, .d = d };
    arena_open(&j.tmp);
    map_init(&j.values, &j.tmp);
    map_init(&j.reducers, &j.tmp);
    read_text(&j, &root);
    bool ok = j.nerrors == 0;
    arena_close(&j.tmp);
    if (ok)
        names_make_unique(m);
    fail_leave(&f);
    cJSON_Delete(root);
    diag_stage(d, former);
    if (ok)
        return m;
    module_free(m);
    return NULL;
}
