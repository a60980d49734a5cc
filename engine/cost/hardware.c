/* Device types from JSON, and the machine that a number of devices of one makes. */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/fail.h"
#include "cost/internal.h"

/* ---- reading ------------------------------------------------------------------------------------- */

struct reader {
    struct hardware *h;
    const struct source *src;
    struct diag *d;
    bool ok;
};

static void wrong(struct reader *r, const char *where, const char *what)
{
    if (r->ok)
        diag_error(r->d, NULL, (struct span){ 0, 0 }, "%s: %s: %s", r->src->name, where, what);
    r->ok = false;
}

static const char *own(struct reader *r, const cJSON *text)
{
    return cJSON_IsString(text) ? arena_strdup(&r->h->arena, text->valuestring) : NULL;
}

static struct figure figure(struct reader *r, const cJSON *in, const char *key, bool needed)
{
    struct figure f = { 0 };
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(in, key);
    if (!o) {
        if (needed)
            wrong(r, key, "is missing");
        return f;
    }
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, "value");
    f.unit = own(r, cJSON_GetObjectItemCaseSensitive(o, "unit"));
    f.source = own(r, cJSON_GetObjectItemCaseSensitive(o, "source"));
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble > 1e24)
        wrong(r, key, "needs a value, a number of 0 or more");
    else if (!f.unit || !f.source || !f.source[0])
        wrong(r, key, "needs a unit and a source");
    else
        f.value = v->valuedouble;
    if (needed && r->ok && f.value <= 0)
        wrong(r, key, "must be more than 0");
    return f;
}

static void read_level(struct reader *r, const cJSON *o)
{
    struct network_level *l = &r->h->level[r->h->nlevels++];
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(o, "kind");
    l->name = own(r, cJSON_GetObjectItemCaseSensitive(o, "level"));
    if (!l->name)
        wrong(r, "network", "a level needs a name: \"level\"");
    if (cJSON_IsString(kind) && strcmp(kind->valuestring, "torus") == 0)
        l->kind = NETWORK_TORUS;
    else if (cJSON_IsString(kind) && strcmp(kind->valuestring, "switch") == 0)
        l->kind = NETWORK_SWITCH;
    else
        wrong(r, "network", "the kind of a level is \"torus\" or \"switch\"");
    l->bandwidth = figure(r, o, "bandwidth", true);
    l->latency = figure(r, o, "latency", false);
    l->axes = figure(r, o, "axes", l->kind == NETWORK_TORUS);
    l->largest = figure(r, o, "largest", false);
    l->wrap = figure(r, o, "wrap", false);
    l->size = figure(r, o, "size", false);
    if (l->axes.value > 4)
        wrong(r, "axes", "at most 4");
}

static void read_all(struct reader *r, const cJSON *o)
{
    struct hardware *h = r->h;
    const cJSON *peak = cJSON_GetObjectItemCaseSensitive(o, "peak"),
                *memory = cJSON_GetObjectItemCaseSensitive(o, "memory"),
                *network = cJSON_GetObjectItemCaseSensitive(o, "network"), *level;
    calibration_default(&h->calibration);
    h->name = own(r, cJSON_GetObjectItemCaseSensitive(o, "name"));
    h->title = own(r, cJSON_GetObjectItemCaseSensitive(o, "title"));
    if (!h->name || !h->title)
        wrong(r, "name", "a name and a title are needed");
    h->per_chip = figure(r, o, "devices_per_chip", true);
    h->bf16 = figure(r, peak, "bf16", true);
    h->f32 = figure(r, peak, "f32", false);
    h->int8 = figure(r, peak, "int8", false);
    h->fp8 = figure(r, peak, "fp8", false);
    h->vector = figure(r, o, "vector", true);
    h->memory = figure(r, memory, "size", true);
    h->bandwidth = figure(r, memory, "bandwidth", true);
    h->tile = figure(r, o, "matrix_tile", true);
    if (!cJSON_IsArray(network) || cJSON_GetArraySize(network) < 1 || cJSON_GetArraySize(network) > NETWORK_LEVELS)
        wrong(r, "network", "1 to 3 levels are needed");
    cJSON_ArrayForEach(level, network)
        if (r->ok)
            read_level(r, level);
}

