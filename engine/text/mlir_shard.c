/* Shardings in StableHLO text: mhlo.sharding strings, and Shardy's dialect, which is put into GSPMD's
 * terms: a constraint is a Sharding call (open dimensions are its unspecified_dims), a manual
 * computation stands between SPMDFullToShardShape and SPMDShardToFullShape with its axes manual. */
#include "text/mlir.h"

#include "sharding/axes.h"

/* One sharding of Shardy: axes by dimension, and which dimensions are open. */
struct sdy {
    struct mesh *mesh;
    struct layout axes; /* data axes only */
    uint64_t open;
    bool all_open; /* says nothing: every dimension open, no axes */
    bool maximal;
    int64_t device;
    bool extra;       /* has what GSPMD cannot say: priorities, a sum that is still owed */
    const char *list; /* [..], .. as read, up to the closing > */
    uint32_t nlist;
};

/* before'name'after, as an error of shardings. */
static bool shard_error(struct mlir *r, const char *at, size_t n, const char *before, const char *name,
                        size_t nname, const char *after)
{
    const char *former = diag_stage(r->d, "shard");
    MFAIL(r, at, n, "%s'%.*s'%s", before, (int)(nname < 80 ? nname : 80), name, after);
    diag_stage(r->d, former);
    return false;
}

/* ---- meshes ------------------------------------------------------------------------------------ */

static const char *blanks(const char *p, const char *end)
{
    while (p < end && mis(*p, MC_SPACE))
        p++;
    return p;
}

/* ["data"=2, "model"=4], device_ids=[..] between < and >. */
static bool parse_mesh(struct mlir *r, const char *p, const char *end, struct mesh *m)
{
    VEC(int64_t) ids = { 0 };
    int64_t devices = 1;
    while (p < end) {
        if (*p == '"') {
            const char *q = mbalanced(p, end);
            if (!q)
                return MFAIL(r, p, 1, "this quote (\") is never closed");
            const char *name = p + 1;
            size_t n = (size_t)(q - p - 2);
            p = blanks(q, end);
            int64_t size = 0;
            if (p >= end || *p != '=')
                return MFAIL(r, p, 1, "expected '=' and the axis' size");
            p = blanks(p + 1, end);
            size_t used = parse_i64(p, (size_t)(end - p), &size);
            if (!used || size <= 0)
                return MFAIL(r, p, 1, "an axis' size must be a positive number");
            p += used;
            if (m->naxes == MESH_MAX_AXES)
                return MFAIL(r, name, n, "more than %d axes in a mesh", MESH_MAX_AXES);
            if (mesh_find_axis(m, name, n) >= 0)
                return shard_error(r, name, n, "axis ", name, n, " is twice in this mesh");
            m->axes[m->naxes].name = arena_strndup(&r->m->arena, name, n);
            m->axes[m->naxes++].size = size;
            if (!mul_ok(devices, size, &devices))
                return MFAIL(r, name, n, "this mesh has too many devices");
        } else if (*p == 'd') { /* device_ids=[3,2,1,0] */
            while (p < end && *p != '[')
                p++;
            while (p < end && *p != ']') {
                int64_t v;
                size_t used = parse_i64(p, (size_t)(end - p), &v);
                if (used)
                    vec_push(&r->tmp, &ids, v);
                p += used ? used : 1;
            }
        } else {
            p++;
        }
    }
    if (devices > (int64_t)1 << 40)
        return MFAIL(r, p, 1, "this mesh has too many devices");
    if (ids.n && (m->naxes || ids.n > 1)) {
        if (ids.n != devices)
            return MFAIL(r, end, 1, "%" PRId64 " device ids for %" PRId64 " devices", ids.n, devices);
        bool *seen = ARENA_ARRAY(&r->tmp, bool, devices);
        for (int64_t i = 0; i < ids.n; i++) {
            if (ids.v[i] < 0 || ids.v[i] >= devices || seen[ids.v[i]])
                return MFAIL(r, end, 1, "the device ids are no permutation of 0..%" PRId64, devices - 1);
            seen[ids.v[i]] = true;
        }
        m->order = order_from_list(r->c->shardings, ids.n, ids.v);
    } else {
        m->order = order_iota(r->c->shardings, devices);
        if (ids.n)
            m->naxes = -1 - (int)ids.v[0]; /* one device: maximal */
    }
    return true;
}

static struct mesh *new_mesh(struct mlir *r)
{
    if (r->nmeshes == r->capmeshes) {
        int cap = r->capmeshes ? r->capmeshes * 2 : 16;
        struct mesh *v = ARENA_ARRAY(&r->tmp, struct mesh, cap);
        if (r->nmeshes)
            memcpy(v, r->meshes, (size_t)r->nmeshes * sizeof *v);
        r->meshes = v;
        r->capmeshes = cap;
    }
    return &r->meshes[r->nmeshes++];
}

