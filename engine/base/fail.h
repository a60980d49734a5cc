/* The one way out that is no return value: a broken invariant of ours, or memory that is not there.
 *
 * The function that a client of the engine calls enters a fail_frame; INVARIANT and a failed
 * allocation jump back to it, through our own frames only, with no lock held, on the same thread.
 * Pass arenas (arena_open) that were opened since are closed on the way, so nothing leaks. Wrong
 * *input* never comes here: it is reported to a struct diag and returned as false.
 */
#ifndef GSPMD_BASE_FAIL_H
#define GSPMD_BASE_FAIL_H

#include <setjmp.h>

#include "base/base.h"

enum fail_kind { FAIL_INVARIANT, FAIL_MEMORY };

struct arena;

struct fail_frame {
    jmp_buf jump;
    struct fail_frame *outer;
    struct arena *open_arenas; /* head of the thread's list when the frame was entered */
    enum fail_kind kind;       /* valid after the jump */
    char text[400];
};

/* Usage:   struct fail_frame f;
 *          if (FAIL_ENTER(&f)) { ...work...; fail_leave(&f); return true; }
 *          ...here after a failure: f.kind, f.text; the frame is already left...
 * Locals changed after FAIL_ENTER and read after the jump must be volatile. */
#define FAIL_ENTER(f) (fail_push(f), setjmp((f)->jump) == 0)
void fail_push(struct fail_frame *f);
void fail_leave(struct fail_frame *f);

_Noreturn void fail_raise(enum fail_kind kind, const char *file, int line, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Tests and fuzzers: abort() instead of jumping, so that a debugger or a sanitizer sees the place. */
void fail_abort_on_invariant(bool on);

/* Tests: make the n-th allocation from now on fail (0: none does). */
void fail_nth_allocation(int64_t n);
bool fail_allocation_due(void);

#define INVARIANT(cond, ...)                                                                       \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            fail_raise(FAIL_INVARIANT, __FILE__, __LINE__, __VA_ARGS__);                           \
    } while (0)

#endif