static bool guarded(struct reader *r, const cJSON *json, struct fail_frame *f)
{
    if (!FAIL_ENTER(f))
        return false;
    read_all(r, json);
    fail_leave(f);
    return true;
}

struct hardware *hardware_read(const struct source *src, struct diag *d)
{
    cJSON *json = cJSON_ParseWithLength(src->text, src->len);
    if (!cJSON_IsObject(json)) {
        cJSON_Delete(json);
        diag_error(d, NULL, (struct span){ 0, 0 }, "%s: not a JSON object", src->name);
        return NULL;
    }
    struct hardware *h = calloc(1, sizeof *h);
    struct reader r = { .h = h, .src = src, .d = d, .ok = true };
    struct fail_frame f = { .kind = FAIL_MEMORY };
    bool fine = h && guarded(&r, json, &f);
    cJSON_Delete(json);
    if (fine && r.ok)
        return h;
    hardware_free(h);
    if (!fine)
        fail_raise(f.kind, __FILE__, __LINE__, "%s", h ? f.text : "no memory for hardware");
    return NULL;
}

void hardware_free(struct hardware *h)
{
    if (!h)
        return;
    arena_free(&h->arena);
    free(h);
}

bool calibration_read(const struct source *src, struct calibration *out, struct diag *d)
{
    cJSON *json = cJSON_ParseWithLength(src->text, src->len);
    static const struct {
        const char *key;
        size_t at;
    } fields[] = { { "matrix", offsetof(struct calibration, matrix) },
                   { "vector", offsetof(struct calibration, vector) },
                   { "memory", offsetof(struct calibration, memory) },
                   { "link", offsetof(struct calibration, link) },
                   { "all_to_all", offsetof(struct calibration, all_to_all) },
                   { "kernel", offsetof(struct calibration, kernel) } };
    bool ok = true;
    for (size_t k = 0; k < COUNTOF(fields) && ok; k++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(json, fields[k].key), "value");
        ok = cJSON_IsNumber(v) && v->valuedouble >= 0 && (v->valuedouble > 0 || strcmp(fields[k].key, "kernel") == 0);
        if (!ok)
            diag_error(d, NULL, (struct span){ 0, 0 }, "%s: %s: needs a value of more than 0", src->name, fields[k].key);
        else
            memcpy((char *)out + fields[k].at, &v->valuedouble, sizeof(double));
    }
    cJSON_Delete(json);
    return ok;
}

void calibration_default(struct calibration *out)
{
    size_t n;
    const char *text = calibration_text(&n);
    struct source src = { "calibration.json", text, n };
    *out = (struct calibration){ 1, 1, 1, 1, 1, 0 };
    bool ok = calibration_read(&src, out, NULL);
    INVARIANT(ok, "the calibration that is built in does not read");
}

double hardware_peak(const struct hardware *h, enum dtype t)
{
    int bits = t == DTYPE_NONE ? 16 : dtype_bits(t);
    enum dtype_kind k = t == DTYPE_NONE ? DTYPE_KIND_FLOAT : dtype_kind(t);
    if (k == DTYPE_KIND_FLOAT && bits >= 32 && h->f32.value > 0)
        return h->f32.value;
    if (k == DTYPE_KIND_FLOAT && bits <= 8 && h->fp8.value > 0)
        return h->fp8.value;
    if ((k == DTYPE_KIND_SIGNED || k == DTYPE_KIND_UNSIGNED) && bits <= 8 && h->int8.value > 0)
        return h->int8.value;
    return h->bf16.value;
}

/* ---- the machine ------------------------------------------------------------------------------------ */

/* Chips along n axes whose product is `chips`: as near to each other as powers of two allow, the
 * longest last, as slices are named (A <= B <= C, https://cloud.google.com/tpu/docs/types-topologies; 8x16 chips:
 * rows of 16); what is no power of two goes to the last axis. */