bool mlir_mesh(struct mlir *r, const struct mop *op)
{
    const struct mattr *a = mattr2(op, "mesh", "<");
    if (!a)
        a = mattr(op, "");
    const char *name = op->sym;
    uint32_t n = op->nsym;
    if (!name && !mstring(mattr(op, "sym_name"), &name, &n))
        return MFAIL(r, op->at, op->nat, "this mesh has no name");
    if (!a || !a->val)
        return MFAIL(r, op->at, op->nat, "this mesh has no axes: expected <[\"x\"=2]>");
    struct mesh *m = new_mesh(r);
    *m = (struct mesh){ .name = arena_strndup(&r->m->arena, name, n) };
    const char *p = a->val, *end = p + a->vlen;
    if (*p == '#' && !memchr(p, '<', a->vlen)) {
        const struct malias *al = mlir_alias(r, p, 1 + mword(p + 1));
        if (al) {
            p = al->text;
            end = p + al->ntext;
        }
    }
    while (p < end && *p != '<')
        p++;
    r->saw_sdy = true;
    return parse_mesh(r, p + 1, end - 1, m);
}

static struct mesh *find_mesh(struct mlir *r, const char *name, size_t n)
{
    for (int i = 0; i < r->nmeshes; i++)
        if (mtext(name, n, r->meshes[i].name))
            return &r->meshes[i];
    return NULL;
}

/* ---- shardings --------------------------------------------------------------------------------- */

static bool parse_axis(struct mlir *r, const char **pp, const char *end, const struct mesh *m, int dim,
                       struct layout *a)
{
    const char *at = *pp, *q = mbalanced(at, end);
    if (!q)
        return MFAIL(r, at, 1, "this quote (\") is never closed");
    const char *name = at + 1;
    size_t n = (size_t)(q - at - 2);
    int k = m->naxes > 0 ? mesh_find_axis(m, name, n) : -1;
    if (k < 0)
        return shard_error(r, at, n + 2, "the mesh has no axis ", name, n, "");
    struct axis_ref ref = { k, 1, m->axes[k].size };
    if (q < end && *q == ':') { /* "x":(2)4 */
        int64_t pre, size;
        const char *s = blanks(q + 1, end);
        size_t used = s < end && *s == '(' ? parse_i64(s + 1, (size_t)(end - s - 1), &pre) : 0;
        if (!used || s[1 + used] != ')')
            return MFAIL(r, at, n + 2, "expected a part of an axis, like \"x\":(1)2");
        s += used + 2;
        used = parse_i64(s, (size_t)(end - s), &size);
        int64_t both;
        if (!used || pre <= 0 || size <= 0 || !mul_ok(pre, size, &both) || ref.size % both != 0)
            return shard_error(r, at, n + 2, "axis ", name, n, " has no such part: its size is no multiple of it");
        ref.pre = pre;
        ref.size = size;
        q = s + used;
    }
    for (int i = 0; i < a->n; i++) {
        const struct axis_ref *o = &a->refs[i];
        bool apart = o->axis != k || ref.pre % (o->pre * o->size) == 0 || o->pre % (ref.pre * ref.size) == 0;
        if (!apart)
            return shard_error(r, at, n + 2, "axis ", name, n, " is used twice in this sharding");
    }
    if (a->n == REFS_MAX)
        return MFAIL(r, at, n, "too many axes in a sharding");
    a->refs[a->n] = ref;
    a->dim[a->n++] = dim;
    *pp = q;
    return true;
}

/* {"a", "b", ?}p1 at *pp. */
static bool parse_dim(struct mlir *r, const char **pp, const char *end, struct sdy *out, int dim)
{
    const char *p = *pp + 1, *close = mbalanced(*pp, end);
    if (!close)
        return MFAIL(r, *pp, 1, "this '{' is never closed");
    while (p < close - 1) {
        if (*p == '"') {
            if (!parse_axis(r, &p, close, out->mesh, dim, &out->axes))
                return false;
        } else {
            if (*p == '?' && dim >= 0 && dim < 64)
                out->open |= (uint64_t)1 << dim;
            else if (*p != ',' && !mis(*p, MC_SPACE) && *p != '?')
                return MFAIL(r, p, 1, "expected an axis in quotes, or '?'");
            p++;
        }
    }
    p = close;
    if (p < end && *p == 'p' && mis(p[1], MC_DIGIT)) { /* a priority: GSPMD has none */
        p += mword(p);
        out->extra = true;
    }
    *pp = p;
    return true;
}

