/* Every view of every model: labels apart and on the canvas, legends complete, rectangles owned by just the
 * devices that hold those elements under the sharding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <unistd.h>

#include "viz/views.h"
#include "viz_check.h"

static struct arena arena;
static int64_t scenes, tiles, held, rows, files;

static void wrong(const char *file, const char *name, const char *what)
{
    fail_msg("%s, %s: %s", file, name, what);
}

/* Every device is a holder of the rectangle of its elements, and of no other; ids, counts and ranges. */
static void check_owners(const char *file, const char *name, struct ir *ir, const struct scene *s, sharding_id id,
                         shape_id shape, int64_t ndevices)
{
    const struct shape *v = shape_get(ir, shape);
    const struct sharding *k = sharding_get(ir->shardings, id);
    int64_t local[32], index[32];
    sharding_shard_dims(ir->shardings, id, v->rank, v->dims, local);
    if (k->kind != SHARDING_TILED || v->rank > 8)
        return;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind != SCENE_BOX || it->role != ROLE_TILE || it->state & STATE_PADDING)
            continue;
        int64_t holders = 0;
        bool first = false;
        for (int o = 1; o < it->nowners; o++)
            if (it->owners[o] == it->owners[o - 1])
                wrong(file, name, "one device named twice");
        for (int64_t d = 0; d < ndevices; d++) {
            memset(index, 0, sizeof index);
            bool here = sharding_tile_index(ir->shardings, id, d, index) &&
                        !memcmp(index, it->tile, (size_t)v->rank * sizeof *index);
            holders += here;
            first |= here && d == it->device;
            bool owner = false;
            for (int o = 0; o < it->nowners; o++)
                owner |= it->owners[o] == d;
            if (owner && !here)
                wrong(file, name, "a colour of a device that does not hold it");
        }
        if (holders != it->copies || !first)
            wrong(file, name, "the holders are others");
        for (int d = 0; d < v->rank; d++)
            if (it->from[d] != min_i64(it->tile[d] * local[d], v->dims[d]) ||
                it->to[d] != min_i64((it->tile[d] + 1) * local[d], v->dims[d]))
                wrong(file, name, "the elements are others");
        tiles++;
    }
}

/* What the device view marks as held is what the device holds, every piece of it that is drawn. */
static void check_held(const char *file, const char *name, struct ir *ir, const struct scene *s, sharding_id id,
                       shape_id shape, int64_t device)
{
    const struct shape *v = shape_get(ir, shape);
    int64_t index[32] = { 0 }, local[32];
    sharding_shard_dims(ir->shardings, id, v->rank, v->dims, local);
    const struct sharding *k = sharding_get(ir->shardings, id);
    bool any = k->kind != SHARDING_TILED || sharding_tile_index(ir->shardings, id, device, index);
    any = any && (k->kind != SHARDING_MAXIMAL || k->device == device);
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind != SCENE_BOX || it->role == ROLE_LEGEND || it->state & STATE_PADDING || it->ntile == 0 || v->rank > 8)
            continue;
        bool here = any && !memcmp(index, it->tile, (size_t)v->rank * sizeof *index);
        if (here != !!(it->state & STATE_HELD))
            wrong(file, name, here ? "what the device holds is not marked" : "what the device does not hold is marked");
        if (here && it->device != device)
            wrong(file, name, "what the device holds has another's colour");
        held += here;
    }
}

