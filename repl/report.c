/* What a report is made of, and its text forms. */
#include "repl/report.h"

#include <string.h>

#include "viz/cairo.h"

/* ---- blocks ---------------------------------------------------------------------------------------- */

static void add(struct blocks *b, struct block k)
{
    vec_push(b->arena, &b->list, k);
}

void blocks_heading(struct blocks *b, const char *id, const char *text)
{
    add(b, (struct block){ .kind = BLOCK_HEADING,
                           .id = arena_strdup(b->arena, id),
                           .text = arena_strdup(b->arena, text) });
}

void blocks_text(struct blocks *b, enum block_kind kind, const char *text, size_t n)
{
    while (n > 0 && text[n - 1] == '\n')
        n--;
    if (n > 0)
        add(b, (struct block){ .kind = kind, .text = arena_strndup(b->arena, text, n) });
}

void blocks_answer(struct blocks *b, const char *text, size_t n)
{
    while (n > 0 && text[n - 1] == '\n')
        n--;
    /* What is laid out in columns, or in lines, stays so. */
    bool laid_out = memchr(text, '\n', n) || memmem(text, n, "  ", 2);
    blocks_text(b, laid_out ? BLOCK_CODE : BLOCK_TEXT, text, n);
}

void blocks_table(struct blocks *b, const struct table *t, bool with_head)
{
    enum { MANY_ROWS = 12 };
    if (t->rows.n == 0)
        return;
    struct block k = { .kind = BLOCK_TABLE, .filter = t->rows.n > MANY_ROWS };
    k.table = (struct table){ .arena = b->arena, .n = t->n };
    for (int i = 0; i < t->n; i++) {
        k.table.right[i] = t->right[i];
        k.table.head[i] = with_head && t->head[i] ? arena_strdup(b->arena, t->head[i]) : "";
    }
    for (int64_t r = 0; r < t->rows.n; r++) {
        const char **row = table_row(&k.table);
        for (int i = 0; i < t->n; i++)
            row[i] = arena_strdup(b->arena, t->rows.v[r][i] ? t->rows.v[r][i] : "");
    }
    add(b, k);
}

void blocks_picture(struct blocks *b, struct scene *scene, const char *caption)
{
    add(b, (struct block){ .kind = BLOCK_PICTURE,
                           .scene = scene,
                           .text = arena_strdup(b->arena, caption) });
}

static bool column_used(const struct table *t, int k)
{
    for (int64_t r = 0; r < t->rows.n; r++)
        if (t->rows.v[r][k][0])
            return true;
    return false;
}

/* ---- HTML ------------------------------------------------------------------------------------------ */

static void html(struct str *s, const char *text)
{
    for (const char *p = text; *p; p++) {
        switch (*p) {
        case '&': str_adds(s, "&amp;"); break;
        case '<': str_adds(s, "&lt;"); break;
        case '>': str_adds(s, "&gt;"); break;
        case '"': str_adds(s, "&quot;"); break;
        default: str_addc(s, *p); break;
        }
    }
}

static const char STYLE[] =
    ":root{color-scheme:light dark;--ground:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--band:#f6f8fa;"
    "--mark:#0550ae}\n"
    "@media(prefers-color-scheme:dark){:root{--ground:#12161b;--ink:#e6edf3;--soft:#9aa4af;--line:#333b44;"
    "--band:#1a2028;--mark:#79b8ff}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:72rem;padding:1.5rem;background:var(--ground);color:var(--ink);"
    "font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.7rem;margin:.2rem 0 1rem}h2{font-size:1.25rem;margin:2.2rem 0 .6rem;"
    "border-bottom:1px solid var(--line);padding-bottom:.2rem}\n"
    "nav ul{columns:14rem;padding-left:1.2rem;margin:.5rem 0}a{color:var(--mark)}\n"
    "p{margin:.5rem 0;white-space:pre-line}\n"
    "pre{background:var(--band);border:1px solid var(--line);border-radius:6px;padding:.7rem .9rem;"
    "overflow-x:auto;font:13px/1.45 ui-monospace,monospace;margin:.6rem 0}\n"
    ".scroll{overflow-x:auto;margin:.6rem 0}\n"
    "table{border-collapse:collapse;font-size:.88rem}th,td{padding:.22rem .7rem;text-align:left;"
    "border-bottom:1px solid var(--line);white-space:nowrap}\n"
    "td.wide{white-space:normal;min-width:18rem}\n"
    "th{background:var(--band);position:sticky;top:0}th.right,td.right{text-align:right;"
    "font-variant-numeric:tabular-nums}\n"
    "th button{all:unset;cursor:pointer;font-weight:600}th button:focus-visible{outline:2px solid var(--mark)}\n"
    "th[aria-sort=ascending] button::after{content:' \\2191'}"
    "th[aria-sort=descending] button::after{content:' \\2193'}\n"
    "input.filter{font:inherit;font-size:.88rem;padding:.2rem .5rem;margin:.3rem 0;width:18rem;max-width:100%}\n"
    "figure{margin:.8rem 0;background:#fff;border:1px solid var(--line);border-radius:6px;padding:.5rem;"
    "overflow-x:auto}figure svg{max-width:100%;height:auto}figcaption{color:#57606a;font-size:.88rem}\n"
    "@media(max-width:40rem){body{padding:.8rem;font-size:15px}th,td{padding:.2rem .45rem}}\n"
    "@media print{body{max-width:none;padding:0;font-size:10pt}nav,input.filter{display:none}"
    "h2{break-after:avoid}figure,tr{break-inside:avoid}th{position:static}.scroll,pre{overflow:visible}"
    "td,th{white-space:normal}pre{white-space:pre-wrap}}\n";