/* The mesh named or written out at *pp. */
static bool parse_mesh_ref(struct mlir *r, const char **pp, const char *end, struct sdy *out)
{
    const char *p = blanks(*pp, end);
    if (p < end && *p == '@') {
        const char *name = ++p;
        size_t n = mword(name);
        p += n;
        if (n == 0 && *name == '"') {
            const char *q = mbalanced(name, end);
            if (!q)
                return MFAIL(r, name, 1, "this quote (\") is never closed");
            n = (size_t)(q - name - 2);
            name++;
            p = q;
        }
        out->mesh = find_mesh(r, name, n);
        if (!out->mesh)
            return shard_error(r, name - 1, n + 1, "there is no mesh ", name - 1, n + 1, "");
    } else {
        const char *q = memchr(p, '<', (size_t)(end - p));
        const char *close = q ? mbalanced(q, end) : NULL;
        if (!close || strncmp(p, "mesh", 4) != 0)
            return MFAIL(r, p, 1, "expected a mesh, like @mesh");
        struct mesh *m = new_mesh(r);
        *m = (struct mesh){ .name = "" };
        if (!parse_mesh(r, q + 1, close - 1, m))
            return false;
        out->mesh = m;
        p = close;
    }
    *pp = p;
    return true;
}

/* <@mesh, [{"a"}, {?}], replicated={"b"}, unreduced={..}>, with or without #sdy.sharding. */
static bool parse_sdy(struct mlir *r, const char *p, const char *end, int rank, struct sdy *out)
{
    *out = (struct sdy){ 0 };
    r->saw_sdy = true;
    if (*p == '#' && !memchr(p, '<', (size_t)(end - p))) {
        const struct malias *a = mlir_alias(r, p, 1 + mword(p + 1));
        if (!a)
            return MFAIL(r, p, (size_t)(end - p), "'%.*s' is not defined", (int)(end - p), p);
        p = a->text;
        end = p + a->ntext;
    }
    const char *at = p;
    while (p < end && *p != '<')
        p++;
    const char *close = p < end ? mbalanced(p, end) : NULL;
    if (!close)
        return MFAIL(r, at, 1, "expected a sharding, like <@mesh, [{\"x\"}, {}]>");
    end = close - 1;
    p++;
    if (!parse_mesh_ref(r, &p, end, out))
        return false;
    if (out->mesh->naxes < 0) {
        out->maximal = true;
        out->device = -1 - out->mesh->naxes;
        return true;
    }
    r->devices = max_i64(r->devices, mesh_devices(out->mesh));
    out->axes.rank = rank;
    while (p < end && *p != '[')
        p++;
    const char *list_end = p < end ? mbalanced(p, end) : NULL;
    if (!list_end)
        return MFAIL(r, at, 1, "expected the dimensions of the sharding, like [{\"x\"}, {}]");
    out->list = p;
    out->nlist = (uint32_t)(end - p);
    p++;
    int dims = 0;
    while (p < list_end - 1) {
        if (*p == '{') {
            if (!parse_dim(r, &p, list_end, out, dims < rank ? dims : ALSO_NAMED))
                return false;
            dims++;
        } else {
            p++;
        }
    }
    if (dims != rank) {
        const char *former = diag_stage(r->d, "shard");
        MFAIL(r, at, (size_t)(close - at), "this sharding has %d dimension%s, the array %d", dims,
              dims == 1 ? "" : "s", rank);
        diag_stage(r->d, former);
        return false;
    }
    int split = out->axes.n;
    bool named = false;
    for (p = list_end; p < end;) { /* replicated={"b"}, unreduced={..} */
        if (*p == 'u' && mtext(p, mword(p), "unreduced"))
            out->extra = true;
        if (*p == '{') {
            named = true;
            if (!parse_dim(r, &p, end, out, ALSO_NAMED))
                return false;
        } else {
            p++;
        }
    }
    out->all_open = split == 0 && !named && rank > 0 && rank < 64 &&
                    out->open == ((uint64_t)1 << rank) - 1;
    out->axes.n = split; /* what is replicated needs no saying */
    return true;
}

/* ---- what GSPMD has no words for ---------------------------------------------------------------- */

