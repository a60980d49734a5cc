#include "base/fail.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/open.h"

static _Thread_local struct fail_frame *innermost;
static atomic_bool abort_on_invariant;
static atomic_llong allocations_left; /* 0: none fails */

void fail_abort_on_invariant(bool on)
{
    abort_on_invariant = on;
}

void fail_nth_allocation(int64_t n)
{
    allocations_left = n;
}

bool fail_allocation_due(void)
{
    if (allocations_left == 0)
        return false;
    return atomic_fetch_sub(&allocations_left, 1) == 1;
}

void fail_push(struct fail_frame *f)
{
    f->outer = innermost;
    f->open_arenas = arena_open_list();
    f->text[0] = '\0';
    innermost = f;
}

void fail_leave(struct fail_frame *f)
{
    innermost = f->outer;
}

_Noreturn void fail_raise(enum fail_kind kind, const char *file, int line, const char *fmt, ...)
{
    struct fail_frame *f = innermost;
    char text[sizeof f->text];
    /* The folder that the compiler was called in says nothing to a user. */
    const char *base = strrchr(file, '/');
    int n = snprintf(text, sizeof text, "%s:%d: ", base ? base + 1 : file, line);
    va_list ap;
    va_start(ap, fmt);
    if (n > 0 && (size_t)n < sizeof text)
        (void)vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    va_end(ap);
    if (!f || (kind == FAIL_INVARIANT && abort_on_invariant))
        abort();
    memcpy(f->text, text, sizeof text);
    f->kind = kind;
    innermost = f->outer;
    arena_close_down_to(f->open_arenas);
    longjmp(f->jump, 1);
}