/* Sorting and filtering; everything can be read without. Numbers sort as numbers, commas and units
 * taken into account. */
static const char SCRIPT[] =
    "(function(){\n"
    "function value(t){t=t.trim();var m=/^(-?[\\d,]+(?:\\.\\d+)?)\\s*(bytes|KiB|MiB|GiB|TiB|us|ms|s)?$/.exec(t);\n"
    "if(!m)return t.toLowerCase();var u={KiB:1024,MiB:1048576,GiB:1073741824,TiB:1099511627776,us:1e-6,ms:1e-3};\n"
    "return parseFloat(m[1].replace(/,/g,''))*(u[m[2]]||1)}\n"
    "document.querySelectorAll('table.sortable').forEach(function(t){\n"
    "var b=t.tBodies[0];t.querySelectorAll('thead th').forEach(function(h,k){\n"
    "if(!h.textContent.trim())return;var x=document.createElement('button');x.type='button';\n"
    "x.textContent=h.textContent;h.textContent='';h.appendChild(x);x.addEventListener('click',function(){\n"
    "var down=h.getAttribute('aria-sort')==='ascending';\n"
    "t.querySelectorAll('th').forEach(function(o){o.removeAttribute('aria-sort')});\n"
    "h.setAttribute('aria-sort',down?'descending':'ascending');\n"
    "Array.from(b.rows).map(function(r,i){return[value(r.cells[k].textContent),i,r]}).sort(function(p,q){\n"
    "var n=typeof p[0]===typeof q[0]?(p[0]<q[0]?-1:p[0]>q[0]?1:0):typeof p[0]==='number'?-1:1;\n"
    "return(down?-n:n)||p[1]-q[1]}).forEach(function(p){b.appendChild(p[2])})})});\n"
    "if(t.classList.contains('filterable')){var f=document.createElement('input');f.type='search';\n"
    "f.className='filter';f.placeholder='filter rows';f.setAttribute('aria-label','filter rows');\n"
    "t.parentNode.parentNode.insertBefore(f,t.parentNode);f.addEventListener('input',function(){\n"
    "var w=f.value.toLowerCase();Array.from(b.rows).forEach(function(r){\n"
    "r.hidden=r.textContent.toLowerCase().indexOf(w)<0})})}})})();\n";

static bool is_wide(const char *cell)
{
    return strlen(cell) > 48;
}