static void add_mesh(struct mlir *r, const struct mesh *m, struct str *s)
{
    struct shardings *t = r->c->shardings;
    str_adds(s, "mesh<[");
    for (int i = 0; i < m->naxes; i++)
        str_addf(s, "%s\"%s\"=%" PRId64, i ? ", " : "", m->axes[i].name, m->axes[i].size);
    str_addc(s, ']');
    if (!order_is_iota(t, m->order)) {
        str_adds(s, ", device_ids=[");
        for (int64_t k = 0; k < mesh_devices(m); k++)
            str_addf(s, k ? ", %" PRId64 : "%" PRId64, order_device(t, m->order, k));
        str_addc(s, ']');
    }
    str_addc(s, '>');
}

/* The sharding with its mesh, so that the text says all of it. */
static void add_whole(struct mlir *r, const struct sdy *s, struct str *out)
{
    str_addc(out, '<');
    if (s->maximal)
        str_addf(out, "mesh<[], device_ids=[%" PRId64 "]>, []", s->device);
    else {
        add_mesh(r, s->mesh, out);
        str_adds(out, ", ");
        str_add(out, s->list, s->nlist);
    }
    str_addc(out, '>');
}

/* Priorities and axes that are not reduced yet mean nothing to GSPMD's rules. They are kept as XLA keeps
 * Shardy's own words: in the frontend attribute xla.sdy.sharding. NULL: nothing to keep. */
static struct mattr *remark(struct mlir *r, int64_t n, const struct sdy *v)
{
    bool extra = false;
    for (int64_t k = 0; k < n; k++)
        extra |= v[k].extra;
    if (!extra)
        return NULL;
    struct str s = STR_IN(&r->m->arena);
    str_adds(&s, "#sdy.sharding_per_value<[");
    for (int64_t k = 0; k < n; k++) {
        str_adds(&s, k ? ", " : "");
        add_whole(r, &v[k], &s);
    }
    str_adds(&s, "]>");
    struct mattr *a = ARENA_NEW(&r->tmp, struct mattr);
    *a = (struct mattr){ .key = "xla.sdy.sharding", .klen = 16, .val = str_text(&s), .vlen = (uint32_t)s.n };
    return a;
}

/* Axes that the manual computations around the text being read have taken. */
static void add_manual(struct mlir *r, const struct sdy *s, struct layout *a)
{
    for (int64_t i = 0; i < r->frames.n; i++) {
        const struct mop *op = r->frames.v[i].op;
        if (!op || op->kind != M_MANUAL)
            continue;
        const struct mattr *m = mattr(op, "manual_axes");
        if (!m || !m->val)
            continue;
        const char *p = m->val, *end = p + m->vlen;
        while ((p = memchr(p, '"', (size_t)(end - p)))) {
            const char *q = mbalanced(p, end);
            if (!q)
                return;
            int k = mesh_find_axis(s->mesh, p + 1, (size_t)(q - p - 2));
            bool there = false;
            for (int j = 0; j < a->n; j++)
                there |= a->refs[j].axis == k && a->dim[j] == a->rank;
            if (k >= 0 && !there && a->n < REFS_MAX) {
                /* An axis cannot split data and be manual: what the body sees is the local array. */
                int kept = 0;
                for (int j = 0; j < a->n; j++)
                    if (a->refs[j].axis != k) {
                        a->refs[kept] = a->refs[j];
                        a->dim[kept++] = a->dim[j];
                    }
                a->n = kept;
                a->refs[a->n] = (struct axis_ref){ k, 1, s->mesh->axes[k].size };
                a->dim[a->n++] = a->rank;
            }
            p = q;
        }
    }
}

static sharding_id make_sharding(struct mlir *r, const struct sdy *s, const struct layout *a)
{
    struct shardings *t = r->c->shardings;
    if (s->maximal)
        return sharding_maximal(t, s->device);
    int64_t manual = 1;
    struct layout kept = { .rank = a->rank };
    for (int i = 0; i < a->n; i++) { /* axes of size 1 split nothing */
        kept.refs[kept.n] = a->refs[i];
        kept.dim[kept.n] = a->dim[i];
        kept.n += a->refs[i].size > 1;
    }
    a = &kept;
    for (int i = 0; i < a->n; i++)
        if (a->dim[i] == a->rank)
            manual *= a->refs[i].size;
    if (manual > 1 && manual == mesh_devices(s->mesh))
        return sharding_manual(t);
    if (a->n == 0)
        return sharding_replicated(t);
    return layout_sharding(t, s->mesh, a);
}

static sharding_id to_sharding(struct mlir *r, const struct sdy *s)
{
    struct layout a = s->axes;
    if (!s->maximal)
        add_manual(r, s, &a);
    return make_sharding(r, s, &a);
}

