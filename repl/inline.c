/* Pictures in the terminal itself. Three ways: kitty's and iTerm2's escapes, which take a PNG file in base64, and
 * sixels. A terminal is known by its variables, or asked: whoever knows kitty's escapes answers them, and sixels
 * are attribute 4 of the answer to "who are you". Inside tmux the variables tell of the terminal outside, so there
 * only the answer counts. */
#include "repl/inline.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "repl/pictures.h"
#include "viz/cairo.h"
#include "viz/sixel.h"

/* ---- which way ----------------------------------------------------------------------------------- */

static bool has(const char *variable, const char *part)
{
    const char *v = getenv(variable);
    return v && strstr(v, part);
}

static enum inline_kind known_terminal(void)
{
    if (getenv("TMUX") || has("TERM", "screen") || has("TERM", "tmux"))
        return INLINE_OFF;
    if (getenv("KITTY_WINDOW_ID") || has("TERM", "kitty") || has("TERM", "ghostty"))
        return INLINE_KITTY;
    if (has("TERM_PROGRAM", "iTerm") || has("TERM_PROGRAM", "WezTerm") || has("LC_TERMINAL", "iTerm"))
        return INLINE_ITERM;
    if (has("TERM", "sixel") || has("TERM", "mlterm") || has("TERM", "foot") || has("TERM_PROGRAM", "mintty"))
        return INLINE_SIXEL;
    return INLINE_OFF;
}

/* Reads up to the end of the answer to "who are you", which every terminal gives last: ESC [ ? .. c. */
static size_t read_answer(int fd, char *answer, size_t most)
{
    enum { PATIENCE = 300 };
    size_t n = 0;
    struct pollfd p = { .fd = fd, .events = POLLIN };
    while (n + 1 < most && poll(&p, 1, PATIENCE) > 0) {
        if (read(fd, answer + n, 1) != 1)
            break;
        answer[++n] = '\0';
        const char *who = strstr(answer, "\033[?");
        if (who && answer[n - 1] == 'c')
            break;
    }
    return n;
}

static bool has_attribute(const char *answer, int attribute)
{
    const char *p = strstr(answer, "\033[?");
    if (!p)
        return false;
    for (p += 3; *p >= '0' && *p <= '9';) {
        char *end;
        if (strtol(p, &end, 10) == attribute)
            return true;
        p = *end == ';' ? end + 1 : end;
    }
    return false;
}

static enum inline_kind asked_terminal(void)
{
    static const char question[] = "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\\033[c";
    char answer[512] = "";
    struct termios old, raw;
    const char *term = getenv("TERM");
    if (!term || !strcmp(term, "dumb") || !strcmp(term, "linux") || !isatty(STDOUT_FILENO))
        return INLINE_OFF;
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return INLINE_OFF;
    /* in the background a terminal is not to be touched */
    if (tcgetpgrp(fd) != getpgrp() || tcgetattr(fd, &old) != 0) {
        close(fd);
        return INLINE_OFF;
    }
    raw = old;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(fd, TCSADRAIN, &raw) == 0) {
        if (write(fd, question, sizeof question - 1) == (ssize_t)(sizeof question - 1))
            read_answer(fd, answer, sizeof answer);
        tcsetattr(fd, TCSADRAIN, &old);
    }
    close(fd);
    return strstr(answer, "\033_Gi=31;OK") ? INLINE_KITTY : has_attribute(answer, 4) ? INLINE_SIXEL : INLINE_OFF;
}

enum inline_kind inline_kind(const struct call *c, bool asked)
{
    struct shell *sh = c->sh;
    enum inline_kind mode = (enum inline_kind)sh->inline_mode;
    /* off the terminal pictures are text, or files */
    if (sh->capture || sh->aside || sh->blocks || sh->transcript || sh->sealed || c->json || c->all)
        return INLINE_OFF;
    if (mode >= INLINE_KITTY) /* the user knows better; but only --inline writes escapes into a pipe */
        return asked || isatty(STDOUT_FILENO) ? mode : INLINE_OFF;
    if ((mode == INLINE_OFF && !asked) || !isatty(STDOUT_FILENO))
        return INLINE_OFF;
    if (sh->inline_found == 0) {
        enum inline_kind k = known_terminal();
        sh->inline_found = 1 + (int)(k != INLINE_OFF ? k : asked_terminal());
    }
    return (enum inline_kind)(sh->inline_found - 1);
}

/* ---- its bytes ----------------------------------------------------------------------------------- */

static void add_base64(struct str *out, const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t k = 0; k < n; k += 3) {
        uint32_t v = 0;
        for (size_t i = 0; i < 3; i++)
            v = v << 8 | (k + i < n ? (unsigned char)bytes[k + i] : 0u);
        for (size_t i = 0; i < 4; i++)
            str_addc(out, k + i > n && i > 1 ? '=' : digits[v >> (18 - 6 * i) & 63]);
    }
}

/* In pieces of at most 4,096 characters. */
static void add_kitty(struct str *out, const struct str *base64)
{
    enum { PIECE = 4096 };
    for (size_t at = 0; at < base64->n; at += PIECE) {
        size_t n = base64->n - at < PIECE ? base64->n - at : PIECE;
        str_addf(out, "\033_G%sm=%d;", at ? "" : "a=T,f=100,", at + n < base64->n);
        str_add(out, base64->s + at, n);
        str_adds(out, "\033\\");
    }
    str_addc(out, '\n');
}

static bool add_sixels(struct call *c, const struct scene *s, const struct paint_options *o, struct str *out)
{
    enum { MOST = 4096 };
    double w = (s->width + 2 * SCENE_MARGIN) * o->scale, h = (s->height + 2 * SCENE_MARGIN) * o->scale;
    if (!cairo_ready(c->d))
        return false;
    struct canvas *canvas = w <= MOST && h <= 4 * MOST ? canvas_new((int)w + 1, (int)h + 1) : NULL;
    if (!canvas) {
        call_error(c, STATUS_RESOURCE, "limit", "the picture is too large for the terminal");
        diag_hint(c->d, "plot VIEW -o FILE.svg has no such limit");
        return false;
    }
    struct camera cam = { .x = -SCENE_MARGIN, .y = -SCENE_MARGIN, .scale = o->scale };
    int stride;
    canvas_scene(canvas, s, &cam, o->dark, 0, 0, (int)w + 1, (int)h + 1);
    const uint32_t *pixels = canvas_pixels(canvas, &stride);
    sixel_write(pixels, (int)w + 1, (int)h + 1, stride, &c->arena, out);
    canvas_free(canvas);
    str_addc(out, '\n');
    return true;
}

bool inline_picture(struct call *c, enum inline_kind kind, const struct scene *s, struct str *out)
{
    struct paint_options paint = { .dark = c->sh->theme == 1, .scale = picture_scale(c->sh) };
    struct str png = STR_IN(&c->arena), text = STR_IN(&c->arena);
    if (kind == INLINE_SIXEL)
        return add_sixels(c, s, &paint, out);
    if (!scene_png(s, &paint, &png, c->d))
        return false;
    add_base64(&text, png.s, png.n);
    if (kind == INLINE_KITTY)
        add_kitty(out, &text);
    else
        str_addf(out, "\033]1337;File=inline=1;size=%zu:%s\a\n", png.n, str_text(&text));
    return true;
}
