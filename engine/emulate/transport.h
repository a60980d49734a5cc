/* Several processes, perhaps on several hosts, that run one program together: each runs its share of
 * the devices, operands of collectives travel as messages, results end up in all of them. Every
 * process runs the same commands, so they all meet in the same runs.
 *
 * NULL, the default: one process, shared memory. make MPI=1 builds gspmd-mpi with one over MPI.
 */
#ifndef GSPMD_EMULATE_TRANSPORT_H
#define GSPMD_EMULATE_TRANSPORT_H

#include "base/base.h"

struct transport {
    int rank, nranks;
    /* A message to another process; data is copied, returns at once. Messages from one process to
     * another come in order. */
    void (*send)(int to, const void *data, int64_t bytes);
    /* The next message, malloc'ed; waits up to that long; NULL: none came. */
    void *(*receive)(int milliseconds, int64_t *bytes);
    /* These are called by all processes together. */
    void (*broadcast)(int from, void *data, int64_t bytes);
    bool (*all)(bool ok);
};

void transport_set(const struct transport *t); /* a loan */
const struct transport *transport_get(void);

#endif
