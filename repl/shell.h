/* The shell: one session of commands over a document. main, the window's command bar, tests and
 * fuzzers are its clients; it prints only through its sink. */
#ifndef GSPMD_REPL_SHELL_H
#define GSPMD_REPL_SHELL_H

#include <signal.h>
#include <stdio.h>

#include "repl/json.h"
#include "repl/lex.h"
#include "session/session.h"

/* Exit statuses, language.md section 7. */
enum {
    STATUS_OK = 0,
    STATUS_DIFFERS = 1,  /* an expect, a verify, a comparison failed */
    STATUS_USAGE = 2,    /* usage, syntax, wrong name or sharding in a command */
    STATUS_INPUT = 3,    /* an input could not be opened or read */
    STATUS_RESOURCE = 4, /* output or a resource failed */
    STATUS_INTERNAL = 70,
    STATUS_INTERRUPTED = 130
};

enum switch3 { AUTO, ALWAYS, NEVER };

/* Where text goes. Data and messages apart. */
struct sink {
    void (*write)(void *context, bool message, const char *bytes, size_t n);
    void *context;
};

/* A sink's write that keeps nothing: for commands whose status alone is wanted. */
void sink_drop(void *context, bool message, const char *bytes, size_t n);

struct command_alias {
    const char *name, *text;
};

/* An expectation, a verify, or a command that failed, for --junit (review.h). */
struct review_case {
    const char *command, *file; /* file NULL: typed */
    int line;
    const char *message; /* NULL: it held */
    bool broken;         /* it could not be answered at all */
};

/* Where plot puts its scene instead of drawing it: a window asks for scenes so. */
struct scene;
struct capture {
    struct arena *arena;
    struct scene *scene; /* out; NULL: there is none, and messages say why */
    double width;        /* points that the picture may take in width */
    bool many;           /* thousands of tiles are welcome: it can be panned */
    bool text;           /* as for a terminal of 80 columns */
};

struct shell {
    struct document *doc;
    struct arena arena; /* of the session: history, aliases */
    struct sink sink;
    bool json, serve, quiet, safe;
    bool sealed;      /* fuzzers: no file is opened at all */
    bool interactive; /* a prompt is shown: prefixes without warning, screens, progress */
    bool transcript;  /* time shows no figures */
    bool opening;     /* the command line's model is being loaded: no answer of its own */
    bool one_line;    /* the running command was typed in one line: carets go under it */
    enum switch3 color_mode;
    bool color;
    bool bail, pager;
    int64_t limit;     /* rows of a list; 0: a screen */
    int theme;         /* of pictures; 0: light, 1: dark */
    int64_t scale;     /* of pictures, 2 for a projector; 0: 1 */
    int glyphs;        /* of pictures as text; 0: as the terminal's encoding has them, 1: Unicode, 2: ASCII */
    int inline_mode;   /* enum inline_kind (inline.h): pictures in the terminal itself */
    int inline_found;  /* what the terminal said it can: 1 + enum inline_kind; 0: nobody has asked */
    bool aside;        /* a command of the window's bar: its answer goes into the window */
    struct capture *capture;
    struct picture_run *picture_run; /* the last run that was drawn (picture_trace.c) */
    struct blocks *blocks; /* a report that commands answer into (report.h); NULL: none */
    struct viewer *viewer; /* the window, when one was opened (repl/viewer.h) */
    int rows, columns; /* of the terminal; 0: no terminal */
    int depth;         /* nesting of source, alias, time */
    int alias_depth;
    bool quit;
    int status;             /* of the last command */
    int first_failure;      /* of the script */
    const char *request_id; /* --serve: JSON of the id, or NULL */
    struct tick tick;
    volatile sig_atomic_t interrupted;
    double tick_started;
    bool tick_shown;
    /* A line from whoever sits at the prompt, malloced; NULL: the end. NULL where nobody does. */
    char *(*ask)(struct shell *sh, const char *prompt);
    FILE *log;
    VEC(const char *) history;
    VEC(struct command_alias) aliases;
    VEC(struct review_case) cases;
    struct journal *journal; /* of an interactive session (journal.h); NULL: none */
    struct hardware *hardware; /* chosen device type; NULL: the default one, read when needed */
    int nshape;                /* chips along the torus axes, where the user said so */
    int64_t shape[4];
    bool unsaved;      /* edits since the last save */
    struct debugger *debug; /* break, continue, print: devices in lock step; NULL: none */
    uint64_t debug_key;     /* of the strategy whose program it runs */
    const void *debug_program;
    int64_t step_at;   /* step, back, run-to: changes behind the cursor, in the history of */
    uint64_t step_key; /* this key; another one: the cursor is nowhere yet */
};

