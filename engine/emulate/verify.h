/* Between verify.c (runs and comparison) and locate.c (the first instruction that differs). */
#ifndef GSPMD_EMULATE_VERIFY_H
#define GSPMD_EMULATE_VERIFY_H

#include "emulate/run.h"

struct verifying {
    const struct propagation *pr;
    const struct program *p;
    enum run_mode mode;
    int threads;
    struct plan *whole, *parts;
    struct tensor *in; /* global inputs, [nin] */
    int64_t nin;
    struct run_result want; /* one device */
    double **want_bounds;   /* float mode: [nleaves], NULL: exact; else how far a result may be */
    struct run_result got;  /* all devices */
    bool bounds;            /* float mode */
    bool each;              /* intermediates, too */
    bool manual;            /* has manual regions: the whole module runs on every device */
    bool control_doubtful;  /* float mode: a loop or branch may go either way */
    struct verify_result *out;
    struct tick *tick;
    struct diag *d;
};

/* A plan of the unpartitioned module, and its inputs: one device's, or every device's. */
struct plan *verify_whole_plan(const struct verifying *v, const uint8_t *taps, struct diag *d);
const struct tensor *verify_whole_inputs(struct verifying *v, struct arena *a);
struct run_options verify_options(const struct verifying *v, int64_t ndevices);
/* One element as text, in a. */
const char *element_text(struct arena *a, const struct tensor *t, const void *at);
/* Fills v->out->first and what goes with it; leaves them none when nothing can be found. */
void verify_locate(struct verifying *v);

#endif
