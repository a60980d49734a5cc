/* Between collective.c, schedule.c and remote.c: devices of other processes. */
#ifndef GSPMD_EMULATE_REMOTE_H
#define GSPMD_EMULATE_REMOTE_H

#include "emulate/collective.h"
#include "emulate/transport.h"

/* A device of another process is a ghost here: it has slots, which its messages fill. */
bool remote_is_ghost(const struct run *r, int64_t device);
/* A device has come to a collective: its operands go to the other processes of its group. */
void remote_tell(struct run *r, const struct device *dev, const struct step *s,
                 const struct rendezvous *z);
/* Takes messages that are here already and fit z now. true: all have come. */
bool remote_join(struct run *r, struct rendezvous *z);
/* What a meeting left in a ghost's slots goes. */
void remote_forget(const struct run *r, struct device *ghost, const struct step *s);
/* Runs this process's devices until all have ended or the run has failed. */
bool remote_run(struct run *r, struct tick *tick, struct diag *d) MUST_CHECK;

/* collective.c: all have come: results, and the members but `last` are ready again. */
bool meeting_complete(struct run *r, struct rendezvous *z, struct device *last);
/* schedule.c */
enum device_state run_guarded(struct run *r, struct device *dev);
struct device *run_take(struct run *r);

#endif