/* What device d holds of one array, as the view of all its arrays has it. */
static void check_device_row(const char *file, const char *name, struct ir *ir, sharding_id id, shape_id shape, int64_t device,
                             struct arena *a)
{
    const struct shape *v = shape_get(ir, shape);
    struct device_row row = { name, shape, id };
    struct scene *s = view_device(ir, NULL, device, 1, &row, 1, 900, a);
    int64_t index[32] = { 0 }, local[32];
    const struct sharding *k = sharding_get(ir->shardings, id);
    const char *bad = scene_wrong(s, a);
    if (bad)
        wrong(file, name, bad);
    sharding_shard_dims(ir->shardings, id, v->rank, v->dims, local);
    if (k->kind != SHARDING_TILED || v->rank > 8 || !sharding_tile_index(ir->shardings, id, device, index))
        return;
    bool empty = false, seen = false;
    for (int d = 0; d < v->rank; d++)
        empty |= index[d] * local[d] >= v->dims[d];
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind != SCENE_BOX || it->role != ROLE_TILE)
            continue;
        seen = true;
        for (int d = 0; d < v->rank; d++)
            if (it->from[d] != index[d] * local[d] || it->to[d] != min_i64((index[d] + 1) * local[d], v->dims[d]))
                wrong(file, name, "the device holds other elements");
    }
    if (seen == empty)
        wrong(file, name, empty ? "the device holds nothing" : "the device holds something");
    rows++;
}

static void check_text(const char *file, const char *name, const struct scene *s, struct arena *a)
{
    struct str text = STR_IN(a), again = STR_IN(a), svg = STR_IN(a);
    struct text_options o = { .ascii = true };
    scene_text(s, &o, &text);
    scene_text(s, &o, &again);
    if (strcmp(str_text(&text), str_text(&again)) != 0)
        wrong(file, name, "two drawings of one scene differ");
    for (const char *p = str_text(&text); *p; p++)
        if ((*p < 32 && *p != '\n') || *p == 127)
            wrong(file, name, "a control character");
    scene_svg(s, &svg);
    if (!strstr(str_text(&svg), "</svg>"))
        wrong(file, name, "no end of the SVG text");
}

static void check_layouts(const char *file, const struct module *m, const struct propagation *p, int64_t ndevices)
{
    enum { EACH = 24 };
    const struct computation *entry = comp_at(m, m->entry);
    int done = 0;
    for (uint32_t k = 0; k < entry->ninstrs && done < EACH; k++) {
        instr_id i = entry->instrs[k];
        shape_id shape = instr_at(m, i)->shape;
        uint32_t sites = p->graph->start[i.i + 1] - p->graph->start[i.i];
        if (sites == 0 || shape_get(m->ir, shape)->kind != SHAPE_ARRAY)
            continue;
        sharding_id s = p->final[p->graph->list[p->graph->start[i.i]].i];
        if (!s.i || sharding_is_unknown(m->ir->shardings, s))
            s = sharding_replicated(m->ir->shardings);
        struct arena a = { 0 };
        const char *name = name_text(m->ir, instr_at(m, i)->name);
        for (int how = 0; how < 4; how++) {
            struct layout_options o = { .rows_dim = -1, .cols_dim = -1, .ndevices = ndevices };
            o.width = how == 1 ? 900 : 0;
            o.max_tiles = how == 1 ? 32 : 0;
            o.device_view = how == 2;
            o.device = ndevices / 2;
            o.open = how == 3 ? 1 : 0;
            struct scene *scene = view_layout(m->ir, NULL, name, shape, s, &o, &a);
            const char *bad = scene_wrong(scene, &a);
            if (bad)
                wrong(file, name, bad);
            if (how == 2)
                check_held(file, name, m->ir, scene, s, shape, o.device);
            if (how < 2)
                check_owners(file, name, m->ir, scene, s, shape, ndevices);
            if (how == 0)
                check_text(file, name, scene, &a);
            scenes++;
        }
        for (int64_t d = 0; d < ndevices && d < 16; d++)
            check_device_row(file, name, m->ir, s, shape, ndevices <= 16 ? d : d * (ndevices / 16), &a);
        struct layout_options o = { .rows_dim = -1, .cols_dim = -1, .ndevices = ndevices, .width = 900 };
        struct scene *pair = view_layout_pair(m->ir, NULL, name, shape, sharding_replicated(m->ir->shardings), s, "before",
                                              "now", &o, &a);
        const char *bad = scene_wrong(pair, &a);
        if (bad)
            wrong(file, name, bad);
        arena_free(&a);
        done++;
    }
}