static void html_table(const struct block *k, const char *heading, struct str *s)
{
    const struct table *t = &k->table;
    str_addf(s, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    html(s, heading);
    str_addf(s, "\"><table class=\"sortable%s\">\n", k->filter ? " filterable" : "");
    bool head = false;
    for (int i = 0; i < t->n; i++)
        head |= t->head[i][0] != '\0';
    if (head) {
        str_adds(s, "<thead><tr>");
        for (int i = 0; i < t->n; i++) {
            if (!column_used(t, i))
                continue;
            str_addf(s, "<th scope=\"col\"%s>", t->right[i] ? " class=\"right\"" : "");
            html(s, t->head[i]);
            str_adds(s, "</th>");
        }
        str_adds(s, "</tr></thead>\n");
    }
    str_adds(s, "<tbody>\n");
    for (int64_t r = 0; r < t->rows.n; r++) {
        str_adds(s, "<tr>");
        for (int i = 0; i < t->n; i++) {
            const char *cell = t->rows.v[r][i];
            if (!column_used(t, i))
                continue;
            str_addf(s, "<td%s>", t->right[i]     ? " class=\"right\""
                                  : is_wide(cell) ? " class=\"wide\""
                                                  : "");
            html(s, cell);
            str_adds(s, "</td>");
        }
        str_adds(s, "</tr>\n");
    }
    str_adds(s, "</tbody></table></div>\n");
}

/* Drawings of one document must not share names. */
static void html_picture(const struct block *k, int number, struct str *s)
{
    struct str svg = STR_IN(s->arena);
    scene_svg(k->scene, &svg);
    const char *p = str_text(&svg), *start = strstr(p, "<svg");
    str_adds(s, "<figure>");
    for (p = start ? start : p; *p; p++) {
        bool id = !strncmp(p, " id=\"", 5), hash = !strncmp(p, "url(#", 5), ref = !strncmp(p, "href=\"#", 7);
        bool labelled = !strncmp(p, "labelledby=\"", 12);
        if (id || hash || ref || labelled) {
            size_t n = id ? 5 : hash ? 5 : ref ? 7 : 12;
            str_add(s, p, n);
            str_addf(s, "p%d-", number);
            p += n - 1;
        } else {
            str_addc(s, *p);
        }
    }
    str_adds(s, "<figcaption>");
    html(s, k->text);
    str_adds(s, "</figcaption></figure>\n");
}

static void html_contents(const struct blocks *b, struct str *s)
{
    str_adds(s, "<nav aria-label=\"Contents\"><ul>\n");
    for (int64_t k = 0; k < b->list.n; k++) {
        const struct block *x = &b->list.v[k];
        if (x->kind != BLOCK_HEADING)
            continue;
        str_addf(s, "<li><a href=\"#%s\">", x->id);
        html(s, x->text);
        str_adds(s, "</a></li>\n");
    }
    str_adds(s, "</ul></nav>\n<main>\n");
}

void report_html(const struct blocks *b, const char *title, struct str *s)
{
    str_adds(s, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
    html(s, title);
    str_addf(s, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", STYLE);
    html(s, title);
    str_adds(s, "</h1>\n");
    html_contents(b, s);
    const char *heading = "";
    bool open = false;
    int pictures = 0;
    for (int64_t k = 0; k < b->list.n; k++) {
        const struct block *x = &b->list.v[k];
        switch (x->kind) {
        case BLOCK_HEADING:
            heading = x->text;
            str_addf(s, "%s<section>\n<h2 id=\"%s\">", open ? "</section>\n" : "", x->id);
            open = true;
            html(s, x->text);
            str_adds(s, "</h2>\n");
            break;
        case BLOCK_TEXT:
            str_adds(s, "<p>");
            html(s, x->text);
            str_adds(s, "</p>\n");
            break;
        case BLOCK_CODE:
            str_adds(s, "<pre><code>");
            html(s, x->text);
            str_adds(s, "</code></pre>\n");
            break;
        case BLOCK_TABLE: html_table(x, heading, s); break;
        case BLOCK_PICTURE: html_picture(x, ++pictures, s); break;
        }
    }
    str_addf(s, "%s</main>\n<script>\n%s</script>\n</body>\n</html>\n", open ? "</section>\n" : "",
             SCRIPT);
}

/* ---- Markdown -------------------------------------------------------------------------------------- */

static void markdown_cell(struct str *s, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '|' || *p == '\\' || *p == '`' || *p == '*' || *p == '_' || *p == '<' || *p == '[' ||
            *p == ']')
            str_addc(s, '\\');
        str_addc(s, *p);
    }
}

static void markdown_table(const struct table *t, struct str *s)
{
    str_addc(s, '|');
    for (int i = 0; i < t->n; i++)
        if (column_used(t, i)) {
            str_addc(s, ' ');
            markdown_cell(s, t->head[i]);
            str_adds(s, " |");
        }
    str_adds(s, "\n|");
    for (int i = 0; i < t->n; i++)
        if (column_used(t, i))
            str_adds(s, t->right[i] ? " ---: |" : " --- |");
    str_addc(s, '\n');
    for (int64_t r = 0; r < t->rows.n; r++) {
        str_addc(s, '|');
        for (int i = 0; i < t->n; i++)
            if (column_used(t, i)) {
                str_addc(s, ' ');
                markdown_cell(s, t->rows.v[r][i]);
                str_adds(s, " |");
            }
        str_addc(s, '\n');
    }
    str_addc(s, '\n');
}

void report_markdown(const struct blocks *b, const char *title, struct str *s)
{
    str_addf(s, "# %s\n\n", title);
    for (int64_t k = 0; k < b->list.n; k++) {
        const struct block *x = &b->list.v[k];
        struct text_options plain = { .columns = 80 };
        switch (x->kind) {
        case BLOCK_HEADING: str_addf(s, "## %s\n\n", x->text); break;
        case BLOCK_TEXT: str_addf(s, "%s\n\n", x->text); break;
        case BLOCK_CODE: str_addf(s, "```\n%s\n```\n\n", x->text); break;
        case BLOCK_TABLE: markdown_table(&x->table, s); break;
        case BLOCK_PICTURE:
            str_addf(s, "%s\n\n```\n", x->text);
            scene_text(x->scene, &plain, s);
            str_adds(s, "```\n\n");
            break;
        }
    }
}

/* ---- PDF ------------------------------------------------------------------------------------------- */

enum { PAGE_COLUMNS = 104, PAGE_LINES = 72, PAGE_WIDTH = 571, PAGE_HEIGHT = 818, LINE_HEIGHT = 11 };

struct pages {
    struct arena *arena;
    VEC(struct scene *) list;
    struct scene *now;
    double y;
};

static void new_page(struct pages *p)
{
    p->now = scene_new(p->arena);
    p->now->width = PAGE_WIDTH;
    p->now->height = PAGE_HEIGHT;
    p->y = 0;
    vec_push(p->arena, &p->list, p->now);
}

static void page_line(struct pages *p, double size, bool bold, const char *text, size_t n)
{
    if (!p->now || p->y + size > PAGE_HEIGHT - LINE_HEIGHT)
        new_page(p);
    struct scene_item *it = scene_add(p->now, SCENE_TEXT, bold ? ROLE_CAPTION : ROLE_LABEL);
    it->x = 0;
    it->y = p->y + size;
    it->text = arena_strndup(p->arena, text, n);
    it->size = size;
    it->bold = bold;
    p->y += size * 1.35;
}

/* Lines too long for a page go on below, indented. */
static void page_text(struct pages *p, const char *text)
{
    for (const char *l = text; *l;) {
        size_t n = strcspn(l, "\n");
        for (size_t at = 0; at < n || n == 0;) {
            size_t most = at ? PAGE_COLUMNS - 4 : PAGE_COLUMNS, len = n - at < most ? n - at : most;
            while (at + len < n && ((unsigned char)l[at + len] & 0xC0) == 0x80)
                len--;
            struct str s = STR_IN(p->arena);
            str_adds(&s, at ? "    " : "");
            str_add(&s, l + at, len);
            page_line(p, 7.6, false, str_text(&s), s.n);
            at += len;
            if (n == 0)
                break;
        }
        l += n + (l[n] == '\n');
    }
    p->y += 4;
}

static void page_table(struct pages *p, const struct table *t)
{
    int width[TABLE_COLUMNS] = { 0 };
    for (int64_t r = -1; r < t->rows.n; r++)
        for (int i = 0; i < t->n; i++) {
            int w = scene_text_columns(r < 0 ? t->head[i] : t->rows.v[r][i]);
            width[i] = w > width[i] ? w : width[i];
        }
    struct str s = STR_IN(p->arena);
    for (int64_t r = -1; r < t->rows.n; r++) {
        for (int i = 0; i < t->n; i++) {
            const char *cell = r < 0 ? t->head[i] : t->rows.v[r][i];
            if (!column_used(t, i))
                continue;
            int pad = width[i] - scene_text_columns(cell);
            str_addf(&s, "%*s%s%*s  ", t->right[i] ? pad : 0, "", cell, t->right[i] ? 0 : pad, "");
        }
        while (s.n > 0 && s.s[s.n - 1] == ' ')
            s.n--;
        str_addc(&s, '\n');
    }
    page_text(p, str_text(&s));
}

bool report_pdf(const struct blocks *b, const char *title, struct str *out, struct diag *d)
{
    struct pages p = { .arena = out->arena };
    page_line(&p, 15, true, title, strlen(title));
    p.y += 6;
    for (int64_t k = 0; k < b->list.n; k++) {
        const struct block *x = &b->list.v[k];
        switch (x->kind) {
        case BLOCK_HEADING:
            p.y += 10;
            if (p.y > PAGE_HEIGHT - 6 * LINE_HEIGHT)
                p.now = NULL;
            page_line(&p, 11.5, true, x->text, strlen(x->text));
            p.y += 4;
            break;
        case BLOCK_TEXT:
        case BLOCK_CODE: page_text(&p, x->text); break;
        case BLOCK_TABLE: page_table(&p, &x->table); break;
        case BLOCK_PICTURE:
            if (x->scene->width <= PAGE_WIDTH && x->scene->height <= PAGE_HEIGHT - 20) {
                if (!p.now || p.y + x->scene->height + 26 > PAGE_HEIGHT)
                    new_page(&p);
                scene_append(p.now, x->scene, 0, p.y + 10);
                p.y += x->scene->height + 22;
            } else {
                /* Too large for the paper: a page of its own size. */
                vec_push(p.arena, &p.list, x->scene);
                p.now = NULL;
            }
            break;
        }
    }
    return scene_pdf((const struct scene *const *)(const void *)p.list.v, (int)p.list.n,
                     &(struct paint_options){ 0 }, out, d);
}
