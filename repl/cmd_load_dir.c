/* load DIR: a folder that XLA (xla_dump_to) or JAX (JAX_DUMP_IR_TO) has filled: which modules it holds,
 * in which stages, and which file is taken. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "repl/commands.h"

enum { FILES_MAX = 100000 };

/* From what users shard to what ran. */
enum stage { STAGE_BEFORE, STAGE_STABLEHLO, STAGE_PROPAGATED, STAGE_PARTITIONED, STAGE_OPTIMIZED, STAGE_OTHER,
             STAGE_COUNT };

static const char *const stage_words[STAGE_COUNT] = {
    "before optimizations", "StableHLO", "after sharding propagation", "after the partitioner", "optimized", "other",
};

struct dump_file {
    const char *name;
    int64_t bytes;
    enum stage stage;
};

struct dump_module {
    const char *key; /* module_0001.jit_f */
    struct dump_file at[STAGE_COUNT];
};

struct dump_folder {
    VEC(struct dump_file) files;
    VEC(struct dump_module) modules;
    int64_t skipped; /* reports, protocol buffers, code */
    const char *binary; /* a .hlo.pb, when there is nothing better */
};

static bool ends_with(const char *s, size_t n, const char *tail)
{
    size_t k = strlen(tail);
    return n >= k && !memcmp(s + n - k, tail, k);
}

/* The stage by XLA's way of naming its dumps; STAGE_COUNT: no module. *key: length of the module's part. */
static enum stage stage_of(const char *name, size_t *key)
{
    size_t n = strlen(name);
    if (ends_with(name, n, ".gz"))
        n -= 3;
    *key = n;
    if (ends_with(name, n, ".mlir")) {
        const char *at = strstr(name, "_compile.mlir");
        *key = at ? (size_t)(at - name) : n - 5;
        return STAGE_STABLEHLO;
    }
    if (!ends_with(name, n, ".txt") && !ends_with(name, n, ".hlo"))
        return STAGE_COUNT;
    static const struct {
        const char *mark;
        enum stage stage;
    } marks[] = {
        { ".before_optimizations.", STAGE_BEFORE },
        { "after_optimizations-", STAGE_COUNT }, /* buffer assignments and the like */
        { "after_optimizations.", STAGE_OPTIMIZED },
        { ".after_spmd-partitioning", STAGE_PARTITIONED },
        { ".after_sharding-propagation", STAGE_PROPAGATED },
    };
    for (size_t k = 0; k < COUNTOF(marks); k++) {
        const char *at = strstr(name, marks[k].mark);
        if (!at)
            continue;
        /* up to the pass's number or the platform: module_0001.jit_f.0002.spmd-partitioner.after_.. */
        const char *dot = name;
        for (int d = 0; d < 2 && dot; d++)
            dot = strchr(dot + (d > 0), '.');
        *key = marks[k].stage == STAGE_BEFORE ? (size_t)(at - name) : dot ? (size_t)(dot - name) : (size_t)(at - name);
        return marks[k].stage;
    }
    /* dumps of other passes; texts that are no dump */
    return strstr(name, ".before_") || strstr(name, ".after_") || ends_with(name, n, ".txt") ? STAGE_COUNT
                                                                                              : STAGE_OTHER;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct dump_file *)a)->name, ((const struct dump_file *)b)->name);
}

static bool list_folder(struct call *c, const char *path, struct dump_folder *out)
{
    DIR *dir = opendir(path);
    if (!dir)
        return call_error(c, STATUS_INPUT, "io", "%s: %s", path, strerror(errno)) == 0;
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        size_t key;
        const char *full = arena_printf(&c->arena, "%s/%s", path, e->d_name);
        if (e->d_name[0] == '.' || stat(full, &st) || !S_ISREG(st.st_mode) || out->files.n == FILES_MAX)
            continue;
        struct dump_file f = { arena_strdup(&c->arena, e->d_name), (int64_t)st.st_size, stage_of(e->d_name, &key) };
        if (f.stage != STAGE_COUNT)
            vec_push(&c->arena, &out->files, f);
        else
            out->skipped++;
        if (ends_with(e->d_name, strlen(e->d_name), ".pb") && (!out->binary || strcmp(e->d_name, out->binary) < 0))
            out->binary = arena_strdup(&c->arena, e->d_name);
    }
    closedir(dir);
    if (out->files.n) /* the folder's own order differs between machines */
        qsort(out->files.v, (size_t)out->files.n, sizeof *out->files.v, by_name);
    return true;
}