/* ---- from attributes --------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What stands in an MLIR string: \22 is a quote, \0A the end of a line. */
static const char *unescaped(struct mlir *r, const char *p, uint32_t *n)
{
    if (!memchr(p, '\\', *n))
        return p;
    struct str s = STR_IN(&r->m->arena);
    for (uint32_t i = 0; i < *n; i++) {
        char c = p[i];
        if (c == '\\' && i + 2 < *n && hex_digit(p[i + 1]) >= 0 && hex_digit(p[i + 2]) >= 0) {
            c = (char)(hex_digit(p[i + 1]) * 16 + hex_digit(p[i + 2]));
            i += 2;
        } else if (c == '\\' && i + 1 < *n) {
            c = p[++i];
        }
        str_addc(&s, c);
    }
    *n = (uint32_t)s.n;
    return str_text(&s);
}

static bool parse_string(struct mlir *r, const struct mattr *a, shape_id shape, sharding_id *out,
                         const struct sharding_note **note)
{
    const char *text;
    uint32_t n;
    if (!mstring(a, &text, &n))
        return MFAIL(r, a->val ? a->val : a->key, 1, "expected a sharding in quotes");
    struct sharding_note *keep = ARENA_NEW(&r->m->arena, struct sharding_note);
    size_t used = 0;
    uint32_t off = (uint32_t)(text - r->base);
    text = unescaped(r, text, &n);
    if (!sharding_parse(r->c->shardings, &r->m->arena, r->src, off, text, n, &used,
                        out, keep, r->d)) {
        r->nerrors++;
        return false;
    }
    if (used != n)
        return MFAIL(r, r->base + off + used, 1, "unexpected text behind the sharding");
    const struct shape *s = shape_get(r->c, shape);
    const struct sharding *h = sharding_get(r->c->shardings, *out);
    if (s->kind == SHAPE_TUPLE && h->kind != SHARDING_TUPLE)
        *out = sharding_tuple_of(r->c->shardings, s->nleaves, *out);
    *note = keep;
    return true;
}

/* [<..>, <..>] (or #sdy.sharding_per_value<[..]>): element k's text; NULL: there is none. */
static const char *list_element(const char *p, const char *end, int64_t k, const char **stop)
{
    while (p < end && *p != '[')
        p++;
    const char *close = p < end ? mbalanced(p, end) : NULL;
    if (!close)
        return NULL;
    p++;
    for (;;) {
        while (p < close && *p != '<')
            p++;
        const char *q = p < close ? mbalanced(p, close) : NULL;
        if (!q)
            return NULL;
        if (k-- == 0) {
            *stop = q;
            return p;
        }
        p = q;
    }
}

static bool resolve_alias(const struct mlir *r, const struct mattr *a, const char **p, const char **end)
{
    *p = a->val;
    *end = a->val + a->vlen;
    if (a->val[0] != '#' || memchr(a->val, '<', a->vlen))
        return true;
    const struct malias *al = mlir_alias(r, a->val, 1 + mword(a->val + 1));
    if (!al)
        return false;
    *p = al->text;
    *end = al->text + al->ntext;
    return true;
}

static bool per_value(struct mlir *r, const struct mattr *a, shape_id shape, sharding_id *out)
{
    const struct shape *s = shape_get(r->c, shape);
    const char *p, *end;
    if (!a->val || !resolve_alias(r, a, &p, &end))
        return MFAIL(r, a->key, a->klen, "expected a sharding");
    bool list = memmem(p, (size_t)(end - p), "per_value", 9) != NULL || *p == '[';
    int64_t n = s->kind == SHAPE_TUPLE ? s->nelems : 1, said = 0;
    sharding_id *leaves = ARENA_ARRAY(&r->tmp, sharding_id, n + 1);
    struct sdy *read = ARENA_ARRAY(&r->tmp, struct sdy, n + 1);
    for (int64_t k = 0; k < n; k++) {
        const char *stop = end;
        const char *q = list ? list_element(p, end, k, &stop) : p;
        const struct shape *e = s->kind == SHAPE_TUPLE ? shape_get(r->c, s->elems[k]) : s;
        if (!q)
            return MFAIL(r, p, (size_t)(end - p), "fewer shardings than results");
        if (e->kind == SHAPE_TOKEN) {
            leaves[k] = sharding_replicated(r->c->shardings);
            continue;
        }
        struct sdy *one = &read[k];
        if (!parse_sdy(r, q, stop, e->rank, one))
            return false;
        leaves[k] = one->all_open ? sharding_unknown(r->c->shardings) : to_sharding(r, one);
        said += !one->all_open;
    }
    r->remark = remark(r, n, read);
    if (said == 0)
        return true;
    *out = s->kind == SHAPE_TUPLE ? sharding_tuple(r->c->shardings, n, leaves) : leaves[0];
    return true;
}

