/* plot: pictures on the terminal and in files. */
#include <stdlib.h>
#include <string.h>

#include "repl/inline.h"
#include "repl/pictures.h"
#include "viz/cairo.h"

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

double picture_scale(const struct shell *sh)
{
    return 1.5 * (double)(sh->scale > 0 && sh->scale <= 8 ? sh->scale : 1);
}

/* `set glyphs=`; auto: what the terminal's encoding has. Off the terminal, and in files, nothing depends on that. */
static bool is_ascii(const struct shell *sh, const char *file)
{
    enum { GLYPHS_AUTO, GLYPHS_UNICODE, GLYPHS_ASCII };
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    if (sh->glyphs != GLYPHS_AUTO || file || sh->columns == 0 || sh->transcript)
        return sh->glyphs == GLYPHS_ASCII;
    const char *locale = NULL;
    for (size_t k = 0; k < COUNTOF(names) && !(locale && locale[0]); k++)
        locale = getenv(names[k]);
    return !locale || !(strcasestr(locale, "utf-8") || strcasestr(locale, "utf8"));
}

static bool render(struct call *c, const struct scene *s, const char *file, struct str *text)
{
    struct paint_options paint = { .dark = c->sh->theme == 1, .scale = picture_scale(c->sh) };
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
    struct text_options o = { .color = !file && !c->json && c->sh->color, .ascii = is_ascii(c->sh, file) };
    if (!file && !c->all && c->sh->columns > 0)
        o.columns = c->sh->columns;
    c->laid_out = true;
    scene_text(s, &o, text);
    return true;
}

/* ---- pictures in the terminal itself ------------------------------------------------------------- */

static int draw_inline(struct call *c, enum inline_kind kind, const struct scene *s)
{
    struct str text = STR_IN(&c->arena);
    if (!inline_picture(c, kind, s, &text))
        return call_failed(c);
    /* our own escapes, past what keeps those of others from the terminal */
    c->sh->sink.write(c->sh->sink.context, false, text.s, text.n);
    return STATUS_OK;
}

static int no_inline(struct call *c)
{
    call_usage(c, -1, "this terminal shows no pictures");
    diag_hint(c->d, "kitty, Ghostty, iTerm2, WezTerm and those with sixels do (set inline=sixel where one does not say so); "
                    "others: window, or -o FILE.png");
    return STATUS_USAGE;
}

static struct picture picture_of(struct call *c, const char *file, bool shown_inline)
{
    enum { WIDE = 900, FEW = 8, MORE = 16, MANY = 64, PAGES = 4, MANY_PAGES = 16 };
    struct capture *to = c->sh->capture;
    struct picture p = { .c = c, .a = to ? to->arena : &c->arena };
    p.text = to ? to->text : (!file || ends_with(file, ".txt"));
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
    bool asked = call_option(c, "--inline") != NULL && !c->sh->capture && !c->json;
    enum inline_kind kind = file ? INLINE_OFF : inline_kind(c, asked);
    struct picture p = picture_of(c, file, kind != INLINE_OFF);
    if (file && (c->sh->safe || c->sh->sealed))
        return call_usage(c, -1, "--safe: %s writes no file", c->cmd->name);
    if (!file && asked && kind == INLINE_OFF)
        return no_inline(c);
    p.dot = file && ends_with(file, ".dot") ? &text : NULL;
    struct scene *s = make(&p);
    if (!s)
        return call_failed(c);
    if (c->sh->capture) {
        c->sh->capture->scene = s;
        return STATUS_OK;
    }
    if (kind != INLINE_OFF)
        return draw_inline(c, kind, s);
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
    struct paint_options paint = { .dark = c->sh->theme == 1, .scale = picture_scale(c->sh) };
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
    struct picture p = picture_of(c, file, false);
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