static void check_file(const char *path)
{
    struct document *doc = document_new();
    struct diag *d = diag_new();
    if (document_load(doc, path, NULL, d)) {
        const struct propagation *p = document_propagation(doc, NULL, d);
        if (p) {
            check_layouts(path, document_module(doc), p, max_i64(document_devices(doc), 1));
            files++;
        }
    }
    diag_free(d);
    document_free(doc);
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void check_folder(const char *folder)
{
    struct dirent **list;
    int n = scandir(folder, &list, NULL, by_name);
    for (int k = 0; k < n; k++) {
        const char *name = list[k]->d_name;
        bool dump = (ends_with(name, ".hlo") || ends_with(name, ".hlo.gz")) && !strstr(name, "after_spmd") &&
                    !strstr(name, ".optimized") && !strstr(name, ".sdy.");
        if (dump || (ends_with(name, ".json") && !strstr(name, ".xla.")))
            check_file(arena_printf(&arena, "%s/%s", folder, name));
        free(list[k]);
    }
    if (n >= 0)
        free(list);
}

static const char *root(void)
{
    return access("models", R_OK) == 0 ? "." : "..";
}

static void every_model(void **state)
{
    (void)state;
    check_folder(arena_printf(&arena, "%s/models", root()));
    assert_true(files >= 3);
}

static void every_real_input(void **state)
{
    (void)state;
    const char *shared = getenv("GSPMD_SHARED");
    const char *folder = shared ? arena_printf(&arena, "%s/inputs", shared)
                                : arena_printf(&arena, "%s/../shared/inputs", root());
    if (access(folder, R_OK) != 0) {
        print_message("no %s: skipped\n", folder);
        skip();
    }
    int64_t before = files;
    check_folder(folder);
    print_message("%" PRId64 " files, %" PRId64 " scenes, %" PRId64 " rectangles read back for every device, %" PRId64
                  " as what one device holds, %" PRId64 " of a device's arrays\n", files, scenes, tiles, held, rows);
    assert_true(held > 1000 && rows > 1000);
    assert_true(files - before > 50);
}

/* A mesh's cells, however it is shown, have the devices of its order. */
static void meshes(void **state)
{
    (void)state;
    static const char *const texts[] = { "x=1", "x=8", "x=2 y=4", "x=4 y=4 order=[4,4]T(1,0)", "x=3 y=5",
                                         "x=2 y=2 z=2", "a=2 b=2 c=3 d=2", "x=64 y=64", "x=1024 y=1024",
                                         "x=2 y=2 order=3,1,0,2" };
    struct ir *ir = ir_new();
    for (size_t k = 0; k < COUNTOF(texts); k++)
        for (int how = 0; how < 8; how++) {
            struct source src = { "test", texts[k], strlen(texts[k]) };
            struct mesh m;
            struct arena a = { 0 };
            assert_true(mesh_parse(ir->shardings, &a, &src, 0, texts[k], src.len, &m, NULL));
            struct mesh_options o = { .highlight = how & 1 ? 0 : -1, .torus = how & 2, .order = how & 4, .group = -1, .pairs_axis = -1 };
            o.max_shown = how == 7 ? 64 : 0;
            struct scene *s = view_mesh_full(ir, &m, &o, &a);
            const char *bad = scene_wrong(s, &a);
            if (bad)
                wrong(texts[k], "mesh", bad);
            for (int64_t i = 0; i < s->items.n; i++)
                if (s->items.v[i].role == ROLE_TILE)
                    assert_in_range(s->items.v[i].device, 0, mesh_devices(&m) - 1);
            arena_free(&a);
        }
    ir_free(ir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meshes),
        cmocka_unit_test(every_model),
        cmocka_unit_test(every_real_input),
    };
    int failed = cmocka_run_group_tests_name("viz_models", tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
