/* gspmd over MPI: mpirun -n 8 gspmd-mpi -f SCRIPT. Every process runs the same commands; the devices of
 * a run are divided among them, and only the first one prints (transport.h). Built by make MPI=1. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulate/transport.h"

int gspmd_main(int argc, char **argv); /* repl/main.c's, under this name */

enum { TAG = 7, MOST = 1 << 30 };

/* Messages on their way out: MPI reads their data until they have left. */
struct outgoing {
    struct outgoing *next;
    MPI_Request request;
    void *data;
};
static struct outgoing *sending;

static void tidy(void)
{
    for (struct outgoing **p = &sending; *p;) {
        struct outgoing *x = *p;
        int done = 0;
        MPI_Test(&x->request, &done, MPI_STATUS_IGNORE);
        if (!done) {
            p = &x->next;
            continue;
        }
        *p = x->next;
        free(x->data);
        free(x);
    }
}

static void send_message(int to, const void *data, int64_t bytes)
{
    struct outgoing *x = calloc(1, sizeof *x);
    if (bytes > MOST || !x || !(x->data = malloc((size_t)bytes))) {
        fprintf(stderr, "gspmd-mpi: a message of %lld bytes cannot be sent\n", (long long)bytes);
        MPI_Abort(MPI_COMM_WORLD, 4);
        return;
    }
    tidy();
    memcpy(x->data, data, (size_t)bytes);
    MPI_Isend(x->data, (int)bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &x->request);
    x->next = sending;
    sending = x;
}

static void *receive_message(int milliseconds, int64_t *bytes)
{
    struct timespec pause = { 0, 20000 }, start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        int here = 0, n = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &here, &status);
        if (here) {
            MPI_Get_count(&status, MPI_BYTE, &n);
            void *data = malloc((size_t)n + 1);
            if (!data)
                MPI_Abort(MPI_COMM_WORLD, 4);
            MPI_Recv(data, n, MPI_BYTE, status.MPI_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            *bytes = n;
            return data;
        }
        tidy();
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 >= milliseconds)
            return NULL;
        nanosleep(&pause, NULL); /* processes may share a core */
    }
}

static void broadcast(int from, void *data, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += MOST)
        MPI_Bcast((char *)data + at, (int)(bytes - at < MOST ? bytes - at : MOST), MPI_BYTE, from,
                  MPI_COMM_WORLD);
}

static bool all(bool ok)
{
    int mine = ok, every = 0;
    MPI_Allreduce(&mine, &every, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return every != 0;
}

int main(int argc, char **argv)
{
    static struct transport t = { .send = send_message, .receive = receive_message, .broadcast = broadcast, .all = all };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t.nranks);
    transport_set(&t);
    if (t.rank > 0 && (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr) ||
                       !freopen("/dev/null", "r", stdin)))
        MPI_Abort(MPI_COMM_WORLD, 4);
    int status = gspmd_main(argc, argv);
    int worst = status;
    MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    tidy();
    MPI_Finalize();
    return worst;
}