bool mlir_op_sharding(struct mlir *r, const struct mop *op, shape_id shape, sharding_id *out,
                      const struct sharding_note **note)
{
    const struct mattr *a = mattr(op, "mhlo.sharding");
    *note = op->note;
    *out = op->sharding;
    r->remark = NULL;
    if (out->i)
        return true;
    if (a)
        return parse_string(r, a, shape, out, note);
    a = op->kind == M_CONSTANT ? NULL : mattr(op, "sdy.sharding");
    return !a || per_value(r, a, shape, out);
}

bool mlir_dict_sharding(struct mlir *r, const char *text, uint32_t len, shape_id shape, sharding_id *out,
                        const struct sharding_note **note, bool *open)
{
    struct mattr a;
    *out = (sharding_id){ 0 };
    *note = NULL;
    *open = true;
    r->remark = NULL;
    if (!text)
        return true;
    if (mdict_find(text, len, "mhlo.sharding", &a)) {
        struct mattr says;
        *open = mdict_find(text, len, "gspmd.open", &says) && says.val && mtext(says.val, says.vlen, "true");
        return parse_string(r, &a, shape, out, note);
    }
    if (!mdict_find(text, len, "sdy.sharding", &a))
        return true;
    const struct shape *s = shape_get(r->c, shape);
    const char *p, *end;
    struct sdy one;
    if (!a.val || s->kind != SHAPE_ARRAY)
        return true;
    if (!resolve_alias(r, &a, &p, &end))
        return MFAIL(r, a.val, a.vlen, "this is not defined");
    if (!parse_sdy(r, p, end, s->rank, &one))
        return false;
    r->remark = remark(r, 1, &one);
    if (one.all_open)
        return true;
    *out = to_sharding(r, &one);
    *open = one.open != 0;
    return true;
}

/* ---- operations -------------------------------------------------------------------------------- */

/* A custom call on one value, put in front of `before` (NULL: at the end of block). */
static struct mop *call_op(struct mlir *r, struct mregion *block, struct mop *before, const struct mop *from,
                           const char *target, uint32_t operand, shape_id shape, sharding_id s,
                           const char *config, struct mattr *said)
{
    struct mop *op = ARENA_NEW(&r->tmp, struct mop);
    op->kind = M_RAW;
    op->hlo = OP_CUSTOM_CALL;
    op->name = "sdy";
    op->nname = 3;
    op->at = from->at;
    op->nat = from->nat;
    op->loc = from->loc;
    op->nloc = from->nloc;
    op->operands = ARENA_ARRAY(&r->tmp, uint32_t, 1);
    op->operands[0] = operand;
    op->noperands = 1;
    op->sharding = s;
    op->attrs = said;
    op->nattrs = said ? 1 : 0;
    struct attr *raw = ARENA_ARRAY(&r->m->arena, struct attr, 2);
    raw[0] = attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, target);
    op->nraw = 1;
    if (config) {
        raw[1] = attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, config);
        raw[1].key = ATTR_BACKEND_CONFIG;
        raw[1].type = ATTR_TYPE_RAW;
        op->nraw = 2;
    }
    op->raw = raw;
    op->nresults = 1;
    op->result = mlir_value_new(r, op, block, shape);
    op->block = block;
    op->next = before;
    op->prev = before ? before->prev : block->last;
    if (op->prev)
        op->prev->next = op;
    else
        block->first = op;
    if (before)
        before->prev = op;
    else
        block->last = op;
    return op;
}

static const char *unspecified(struct mlir *r, uint64_t open, int rank)
{
    if (!open || rank == 0)
        return NULL;
    struct str s = STR_IN(&r->m->arena);
    str_adds(&s, "\"unspecified_dims=[");
    bool first = true;
    for (int d = 0; d < rank && d < 64; d++)
        if (open >> d & 1) {
            str_addf(&s, first ? "%d" : ",%d", d);
            first = false;
        }
    str_adds(&s, "]\"");
    return str_text(&s);
}

/* v constrained; v itself where the sharding says nothing. */
static bool constrain(struct mlir *r, struct mop *before, const char *p, const char *end, uint32_t v,
                      uint32_t *out)
{
    const struct shape *s = mshape(r, v);
    struct sdy one;
    *out = v;
    if (s->kind != SHAPE_ARRAY)
        return true;
    if (!parse_sdy(r, p, end, s->rank, &one))
        return false;
    if (one.all_open || (s->rank == 0 && !one.maximal))
        return true;
    *out = call_op(r, before->block, before, before, "Sharding", v, mval(r, v)->shape, to_sharding(r, &one),
                   unspecified(r, one.open, s->rank), remark(r, 1, &one))->result;
    return true;
}

