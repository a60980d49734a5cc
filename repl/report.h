/* Reports: what commands answer, as blocks of text, tables and pictures, and the files that are made of
 * them. */
#ifndef GSPMD_REPL_REPORT_H
#define GSPMD_REPL_REPORT_H

#include "repl/shell.h"
#include "viz/scene.h"

enum block_kind { BLOCK_HEADING, BLOCK_TEXT, BLOCK_CODE, BLOCK_TABLE, BLOCK_PICTURE };

struct block {
    enum block_kind kind;
    const char *text;     /* heading, text, code; a picture's caption */
    const char *id;       /* heading: anchor */
    struct table table;   /* cells in the report's arena */
    bool filter;          /* a table long enough to be searched in */
    struct scene *scene;
};

/* A report in the making; shell.blocks points here while commands answer into it. */
struct blocks {
    struct arena *arena;
    VEC(struct block) list;
};

void blocks_heading(struct blocks *b, const char *id, const char *text);
void blocks_text(struct blocks *b, enum block_kind kind, const char *text, size_t n);
/* What a command printed: text, or code where it is laid out. */
void blocks_answer(struct blocks *b, const char *text, size_t n);
void blocks_table(struct blocks *b, const struct table *t, bool with_head);
void blocks_picture(struct blocks *b, struct scene *scene, const char *caption);

/* One self-contained file: nothing from a network, the same bytes wherever it is made. */
void report_html(const struct blocks *b, const char *title, struct str *out);
void report_markdown(const struct blocks *b, const char *title, struct str *out);
bool report_pdf(const struct blocks *b, const char *title, struct str *out, struct diag *d) MUST_CHECK;

#endif
