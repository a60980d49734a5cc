/* plot: pictures on the terminal and in files. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "repl/pictures.h"
#include "viz/cairo.h"

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

static double scale_of(const struct shell *sh)
{
    return 1.5 * (double)(sh->scale > 0 && sh->scale <= 8 ? sh->scale : 1);
}

static bool render(struct call *c, const struct scene *s, const char *file, struct str *text)
{
    struct paint_options paint = { .dark = c->sh->theme == 1, .scale = scale_of(c->sh) };
    if (file && ends_with(file, ".svg")) {
        scene_svg_theme(s, paint.dark, text);
        return true;
    }
    if (file && ends_with(file, ".png"))
        return scene_png(s, &paint, text, c->d);
    if (file && ends_with(file, ".pdf"))
        return scene_pdf(&s, 1, &paint, text, c->d);
    if (file && !ends_with(file, ".txt")) {
        call_usage(c, -1, "%s: pictures are written as .svg, .png, .pdf or .txt", file);
        return false;
    }
    struct text_options o = { .color = !file && !c->json && c->sh->color };
    if (!file && c->sh->columns > 0)
        o.columns = c->sh->columns;
    scene_text(s, &o, text);
    return true;
}

/* ---- pictures in the terminal itself ------------------------------------------------------------- */

enum inline_kind { INLINE_NONE, INLINE_KITTY, INLINE_ITERM };

static enum inline_kind inline_kind(void)
{
    const char *term = getenv("TERM"), *program = getenv("TERM_PROGRAM");
    if (!isatty(STDOUT_FILENO))
        return INLINE_NONE;
    if (getenv("KITTY_WINDOW_ID") || (term && (strstr(term, "kitty") || strstr(term, "ghostty"))))
        return INLINE_KITTY;
    if (program && (!strcmp(program, "iTerm.app") || !strcmp(program, "WezTerm")))
        return INLINE_ITERM;
    return INLINE_NONE;
}

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

/* Both protocols take PNG; kitty's in pieces of at most 4,096 characters. */
static void add_inline(struct call *c, enum inline_kind kind, const struct str *png, struct str *out)
{
    enum { PIECE = 4096 };
    struct str text = STR_IN(&c->arena);
    add_base64(&text, png->s, png->n);
    if (kind == INLINE_ITERM) {
        str_addf(out, "\033]1337;File=inline=1;size=%zu:%s\a\n", png->n, str_text(&text));
        return;
    }
    for (size_t at = 0; at < text.n; at += PIECE) {
        size_t n = text.n - at < PIECE ? text.n - at : PIECE;
        str_addf(out, "\033_G%sm=%d;", at ? "" : "a=T,f=100,", at + n < text.n);
        str_add(out, text.s + at, n);
        str_adds(out, "\033\\");
    }
    str_addc(out, '\n');
}

static int draw_inline(struct call *c, const struct scene *s)
{
    struct paint_options paint = { .dark = c->sh->theme == 1, .scale = scale_of(c->sh) };
    struct str png = STR_IN(&c->arena), text = STR_IN(&c->arena);
    enum inline_kind kind = inline_kind();
    if (kind == INLINE_NONE) {
        call_usage(c, -1, "this terminal shows no pictures");
        diag_hint(c->d, "kitty, Ghostty, iTerm2 and WezTerm do; others: window, or -o FILE.png");
        return STATUS_USAGE;
    }
    if (!scene_png(s, &paint, &png, c->d))
        return call_failed(c);
    add_inline(c, kind, &png, &text);
    /* our own escapes, past what keeps those of others from the terminal */
    c->sh->sink.write(c->sh->sink.context, false, text.s, text.n);
    return STATUS_OK;
}

static struct picture picture_of(struct call *c, const char *file)
{
    enum { WIDE = 900, FEW = 8, MORE = 16, MANY = 64, PAGES = 4, MANY_PAGES = 16 };
    struct capture *to = c->sh->capture;
    struct picture p = { .c = c, .a = to ? to->arena : &c->arena };
    p.text = !to && (!file || ends_with(file, ".txt"));
    bool shown_inline = !to && !file && call_option(c, "--inline");
    p.text = p.text && !shown_inline;
    p.width = to ? to->width : p.text ? 0 : WIDE;
    p.most = to && to->many ? MANY : p.text ? FEW : MORE;
    p.pages = to && to->many ? MANY_PAGES : PAGES;
    return p;
}

