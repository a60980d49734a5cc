/* A plain main for the fuzz targets where libFuzzer is not to be had: mutates the files of a folder
 * for a number of seconds. Finds less than libFuzzer does (it sees no coverage), crashes the same.
 *     fuzz_NAME SECONDS FOLDER          fuzz_NAME FILE   (runs one input) */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_SEEDS = 4096, MAX_SIZE = 65536 };

static struct seed {
    uint8_t *bytes;
    size_t n;
} seeds[MAX_SEEDS];
static size_t nseeds;
static uint64_t state = 88172645463325252ULL;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void add_seed(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || nseeds == MAX_SEEDS)
        return;
    struct seed *s = &seeds[nseeds];
    s->bytes = malloc(MAX_SIZE);
    s->n = s->bytes ? fread(s->bytes, 1, MAX_SIZE, f) : 0;
    nseeds += s->bytes != NULL;
    fclose(f);
}

static void add_folder(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4096];
        if (e->d_name[0] != '.' &&
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path)
            add_seed(path);
    }
    if (d)
        closedir(d);
}

static const char *const words[] = { "{",           "}",      "(",
                                     ")",           "[",      "]",
                                     ",",           "=",      "\"",
                                     "\\",          "/*",     "*/",
                                     "//",          "\n",     "\r\n",
                                     "0",           "-1",     "9223372036854775808",
                                     "ROOT ",       "ENTRY ", "%",
                                     "<=",          "T(",     "f32[",
                                     "s4[2]",       "{...}",  "last_tile_dims={",
                                     "mesh['a'=2]", "nan",    "sharding={",
                                     "\0",          "-start", "?" };

static size_t mutate(uint8_t *out, size_t n)
{
    size_t rounds = 1 + next() % 4;
    for (size_t k = 0; k < rounds; k++) {
        size_t at = n ? next() % n : 0, len = n ? next() % (n - at < 40 ? n - at + 1 : 40) : 0;
        switch (next() % 5) {
        case 0: /* one byte */
            if (n)
                out[at] = (uint8_t)next();
            break;
        case 1: /* cut */
            memmove(out + at, out + at + len, n - at - len);
            n -= len;
            break;
        case 2: /* repeat */
            if (n + len <= MAX_SIZE) {
                memmove(out + at + len, out + at, n - at);
                n += len;
            }
            break;
        case 3: { /* a word */
            const char *w = words[next() % (sizeof words / sizeof *words)];
            size_t m = *w ? strlen(w) : 1;
            if (n + m <= MAX_SIZE) {
                memmove(out + at + m, out + at, n - at);
                memcpy(out + at, w, m);
                n += m;
            }
            break;
        }
        default: { /* a piece of another seed */
            const struct seed *s = &seeds[next() % nseeds];
            size_t from = s->n ? next() % s->n : 0, m = s->n ? next() % (s->n - from + 1) : 0;
            m = m > 200 ? 200 : m;
            if (n + m <= MAX_SIZE) {
                memmove(out + at + m, out + at, n - at);
                memcpy(out + at, s->bytes + from, m);
                n += m;
            }
        }
        }
    }
    return n;
}

/* The input that is being run, for the file that a crash leaves behind. */
static uint8_t current[MAX_SIZE];

int main(int argc, char **argv)
{
    if (argc == 2) {
        add_seed(argv[1]);
        return nseeds ? LLVMFuzzerTestOneInput(seeds[0].bytes, seeds[0].n) : 2;
    }
    if (argc != 3) {
        fprintf(stderr, "usage: %s SECONDS FOLDER | FILE\n", argv[0]);
        return 2;
    }
    add_folder(argv[2]);
    if (nseeds == 0)
        return 2;
    char last[4096];
    (void)snprintf(last, sizeof last, "%s-last", argv[0]);
    time_t stop = time(NULL) + atol(argv[1]);
    unsigned long runs = 0;
    for (; time(NULL) < stop; runs++) {
        const struct seed *s = &seeds[runs < nseeds ? runs : next() % nseeds];
        memcpy(current, s->bytes, s->n);
        size_t n = runs < nseeds ? s->n : mutate(current, s->n);
        FILE *f = fopen(last, "wb");
        if (f) {
            (void)fwrite(current, 1, n, f);
            fclose(f);
        }
        (void)LLVMFuzzerTestOneInput(current, n);
    }
    (void)unlink(last);
    printf("%lu runs\n", runs);
    return 0;
}