static void near_square(int64_t chips, int n, int64_t *out)
{
    int64_t odd = chips;
    int twos = 0;
    while (odd % 2 == 0 && odd > 0) {
        odd /= 2;
        twos++;
    }
    for (int k = 0; k < n; k++)
        out[k] = (int64_t)1 << (twos / n + (n - 1 - k < twos % n));
    out[n - 1] *= odd;
}

static void add_axis(struct machine *m, int64_t size, int level, bool wrap)
{
    if (size <= 1 || m->naxes >= MACHINE_AXES)
        return;
    m->axes[m->naxes++] = (struct machine_axis){ .size = size, .level = level, .wrap = wrap };
}

static bool closes(const struct network_level *l, int64_t size)
{
    int64_t w = (int64_t)l->wrap.value;
    return w > 0 && size % w == 0 && size > 2;
}

/* Devices that one level holds at most. */
static int64_t holds(const struct network_level *l, int64_t sharers)
{
    double n = l->kind == NETWORK_SWITCH ? l->size.value : 1;
    for (int k = 0; l->kind == NETWORK_TORUS && k < (int)l->axes.value; k++)
        n *= l->largest.value > 0 ? l->largest.value : 1e6;
    if (n <= 0 || n > 1e15)
        return INT64_MAX / 2;
    return (int64_t)n * (l->kind == NETWORK_TORUS ? sharers : 1);
}

/* Inner levels first into tmp, then turned round: the first axis of a machine is the slowest. */
bool machine_make(const struct hardware *h, int64_t ndevices, int nshape, const int64_t *shape,
                  struct machine *out, struct diag *d)
{
    struct machine m = { .hardware = h, .ndevices = ndevices, .sharers = max_i64((int64_t)h->per_chip.value, 1) };
    int64_t left = max_i64(ndevices, 1), inner = 1;
    m.calibration = h->calibration;
    if (left % m.sharers != 0)
        m.sharers = 1;
    add_axis(&m, m.sharers, -1, false);
    left /= m.sharers;
    for (int l = 0; l < h->nlevels && left > 1; l++) {
        const struct network_level *lev = &h->level[l];
        int64_t most = holds(lev, 1), here = left;
        if (here > most || (l + 1 < h->nlevels && here > most)) {
            here = most;
            while (left % here != 0)
                here--;
        }
        if (lev->kind == NETWORK_SWITCH) {
            add_axis(&m, here, l, false);
        } else {
            int64_t dims[4] = { 1, 1, 1, 1 };
            int n = (int)lev->axes.value;
            if (shape && l == 0) {
                int64_t product;
                if (nshape > 4 || !product_ok(shape, nshape, &product) || product < 1 || left % product != 0)
                    return diag_error(d, NULL, (struct span){ 0, 0 },
                                      "the shape does not fit %" PRId64 " chips", left);
                n = nshape;
                memcpy(dims, shape, (size_t)n * sizeof *dims);
                here = product;
            } else {
                near_square(here, n, dims);
            }
            for (int k = n; k-- > 0;)
                add_axis(&m, dims[k], l, closes(lev, dims[k]));
        }
        left /= here;
    }
    if (left > 1)
        add_axis(&m, left, h->nlevels - 1, false);
    for (int k = 0; k < m.naxes / 2; k++) {
        struct machine_axis t = m.axes[k];
        m.axes[k] = m.axes[m.naxes - 1 - k];
        m.axes[m.naxes - 1 - k] = t;
    }
    for (int k = m.naxes; k-- > 0;) {
        m.axes[k].stride = inner;
        inner *= m.axes[k].size;
    }
    *out = m;
    return true;
}

void machine_print(const struct machine *m, struct str *out)
{
    str_addf(out, "%s:", m->hardware->name);
    if (m->naxes == 0)
        str_adds(out, " 1 device");
    for (int k = 0; k < m->naxes; k++) {
        const struct machine_axis *a = &m->axes[k];
        str_addf(out, "%s%" PRId64 "%s%s", k ? " x " : " ", a->size, a->level < 0 ? " on a chip" : " ",
                 a->level < 0 ? "" : m->hardware->level[a->level].name);
        if (a->level >= 0 && m->hardware->level[a->level].kind == NETWORK_TORUS)
            str_adds(out, a->wrap ? " ring" : " line");
    }
}
