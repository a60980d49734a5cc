/* hardware: device types as data, every number with its unit and source. */
#include <math.h>
#include <string.h>

#include "repl/costs.h"

static const char default_name[] = "tpu-v3";

/* ---- words ------------------------------------------------------------------------------------------ */

const char *nice_seconds(struct arena *a, double s)
{
    if (!(s >= 0) || s > 1e12)
        return "-";
    if (s == 0)
        return "0 s";
    if (s < 1e-6)
        return arena_printf(a, "%.3g ns", s * 1e9);
    if (s < 1e-3)
        return arena_printf(a, "%.3g us", s * 1e6);
    if (s < 1)
        return arena_printf(a, "%.3g ms", s * 1e3);
    return arena_printf(a, s < 1000 ? "%.3g s" : "%.0f s", s);
}

const char *nice_number(struct arena *a, double v)
{
    if (fabs(v) < 1e6)
        return with_commas(a, (int64_t)v);
    return arena_printf(a, "%.4g", v);
}

const char *nice_percent(struct arena *a, double part, double whole)
{
    return whole > 0 ? arena_printf(a, "%.1f %%", 100 * part / whole) : "-";
}

void json_put_real(struct json *j, const char *key, double v)
{
    char text[40];
    json_key(j, key);
    if (!isfinite(v)) {
        json_null(j);
        return;
    }
    snprintf(text, sizeof text, "%.9g", v);
    json_raw(j, text);
}

/* ---- choosing --------------------------------------------------------------------------------------- */

static struct hardware *shipped(const char *name, struct diag *d)
{
    struct source src = { .name = name };
    src.text = hardware_text(name, &src.len);
    return src.text ? hardware_read(&src, d) : NULL;
}

const struct hardware *costs_hardware(struct call *c)
{
    if (!c->sh->hardware)
        c->sh->hardware = shipped(default_name, c->d);
    return c->sh->hardware;
}

static void no_such(struct call *c, const char *name)
{
    const char *best = NULL;
    int least = 4;
    for (const char *const *k = hardware_names(); *k; k++) {
        int dist = edit_distance(name, *k, least);
        if (dist < least) {
            least = dist;
            best = *k;
        }
    }
    const char *former = diag_stage(c->d, "name");
    struct str safe = STR_IN(&c->arena);
    str_add_safe(&safe, name, strlen(name));
    diag_error(c->d, c->src, call_span(c, 0), "no hardware is named '%s'", str_text(&safe));
    if (best)
        diag_hint(c->d, "hardware %s", best);
    else
        diag_hint(c->d, "hardware lists them; a file of your own: hardware ./NAME.json");
    diag_stage(c->d, former);
}

static struct hardware *find(struct call *c, const char *name)
{
    struct source *src;
    if (strchr(name, '/') || (strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".json") == 0)) {
        if (c->sh->sealed) {
            call_error(c, STATUS_INPUT, "io", "no file is opened here");
            return NULL;
        }
        const char *former = diag_stage(c->d, "io");
        bool read = file_read(name, &src, c->d);
        diag_stage(c->d, "parse");
        struct hardware *h = read ? hardware_read(src, c->d) : NULL;
        diag_stage(c->d, former);
        if (read)
            source_free(src);
        return h;
    }
    struct hardware *h = shipped(name, c->d);
    if (!h)
        no_such(c, name);
    return h;
}

/* 8x16: chips along each axis of the torus. */
static bool read_shape(struct call *c, const char *text)
{
    int64_t dims[4];
    int n = 0;
    size_t len = strlen(text), at = 0;
    while (at < len && n < 4) {
        size_t used = parse_i64(text + at, len - at, &dims[n]);
        if (!used || dims[n] < 1)
            break;
        n++;
        at += used;
        if (at < len && (text[at] == 'x' || text[at] == ','))
            at++;
        else
            break;
    }
    if (n == 0 || at != len) {
        call_usage(c, -1, "shape=8x16: chips along each axis of the torus");
        return false;
    }
    c->sh->nshape = n;
    memcpy(c->sh->shape, dims, sizeof dims);
    return true;
}

/* ---- showing ------------------------------------------------------------------------------------------ */

static void list(struct call *c)
{
    static const char *const heads[] = { "name", ">bf16 TFLOP/s", ">memory", ">bandwidth", "links", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    if (c->json)
        json_put_open(&c->js, "hardware", '[');
    for (const char *const *k = hardware_names(); *k; k++) {
        struct hardware *h = shipped(*k, c->d);
        if (!h)
            return;
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "name", h->name);
            json_put_string(&c->js, "title", h->title);
            json_put_real(&c->js, "bf16", h->bf16.value);
            json_put_real(&c->js, "memory", h->memory.value);
            json_put_real(&c->js, "bandwidth", h->bandwidth.value);
            json_put_bool(&c->js, "chosen", strcmp(*k, costs_hardware(c)->name) == 0);
            json_close(&c->js, '}');
        }
        const char **row = table_row(&t);
        row[0] = *k;
        row[1] = arena_printf(&c->arena, "%.4g", h->bf16.value / 1e12);
        row[2] = nice_bytes(&c->arena, (int64_t)h->memory.value);
        row[3] = arena_printf(&c->arena, "%.4g GB/s", h->bandwidth.value / 1e9);
        row[4] = arena_printf(&c->arena, "%s %.3g GB/s", arena_strdup(&c->arena, h->level[0].name),
                              h->level[0].bandwidth.value / 1e9);
        row[5] = strcmp(*k, costs_hardware(c)->name) == 0 ? "chosen" : "";
        hardware_free(h);
    }
    if (c->json)
        json_close(&c->js, ']');
    else
        table_print(c, &t, true);
}

