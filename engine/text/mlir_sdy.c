/* Meshes and shardings of Shardy's dialect, put into GSPMD's terms. */
#include "text/mlir_sdy.h"

/* before'name'after, as an error of shardings. */
static bool msdy_error(struct mlir *r, const char *at, size_t n, const char *before, const char *name,
                        size_t nname, const char *after)
{
    const char *former = diag_stage(r->d, "shard");
    MFAIL(r, at, n, "%s'%.*s'%s", before, (int)(nname < 80 ? nname : 80), name, after);
    diag_stage(r->d, former);
    return false;
}

/* ---- meshes ------------------------------------------------------------------------------------ */

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
            p = msdy_blanks(q, end);
            int64_t size = 0;
            if (p >= end || *p != '=')
                return MFAIL(r, p, 1, "expected '=' and the axis' size");
            p = msdy_blanks(p + 1, end);
            size_t used = parse_i64(p, (size_t)(end - p), &size);
            if (!used || size <= 0)
                return MFAIL(r, p, 1, "an axis' size must be a positive number");
            p += used;
            if (m->naxes == MESH_MAX_AXES)
                return MFAIL(r, name, n, "more than %d axes in a mesh", MESH_MAX_AXES);
            if (mesh_find_axis(m, name, n) >= 0)
                return msdy_error(r, name, n, "axis ", name, n, " is twice in this mesh");
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
                return MFAIL(r, end, 1, "the device ids are no permutation of 0..%" PRId64 ": %" PRId64 " %s", devices - 1,
                             ids.v[i], ids.v[i] < 0 || ids.v[i] >= devices ? "is no device of it" : "is there twice");
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

static struct mesh *find_mesh(struct mlir *r, const char *name, size_t n)
{
    for (int i = 0; i < r->nmeshes; i++)
        if (mtext(name, n, r->meshes[i].name))
            return &r->meshes[i];
    return NULL;
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
    if (find_mesh(r, name, n))
        return msdy_error(r, name, n, "mesh ", name, n, " is defined twice");
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
        return msdy_error(r, at, n + 2, "the mesh has no axis ", name, n, "");
    struct axis_ref ref = { k, 1, m->axes[k].size };
    if (q < end && *q == ':') { /* "x":(2)4 */
        int64_t pre, size;
        const char *s = msdy_blanks(q + 1, end);
        size_t used = s < end && *s == '(' ? parse_i64(s + 1, (size_t)(end - s - 1), &pre) : 0;
        if (!used || s[1 + used] != ')')
            return MFAIL(r, at, n + 2, "expected a part of an axis, like \"x\":(1)2");
        s += used + 2;
        used = parse_i64(s, (size_t)(end - s), &size);
        int64_t both;
        if (!used || pre <= 0 || size <= 0 || !mul_ok(pre, size, &both) || ref.size % both != 0)
            return msdy_error(r, at, n + 2, "axis ", name, n, " has no such part: its size is no multiple of it");
        ref.pre = pre;
        ref.size = size;
        q = s + used;
    }
    for (int i = 0; i < a->n; i++) {
        const struct axis_ref *o = &a->refs[i];
        bool apart = o->axis != k || ref.pre % (o->pre * o->size) == 0 || o->pre % (ref.pre * ref.size) == 0;
        if (!apart)
            return msdy_error(r, at, n + 2, "axis ", name, n, " is used twice in this sharding");
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
    const char *p = msdy_blanks(*pp, end);
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
            return msdy_error(r, name - 1, n + 1, "there is no mesh ", name - 1, n + 1, "");
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
bool msdy_parse(struct mlir *r, const char *p, const char *end, int rank, struct sdy *out)
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
struct mattr *msdy_remark(struct mlir *r, int64_t n, const struct sdy *v)
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
void msdy_add_manual(struct mlir *r, const struct sdy *s, struct layout *a)
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

sharding_id msdy_make(struct mlir *r, const struct sdy *s, const struct layout *a)
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

sharding_id msdy_sharding(struct mlir *r, const struct sdy *s)
{
    struct layout a = s->axes;
    if (!s->maximal)
        msdy_add_manual(r, s, &a);
    return msdy_make(r, s, &a);
}