/* Files of one module come together by the part of their name that they share. */
static void pair_files(struct call *c, struct dump_folder *d)
{
    struct intern keys;
    intern_init(&keys, &c->arena);
    for (int64_t k = 0; k < d->files.n; k++) {
        const struct dump_file *f = &d->files.v[k];
        size_t n;
        (void)stage_of(f->name, &n);
        uint32_t id = intern_put(&keys, f->name, n);
        if (id > d->modules.n) {
            struct dump_module m = { .key = arena_strndup(&c->arena, f->name, n) };
            vec_push(&c->arena, &d->modules, m);
        }
        /* several dumps of a stage: the last one is what the next pass saw */
        d->modules.v[id - 1].at[f->stage] = *f;
    }
}

/* The file of a module that is opened: what was given to the compiler, else the nearest to it. */
static const struct dump_file *first_file(const struct dump_module *m)
{
    for (int s = 0; s < STAGE_COUNT; s++)
        if (m->at[s].name)
            return &m->at[s];
    return NULL;
}

/* The largest one that is there from before the partitioner: a step, not a helper of it. */
static int64_t chosen(const struct dump_folder *d)
{
    int64_t best = -1, bytes = -1;
    bool early = false;
    for (int64_t k = 0; k < d->modules.n; k++) {
        const struct dump_file *f = first_file(&d->modules.v[k]);
        bool is_early = f->stage <= STAGE_PROPAGATED;
        if ((is_early && !early) || (is_early == early && f->bytes > bytes)) {
            best = k;
            bytes = f->bytes;
            early = is_early;
        }
    }
    return best;
}

static void report_json(struct call *c, const struct dump_folder *d, const char *taken)
{
    json_put_open(&c->js, "modules", '[');
    for (int64_t k = 0; k < d->modules.n; k++) {
        json_open(&c->js, '{');
        json_put_string(&c->js, "module", d->modules.v[k].key);
        for (int s = 0; s < STAGE_COUNT; s++)
            if (d->modules.v[k].at[s].name)
                json_put_string(&c->js, stage_words[s], d->modules.v[k].at[s].name);
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
    json_put_string(&c->js, "taken", taken);
}

static void report_folder(struct call *c, const char *path, const struct dump_folder *d, int64_t best, const char *taken)
{
    if (c->json) {
        report_json(c, d, taken);
        return;
    }
    if (c->sh->quiet)
        return;
    out(c, "%s: %s, %s of other kinds\n", path, counted(&c->arena, d->modules.n, "module"),
        counted(&c->arena, d->skipped, "file"));
    int64_t shown = call_rows(c, d->modules.n);
    for (int64_t k = 0; k < d->modules.n; k++) {
        const struct dump_module *m = &d->modules.v[k];
        if (k >= shown && k != best)
            continue;
        out(c, "%s %s\n", k == best ? "*" : " ", m->key);
        for (int s = 0; s < STAGE_COUNT; s++)
            if (m->at[s].name)
                out(c, "    %-26s %s, %s\n", stage_words[s], m->at[s].name, nice_bytes(&c->arena, m->at[s].bytes));
    }
    call_more(c, shown, d->modules.n, "modules");
    out(c, "taken: %s\n", taken);
}

bool is_folder(const char *path)
{
    struct stat st;
    return strcmp(path, "-") && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *file_of_folder(struct call *c, const char *path)
{
    struct dump_folder d = { .skipped = 0 };
    if (!list_folder(c, path, &d))
        return NULL;
    pair_files(c, &d);
    int64_t best = chosen(&d);
    if (best < 0) {
        call_error(c, STATUS_INPUT, "parse", "%s: no HLO or StableHLO text in this folder", path);
        if (d.binary)
            diag_hint(c->d, "%s is binary: dump text, XLA_FLAGS=\"--xla_dump_to=DIR --xla_dump_hlo_as_text\"", d.binary);
        else
            diag_hint(c->d, "XLA_FLAGS=\"--xla_dump_to=DIR --xla_dump_hlo_as_text\" fills one");
        return NULL;
    }
    const char *taken = arena_printf(&c->arena, "%s/%s", path, first_file(&d.modules.v[best])->name);
    report_folder(c, path, &d, best, taken);
    return taken;
}