struct shell *shell_new(struct sink sink);
void shell_free(struct shell *sh);
void debug_forget(struct shell *sh); /* ends a debugger (cmd_debug.c) */

/* Runs every command of a text; name for messages ("<command>", a file). Stops at the first error
 * when bail is on and the shell not interactive. Returns the status that the text ends with. */
int shell_run(struct shell *sh, const char *name, const char *text, size_t n);
/* Runs the first command of src at *pos and moves *pos behind it. final as in lex_command. */
enum lex_result shell_step(struct shell *sh, const struct source *src, size_t *pos, bool final);
/* Loads the model named on the command line. */
int shell_load(struct shell *sh, const char *path);
/* One request of --serve: {"id":..,"command":".."} */
void shell_serve_line(struct shell *sh, const char *line, size_t n);

void shell_find_terminal(struct shell *sh); /* size and colour of the terminal */
char *shell_prompt(struct shell *sh, struct arena *a);

/* ---- one running command --------------------------------------------------------------------------- */

struct command;

struct option {
    const char *name, *value; /* value NULL: none was given */
    uint32_t off, len;        /* of the value, in the source */
};

struct call {
    struct shell *sh;
    const struct command *cmd;
    const struct source *src;
    uint32_t off, end; /* the command in src */
    const char *line;  /* its text, for history and undo */
    int n;             /* positional arguments, the command's name not among them */
    struct word *args;
    int noptions;
    struct option options[16];
    const char *heredoc;
    size_t heredoc_len;
    struct arena arena; /* of this command */
    struct str out;     /* its text */
    struct json js;     /* its fields */
    bool json;
    bool all;      /* nothing is cut to a screen */
    bool laid_out; /* lines are not folded: pictures */
    bool verbatim; /* a text for other programs: no byte is changed off the terminal */
    struct diag *d;
    struct {
        const struct source *src; /* NULL: none yet */
        size_t off;
        int line;
    } place; /* module_line's last answer */
};