/* The explicit collectives of Shardy change the sharding of their operand, not its value. */
bool mlir_constraint(struct mlir *r, struct mop *op)
{
    const struct mattr *a = mattr2(op, "<", "sharding");
    if (!a)
        a = mattr(op, "out_sharding");
    if (op->noperands != 1 || op->nresults != 1 || !a || !a->val)
        return MFAIL(r, op->at, op->nat, "expected one operand and a sharding");
    uint32_t v;
    if (!op->block) {
        mreplace(r, op, 0, op->operands[0]);
        return true;
    }
    if (!constrain(r, op, a->val, a->val + a->vlen, op->operands[0], &v))
        return false;
    const struct mval *x = mval(r, op->result);
    if (v != op->operands[0]) {
        mval(r, v)->name = x->name;
        mval(r, v)->nname = x->nname;
    }
    mreplace(r, op, 0, v);
    return true;
}

static void unlink_op(struct mop *op)
{
    struct mregion *g = op->block;
    if (op->prev)
        op->prev->next = op->next;
    else
        g->first = op->next;
    if (op->next)
        op->next->prev = op->prev;
    else
        g->last = op->prev;
}

/* The operations of region g take the place of op, which owns it. */
static void inline_region(struct mregion *g, struct mop *op)
{
    struct mregion *block = op->block;
    for (struct mop *o = g->first; o; o = o->next)
        o->block = block;
    g->into = block;
    if (!g->first)
        return;
    g->first->prev = op->prev;
    if (op->prev)
        op->prev->next = g->first;
    else
        block->first = g->first;
    g->last->next = op;
    op->prev = g->last;
}

static bool manual_axis(const struct mop *op, const char *name)
{
    const struct mattr *m = mattr(op, "manual_axes");
    const char *p = m && m->val ? m->val : NULL, *end = p ? p + m->vlen : NULL;
    while (p && (p = memchr(p, '"', (size_t)(end - p)))) {
        const char *q = mbalanced(p, end);
        if (!q)
            return false;
        if (mtext(p + 1, (size_t)(q - p - 2), name))
            return true;
        p = q;
    }
    return false;
}

/* What a value of a manual computation is outside (full) and inside (local). */
static bool border(struct mlir *r, const struct mop *op, const struct mattr *list, int64_t k, int rank,
                   sharding_id *full, sharding_id *local, const char **config, struct mattr **said)
{
    const char *stop;
    const char *p = list && list->val ? list_element(list->val, list->val + list->vlen, k, &stop) : NULL;
    struct sdy one;
    if (!p)
        return MFAIL(r, op->at, op->nat, "this manual computation has too few shardings");
    if (!parse_sdy(r, p, stop, rank, &one))
        return false;
    *full = to_sharding(r, &one);
    *said = remark(r, 1, &one);
    struct layout in = { .rank = rank };
    bool free_axes = false;
    for (int i = 0; i < one.axes.n; i++)
        if (!manual_axis(op, one.mesh->axes[one.axes.refs[i].axis].name)) {
            in.refs[in.n] = one.axes.refs[i];
            in.dim[in.n++] = one.axes.dim[i];
        }
    for (int i = 0; i < one.mesh->naxes; i++) {
        if (!manual_axis(op, one.mesh->axes[i].name)) {
            free_axes |= one.mesh->axes[i].size > 1;
        } else if (in.n < REFS_MAX) {
            in.refs[in.n] = (struct axis_ref){ i, 1, one.mesh->axes[i].size };
            in.dim[in.n++] = rank;
        }
    }
    add_manual(r, &one, &in);
    *local = make_sharding(r, &one, &in);
    *config = free_axes ? unspecified(r, one.open, rank) : NULL;
    return true;
}

