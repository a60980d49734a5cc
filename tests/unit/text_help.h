/* What the tests of the text layer share: reading a text, printing it, and looking at messages. */
#ifndef TEXT_HELP_H
#define TEXT_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "text/text.h"

struct fixture {
    struct ir *c;
    struct diag *d;
    struct module *m;
    struct arena a;
};

static inline void start(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    fail_abort_on_invariant(true);
    f->c = ir_new();
    f->d = diag_new();
}

static inline void stop(struct fixture *f)
{
    module_free(f->m);
    arena_free(&f->a);
    diag_free(f->d);
    ir_free(f->c);
}

static inline struct source *source_of(const char *name, const char *text, size_t n)
{
    struct source *s = calloc(1, sizeof *s);
    char *copy = malloc(n + 1);
    if (n)
        memcpy(copy, text, n);
    copy[n] = '\0';
    *s = (struct source){ .name = strdup(name), .text = copy, .len = n };
    return s;
}

/* Reads without verifying. */
static inline bool read_hlo(struct fixture *f, const char *text, size_t n)
{
    f->m = hlo_read(f->c, source_of("t.hlo", text, n), NULL, f->d);
    return f->m != NULL;
}

static inline const char *messages(struct fixture *f)
{
    struct str s = STR_IN(&f->a);
    for (int64_t i = 0; i < f->d->msgs.n; i++)
        diag_render(&f->d->msgs.v[i], &s);
    return str_text(&s);
}

static inline const char *printed(struct fixture *f, const struct module *m,
                                  const struct hlo_print_options *o)
{
    struct str s = STR_IN(&f->a);
    assert_true(hlo_print(m, o, &s));
    assert_int_equal(hlo_print_size(m, o), (int64_t)s.n);
    return str_text(&s);
}

/* The instruction of this name in the entry. */
static inline const struct instr *named(const struct module *m, const char *name)
{
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        const struct instr *in = instr_at(m, (instr_id){ i });
        if (strcmp(name_text(m->ir, in->name), name) == 0 && in->comp.i == m->entry.i)
            return in;
    }
    fail_msg("no instruction %s", name);
    return NULL;
}

/* Where the reference material lies: $GSPMD_SHARED or ../shared; NULL: it is not there. */
static inline const char *shared_folder(void)
{
    static char path[4096];
    const char *env = getenv("GSPMD_SHARED");
    snprintf(path, sizeof path, "%s", env ? env : "../shared");
    char probe[4200];
    snprintf(probe, sizeof probe, "%s/inputs/INDEX.md", path);
    FILE *f = fopen(probe, "r");
    if (!f)
        return NULL;
    fclose(f);
    return path;
}

#endif