/* The status that the messages in c->d stand for; what a command returns when something failed. */
int call_failed(struct call *c);
/* A usage error at argument k (-1: the whole command); returns STATUS_USAGE. */
int call_usage(struct call *c, int k, const char *fmt, ...) PRINTF_LIKE(3, 4);
int call_error(struct call *c, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
const char *call_option(const struct call *c,
                        const char *name); /* value, "" without one, NULL: absent */
struct span call_span(const struct call *c, int k);
/* Raw text of arguments k..last, as it stands in the source. */
const char *call_rest(struct call *c, int k, uint32_t *off);
void out(struct call *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
struct tick *call_tick(struct call *c);
/* Rows that may be shown of n: all of them, or a screen. */
int64_t call_rows(const struct call *c, int64_t n);
void call_more(struct call *c, int64_t shown, int64_t n, const char *what);
/* Runs another command line inside this one (alias, time, source). */
int call_run(struct call *c, const char *name, const char *text, size_t n);

/* ---- the table of commands ------------------------------------------------------------------------- */

enum complete {
    COMPLETE_NONE,
    COMPLETE_TENSOR,
    COMPLETE_FILE,
    COMPLETE_COMMAND,
    COMPLETE_OPTION,
    COMPLETE_SAVED,
    COMPLETE_SPEC /* a tensor, then axes */,
    COMPLETE_EXPORT,
    COMPLETE_PLOT,
    COMPLETE_AXIS
};

enum {
    NEEDS_MODULE = 1,
    MAY_REDIRECT = 2, /* > FILE, >> FILE, | CMD as its last words */
    RAW_WORDS = 4,    /* no word is an option */
    CHANGES = 8,      /* makes a new strategy: what is wrong is wrong in the command */
    WRITES_FILES = 16 /* refused with --safe */
};

struct command {
    const char *name;
    const char *aliases; /* blank-separated; NULL */
    const char *group;
    const char *args;
    int min, max;        /* positional arguments; max -1: any number */
    const char *options; /* "--all --limit= -o: inputs=" : = and : take a value */
    const char *summary; /* one line */
    const char *details; /* lines; NULL */
    const char *example; /* a transcript that the tests run */
    enum complete complete;
    unsigned flags;
    int (*run)(struct call *c);
};

extern const struct command commands[];
extern const int ncommands;
const struct command *command_find(const char *name, size_t n, int *matches, char *list,
                                   size_t nlist);

/* ---- tables of text -------------------------------------------------------------------------------- */

#define TABLE_COLUMNS 12
struct table {
    struct arena *arena;
    int n;
    bool right[TABLE_COLUMNS];
    const char *head[TABLE_COLUMNS];
    VEC(const char **) rows;
};
/* heads, NULL-terminated; one that starts with '>' is right-aligned. */
void table_init(struct table *t, struct arena *a, const char *const *heads);
const char **table_row(struct table *t); /* cells to be filled; NULL counts as "" */
void table_print(struct call *c, struct table *t, bool with_head);
/* Whether rows take more than one line of this terminal. */
bool table_has_long_rows(const struct call *c, struct table *t);

/* ---- words for values (format.c) ------------------------------------------------------------------- */

/* What is returned lives in the arena that is passed, or in the call's. */
const char *with_commas(struct arena *a, int64_t v);               /* 41,212 */
const char *counted(struct arena *a, int64_t n, const char *noun); /* 1 edit, 2 edits */
/* Lines wider than the terminal broken between words, the rest further in than the line began. Escape
 * sequences take no room; text without blanks stays. */
void fold_lines(struct str *to, const char *text, size_t n, int columns);
void fold_hanging(struct str *to, const char *line, size_t n, int columns, int hang); /* one line, its rest `hang` in */
/* Paragraphs filled anew where a line is wider than the terminal (columns; 0: none, text as it is).
 * Lines that begin with a blank are examples and stay. */
const char *prose(struct arena *a, const char *text, int columns);
const char *nice_bytes(struct arena *a, int64_t v);   /* 1,024 bytes; 25.0 MiB */
const char *label_of(struct call *c, instr_id i);     /* of the loaded module, brief */
const char *tensor_name(struct call *c, instr_id i);  /* argument name when it has one, else the label */
const char *shape_text(struct call *c, shape_id s);
const char *tensor_shape_text(struct call *c, const struct tensor *t);   /* f32[64,128], of values at hand */
const char *mesh_words(struct call *c, const struct mesh *m);            /* as `mesh` takes them: data=2 model=4 */
const char *hlo_text(struct call *c, sharding_id s); /* "{devices=..}"; NULL for none */
const char *spelled(struct call *c, sharding_id s);  /* as `set spelling` says; "-" for none */
const char *spelled_of(struct call *c, sharding_id s, shape_id shape); /* spellings that tell the shape, too */
const char *working_label(struct call *c, const struct graph *g,
                          instr_id w);            /* under the module's names */
const char *place_of(struct call *c, instr_id i); /* "model.py:12", "" when not known */
/* The line of the module's text (from 1) on which a place of it is; counted from the last answer, so that
 * many instructions can be asked for. 0: the module has no text. */
int module_line(struct call *c, uint32_t off);
const char *origin_name(int origin);

#endif