static void one_figure(struct call *c, struct table *t, const char *what, const struct figure *f)
{
    if (!f->source)
        return;
    if (c->json) {
        json_open(&c->js, '{');
        json_put_string(&c->js, "what", what);
        json_put_real(&c->js, "value", f->value);
        json_put_string(&c->js, "unit", f->unit);
        json_put_string(&c->js, "source", f->source);
        json_close(&c->js, '}');
        return;
    }
    const char **row = table_row(t);
    row[0] = what;
    row[1] = arena_printf(&c->arena, "%.10g", f->value);
    row[2] = f->unit;
    row[3] = f->source;
}

static void one(struct call *c, const struct hardware *h)
{
    static const char *const heads[] = { "", ">value", "unit", "source", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    if (c->json) {
        json_put_string(&c->js, "name", h->name);
        json_put_string(&c->js, "title", h->title);
        json_put_open(&c->js, "figures", '[');
    } else {
        out(c, "%s: %s\n", h->name, h->title);
    }
    const struct {
        const char *what;
        const struct figure *f;
    } all[] = { { "devices a chip", &h->per_chip }, { "peak bf16", &h->bf16 },
                { "peak f32", &h->f32 },            { "peak int8", &h->int8 },
                { "peak fp8", &h->fp8 },            { "outside the matrix unit", &h->vector },
                { "memory", &h->memory },           { "memory bandwidth", &h->bandwidth },
                { "matrix tile", &h->tile } };
    for (size_t k = 0; k < COUNTOF(all); k++)
        one_figure(c, &t, all[k].what, all[k].f);
    for (int l = 0; l < h->nlevels; l++) {
        const struct network_level *n = &h->level[l];
        one_figure(c, &t, arena_printf(&c->arena, "%s bandwidth", n->name), &n->bandwidth);
        one_figure(c, &t, arena_printf(&c->arena, "%s latency", n->name), &n->latency);
        one_figure(c, &t, arena_printf(&c->arena, "%s axes", n->name), &n->axes);
        one_figure(c, &t, arena_printf(&c->arena, "%s longest axis", n->name), &n->largest);
        one_figure(c, &t, arena_printf(&c->arena, "%s ring", n->name), &n->wrap);
        one_figure(c, &t, arena_printf(&c->arena, "%s devices", n->name), &n->size);
    }
    if (c->json)
        json_close(&c->js, ']');
    else
        table_print(c, &t, true);
}

/* How the devices of the document sit on it: false when they do not. */
static bool place(struct call *c, struct machine *m)
{
    int64_t n = document_devices(c->sh->doc);
    const char *former = diag_stage(c->d, "usage");
    bool ok = n <= 0 || machine_make(c->sh->hardware, n, c->sh->nshape, c->sh->nshape ? c->sh->shape : NULL, m, c->d);
    diag_stage(c->d, former);
    if (!ok)
        c->sh->nshape = 0;
    return ok;
}

static void say_place(struct call *c, const struct machine *m)
{
    int64_t n = document_devices(c->sh->doc);
    struct str s = STR_IN(&c->arena);
    if (n <= 0)
        return;
    machine_print(m, &s);
    if (c->json)
        json_put_string(&c->js, "placement", str_text(&s));
    else
        out(c, "%s devices as %s\n", with_commas(&c->arena, n), str_text(&s));
}

/* calibration=FILE: other constants for the chosen hardware. */
static bool read_calibration(struct call *c, const char *path)
{
    struct source *src;
    if (c->sh->sealed) {
        call_error(c, STATUS_INPUT, "io", "no file is opened here");
        return false;
    }
    const char *former = diag_stage(c->d, "io");
    bool read = file_read(path, &src, c->d);
    diag_stage(c->d, "parse");
    bool ok = read && calibration_read(src, &c->sh->hardware->calibration, c->d);
    diag_stage(c->d, former);
    if (read)
        source_free(src);
    return ok;
}

int cmd_hardware(struct call *c)
{
    const char *shape = call_option(c, "shape"), *calibration = call_option(c, "calibration");
    if (!costs_hardware(c))
        return call_failed(c);
    if (c->n == 0 && !shape && !calibration) {
        list(c);
        return c->d->nerrors ? call_failed(c) : STATUS_OK;
    }
    if (c->n > 0) {
        struct hardware *h = find(c, c->args[0].text);
        if (!h)
            return call_failed(c);
        hardware_free(c->sh->hardware);
        c->sh->hardware = h;
        c->sh->nshape = 0;
    }
    if (shape && !read_shape(c, shape))
        return STATUS_USAGE;
    if (calibration && !read_calibration(c, calibration))
        return call_failed(c);
    struct machine m;
    if (!place(c, &m))
        return call_failed(c);
    one(c, c->sh->hardware);
    say_place(c, &m);
    return STATUS_OK;
}