static int answer(struct call *c, const char *file, const struct str *text)
{
    if (!file) {
        if (c->json)
            json_put_string(&c->js, "text", text->s ? text->s : "");
        else
            str_add(&c->out, text->s ? text->s : "", text->n);
        return STATUS_OK;
    }
    if (!write_file(c, file, text->s ? text->s : "", text->n))
        return STATUS_RESOURCE;
    if (c->json)
        json_put_string(&c->js, "file", file);
    else if (!c->sh->quiet)
        out(c, "%s: %s\n", file, nice_bytes(&c->arena, (int64_t)text->n));
    return STATUS_OK;
}

static int draw(struct call *c, const char *file, struct scene *make(struct picture *p))
{
    struct str text = STR_IN(&c->arena);
    struct picture p = picture_of(c, file);
    if (file && (c->sh->safe || c->sh->sealed))
        return call_usage(c, -1, "--safe: %s writes no file", c->cmd->name);
    p.dot = file && ends_with(file, ".dot") ? &text : NULL;
    struct scene *s = make(&p);
    if (!s)
        return call_failed(c);
    if (c->sh->capture) {
        c->sh->capture->scene = s;
        return STATUS_OK;
    }
    if (!file && call_option(c, "--inline"))
        return draw_inline(c, s);
    if (p.dot && text.n > 0)
        return answer(c, file, &text);
    return render(c, s, file, &text) ? answer(c, file, &text) : call_failed(c);
}

int cmd_plot(struct call *c)
{
    return draw(c, call_option(c, "-o"), picture_scene);
}

/* FILE.png is a file a frame: FILE-00.png, FILE-01.png, ... */
static int write_frames(struct call *c, const char *file, struct scene *const *frames, int64_t n)
{
    struct paint_options paint = { .dark = c->sh->theme == 1, .scale = scale_of(c->sh) };
    /* all of one size, as films want it */
    double w = 0, h = 0;
    for (int64_t k = 0; k < n; k++) {
        w = frames[k]->width > w ? frames[k]->width : w;
        h = frames[k]->height > h ? frames[k]->height : h;
    }
    int stem = (int)(strlen(file) - strlen(".png"));
    for (int64_t k = 0; k < n; k++) {
        struct str png = STR_IN(&c->arena);
        frames[k]->width = w;
        frames[k]->height = h;
        if (!scene_png(frames[k], &paint, &png, c->d))
            return call_failed(c);
        if (!write_file(c, arena_printf(&c->arena, "%.*s-%02d.png", stem, file, (int)k), png.s, png.n))
            return STATUS_RESOURCE;
    }
    if (c->json)
        json_put_int(&c->js, "frames", n);
    else if (!c->sh->quiet)
        out(c, "%.*s-00.png to %.*s-%02d.png: %s\n", stem, file, stem, file, (int)n - 1, counted(&c->arena, n, "frame"));
    return STATUS_OK;
}

static int write_pages(struct call *c, const char *file, struct scene *const *frames, int64_t n)
{
    struct paint_options paint = { .dark = c->sh->theme == 1 };
    const struct scene **pages = ARENA_ARRAY(&c->arena, const struct scene *, n);
    struct str pdf = STR_IN(&c->arena);
    for (int64_t k = 0; k < n; k++)
        pages[k] = frames[k];
    return scene_pdf(pages, (int)n, &paint, &pdf, c->d) ? answer(c, file, &pdf) : call_failed(c);
}

int cmd_animate(struct call *c)
{
    const char *file = call_option(c, "-o");
    bool png = file && ends_with(file, ".png"), pdf = file && ends_with(file, ".pdf");
    struct picture p = picture_of(c, file);
    struct scene **frames;
    if (!png && !pdf)
        return draw(c, file, picture_hops);
    if (c->sh->safe || c->sh->sealed)
        return call_usage(c, -1, "--safe: animate writes no file");
    int64_t n = picture_frames(&p, &frames);
    if (n < 0)
        return call_failed(c);
    return png ? write_frames(c, file, frames, n) : write_pages(c, file, frames, n);
}

int cmd_graph(struct call *c)
{
    return draw(c, call_option(c, "-o"), picture_graph);
}
