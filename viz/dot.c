/* Graphviz as a child process: killed when it takes too long or the user has had enough, and what it said
 * about a text is kept. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "viz/graph.h"

extern char **environ;

enum { KEPT = 32 };
static struct kept {
    uint64_t hash, hash2;
    size_t n; /* of the text */
    char *json;
    size_t length;
    int64_t used;
} kept[KEPT];
static int64_t clock_of_use, runs;

int64_t dot_runs(void)
{
    return runs;
}

static struct kept *find_kept(const char *text, size_t n)
{
    uint64_t h = hash_bytes(text, n, 1), h2 = hash_bytes(text, n, 2);
    for (int k = 0; k < KEPT; k++)
        if (kept[k].json && kept[k].hash == h && kept[k].hash2 == h2 && kept[k].n == n)
            return &kept[k];
    return NULL;
}

static void keep(const char *text, size_t n, const char *json, size_t length)
{
    struct kept *oldest = &kept[0];
    for (int k = 1; k < KEPT; k++)
        if (kept[k].used < oldest->used)
            oldest = &kept[k];
    char *copy = malloc(length + 1);
    if (!copy)
        return;
    memcpy(copy, json, length);
    copy[length] = '\0';
    free(oldest->json);
    *oldest = (struct kept){ hash_bytes(text, n, 1), hash_bytes(text, n, 2), n, copy, length, ++clock_of_use };
}

struct child {
    pid_t pid;
    int in, out; /* what it reads, what it writes */
};

static bool start(struct child *c)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0)
        return false;
    if (pipe2(from, O_CLOEXEC) != 0) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    /* a group of its own: Ctrl-C at the terminal is ours to handle, and a killed group leaves no children */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    char name[] = "dot", format[] = "-Tjson";
    char *argv[] = { name, format, NULL };
    int error = posix_spawnp(&c->pid, "dot", &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(to[0]);
    close(from[1]);
    c->in = to[1];
    c->out = from[0];
    if (error == 0)
        return true;
    close(c->in);
    close(c->out);
    errno = error;
    return false;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

enum talk { TALK_DONE, TALK_TIME, TALK_STOPPED, TALK_BROKEN };

/* Writes the text and reads the answer, whichever is ready. */
static enum talk talk(struct child *c, const char *text, size_t n, int ms, struct tick *tick, struct str *json)
{
    int64_t end = now() + ms;
    size_t written = 0;
    fcntl(c->in, F_SETFL, O_NONBLOCK);
    for (;;) {
        if (!tick_now(tick, "laying out the graph", 0, 0))
            return TALK_STOPPED;
        if (now() >= end)
            return TALK_TIME;
        struct pollfd p[2] = { { c->out, POLLIN, 0 }, { c->in, POLLOUT, 0 } };
        if (poll(p, c->in >= 0 ? 2 : 1, 10) < 0 && errno != EINTR)
            return TALK_BROKEN;
        if (c->in >= 0 && p[1].revents) {
            ssize_t k = write(c->in, text + written, n - written);
            written += k > 0 ? (size_t)k : 0;
            if (written == n || (k < 0 && errno != EAGAIN && errno != EINTR)) {
                close(c->in);
                c->in = -1;
            }
        }
        if (p[0].revents) {
            char room[16384];
            ssize_t k = read(c->out, room, sizeof room);
            if (k == 0)
                return TALK_DONE;
            if (k < 0 && errno != EINTR)
                return TALK_BROKEN;
            if (k > 0)
                str_add(json, room, (size_t)k);
        }
    }
}

static bool fail(struct diag *d, const char *code, const char *what, const char *detail)
{
    const char *before = diag_stage(d, code);
    diag_error(d, NULL, (struct span){ 0 }, "%s%s", what, detail);
    if (strcmp(code, "interrupted") != 0)
        diag_hint(d, "the graph as a list needs no dot: graph T without -o; graph T -o FILE.dot writes it for later");
    diag_stage(d, before);
    return false;
}

bool dot_run(const char *text, size_t n, int milliseconds, struct tick *tick, struct str *json, struct diag *d)
{
    struct kept *old = find_kept(text, n);
    if (old) {
        old->used = ++clock_of_use;
        str_add(json, old->json, old->length);
        return true;
    }
    struct child c;
    if (!start(&c))
        return fail(d, "limit", "graphs are laid out by Graphviz's dot, which could not be started: ",
                    strerror(errno));
    runs++;
    enum talk how = talk(&c, text, n, milliseconds, tick, json);
    if (how != TALK_DONE)
        kill(-c.pid, SIGKILL);
    if (c.in >= 0)
        close(c.in);
    close(c.out);
    int status = 0;
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (how == TALK_STOPPED)
        return fail(d, "interrupted", "interrupted", "");
    if (how == TALK_TIME)
        return fail(d, "limit", "dot took too long and was stopped", "");
    if (how == TALK_BROKEN || !WIFEXITED(status) || WEXITSTATUS(status) != 0 || json->n == 0)
        return fail(d, "limit", "dot ended without an answer",
                    WIFSIGNALED(status) ? ": it was killed" : "");
    keep(text, n, json->s, json->n);
    return true;
}