static bool manual_borders(struct mlir *r, struct mop *op, struct mregion *g, const struct mop *ret)
{
    const struct mattr *in = mattr(op, "in_shardings"), *out = mattr(op, "out_shardings");
    for (uint32_t k = 0; k < op->noperands; k++) {
        sharding_id full, local;
        const char *config;
        struct mattr *said;
        uint32_t v = op->operands[k];
        shape_id shape = mval(r, g->arg0 + k)->shape;
        const struct shape *s = shape_get(r->c, shape);
        if (s->kind != SHAPE_ARRAY) {
            mval(r, g->arg0 + k)->alias = v;
            continue;
        }
        if (!border(r, op, in, k, s->rank, &full, &local, &config, &said))
            return false;
        struct mop *first = g->first; /* in front of the body, which is inlined afterwards */
        struct mop *a = call_op(r, g, first, op, "Sharding", v, mval(r, v)->shape, full, config, said);
        struct mop *b = call_op(r, g, first, op, "SPMDFullToShardShape", a->result, shape, local, config, NULL);
        mval(r, g->arg0 + k)->alias = b->result;
    }
    inline_region(g, op);
    for (uint32_t k = 0; k < op->nresults; k++) {
        sharding_id full, local;
        const char *config;
        struct mattr *said;
        uint32_t v = ret->operands[k];
        shape_id shape = mval(r, op->result + k)->shape;
        const struct shape *s = shape_get(r->c, shape);
        if (s->kind != SHAPE_ARRAY) {
            mreplace(r, op, k, v);
            continue;
        }
        if (!border(r, op, out, k, s->rank, &full, &local, &config, &said))
            return false;
        struct mop *a = call_op(r, op->block, op, op, "Sharding", v, mval(r, v)->shape, local, config, NULL);
        struct mop *b = call_op(r, op->block, op, op, "SPMDShardToFullShape", a->result, shape, full, config, said);
        mreplace(r, op, k, b->result);
    }
    return true;
}

static bool plain_borders(struct mlir *r, struct mop *op, struct mregion *g, const struct mop *ret)
{
    const struct mattr *in = mattr(op, "in_shardings"), *out = mattr(op, "out_shardings");
    for (uint32_t k = 0; k < op->noperands; k++) {
        const char *stop;
        const char *p = in && in->val ? list_element(in->val, in->val + in->vlen, k, &stop) : NULL;
        uint32_t v = op->operands[k];
        if (p && op->kind == M_NAMED && !constrain(r, op, p, stop, v, &v))
            return false;
        mval(r, g->arg0 + k)->alias = v;
    }
    inline_region(g, op);
    for (uint32_t k = 0; k < op->nresults; k++) {
        const char *stop;
        const char *p = out && out->val ? list_element(out->val, out->val + out->vlen, k, &stop) : NULL;
        uint32_t v = ret->operands[k];
        if (p && op->kind == M_NAMED && !constrain(r, op, p, stop, v, &v))
            return false;
        mreplace(r, op, k, v);
    }
    return true;
}

bool mlir_sdy_region(struct mlir *r, struct mop *op)
{
    struct mregion *g = op->nregions == 1 ? op->regions[0] : NULL;
    struct mop *ret = g ? g->last : NULL;
    if (!g || !ret || ret->kind != M_RETURN || !op->block)
        return MFAIL(r, op->at, op->nat, "expected one region that ends with sdy.return");
    if (g->nargs != op->noperands || ret->noperands != op->nresults)
        return MFAIL(r, op->at, op->nat, "the region has %u arguments and returns %u values, the operation has "
                     "%u operands and %u results", g->nargs, ret->noperands, op->noperands, op->nresults);
    unlink_op(ret);
    const struct mattr *axes = mattr(op, "manual_axes");
    bool manual = op->kind == M_MANUAL && axes && axes->val && memchr(axes->val, '"', axes->vlen);
    bool ok = manual ? manual_borders(r, op, g, ret) : plain_borders(r, op, g, ret);
    unlink_op(op);
    return ok;
}

/* Members of a group get equal shardings: shard_as, as jax.experimental.shard_alike says it. */
bool mlir_group(struct mlir *r, struct mop *op)
{
    const struct mattr *a = mattr(op, "group_id");
    int64_t id = 0;
    if (op->noperands != 1 || !a || !mints(r, a, 1) || r->ints.n != 1)
        return MFAIL(r, op->at, op->nat, "expected one operand and group_id=N");
    id = r->ints.v[0];
    uint32_t v = op->operands[0];
    if (!op->block || mshape(r, v)->kind != SHAPE_ARRAY)
        return true;
    const char *text = arena_printf(&r->m->arena, "{unknown shard_as %" PRId64 "}", id);
    struct sharding_note *note = ARENA_NEW(&r->m->arena, struct sharding_note);
    sharding_id s;
    size_t used;
    if (!sharding_parse(r->c->shardings, &r->m->arena, r->src, (uint32_t)(op->at - r->base), text,
                        strlen(text), &used, &s, note, r->d)) {
        r->nerrors++;
        return false;
    }
    struct mop *c = call_op(r, op->block, op, op, "Sharding", v, mval(r, v)->shape, s, NULL, NULL);
    c->note = note;
    c->keep = true;
    mlir_rename(r, v, c->result);
    unlink_op(op);
    r->saw_sdy = true;
    return true;
}
