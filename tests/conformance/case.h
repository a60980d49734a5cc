/* One case of cases.jsonl: its input in a folder of its own, what the shell answers, and what does
 * not hold. A field of "expect" has a function each (cases.c has the table). */
#ifndef GSPMD_TESTS_CASE_H
#define GSPMD_TESTS_CASE_H

#include <cjson/cJSON.h>

#include "base/str.h"
#include "session/session.h"

/* What the shell said to one script. */
struct answer {
    int status;
    const char *text, *messages; /* what a user finds on stdout and stderr */
    VEC(cJSON *) objects;        /* with --json: one a command */
    struct answer *next;         /* freed with the case */
};

struct one_case {
    const cJSON *json, *expect;
    const char *folder; /* temporary, of this case */
    const char *model;  /* the input in it */
    const char *raw;    /* its text, unpacked; "" when it cannot be unpacked */
    size_t nraw;
    bool is_mlir;
    bool best;          /* the case wants less than XLA sends: partitioner=best */
    struct arena arena;
    const char *field;  /* of expect, now judged */
    VEC(const char *) wrong;
    struct answer *answers;
};

enum ask { AS_TEXT, AS_JSON };

/* Commands, ;-separated, in a session of their own with the model loaded first (NULL: none). */
const struct answer *ask(struct one_case *c, const char *model, enum ask how, const char *fmt, ...) PRINTF_LIKE(4, 5);
void wrong(struct one_case *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The first object of a command that did not fail; NULL: none. need says so. */
const cJSON *answer_to(const struct answer *a, const char *command);
const cJSON *need(struct one_case *c, const struct answer *a, const char *command);
/* Why a script did not end well, its first words. */
const char *failure(struct one_case *c, const struct answer *a);
const char *said_on_error(struct one_case *c, const struct answer *a);
const char *warnings_of(struct one_case *c, const struct answer *a);
const char *everything(struct one_case *c, const struct answer *a);
const char *in_folder(struct one_case *c, const char *name);

/* Whether a text has a word: a short one not as a part of a longer name or number. */
bool has_word(const char *text, const char *word, bool ignore_case);
/* wrong() for each of "names" that is missing, and for "names_any". */
void want_words(struct one_case *c, const char *text, const cJSON *wanted, const char *how);
bool words_are_there(const char *text, const cJSON *wanted);
/* Whether one of a list of strings occurs, without case. */
bool any_word(const char *text, const cJSON *list);
bool list_has(const cJSON *list, const char *word);
const cJSON *at(const cJSON *o, const char *key);
const char *string_of(const cJSON *x); /* NULL: no string */
/* Fields that are not among the blank-separated ones make the case fail; false then. */
bool known_fields(struct one_case *c, const cJSON *wanted, const char *field, const char *known);

/* Rows of `show --all` by name; those of the entry where it has one. Into c->arena; -1: no answer. */
int64_t shown_rows(struct one_case *c, const char *name, const char *computation, const cJSON ***rows);
const char *entry_name(struct one_case *c);
const char *row_name(const cJSON *row); /* without % */
/* A file's text, NUL-terminated; NULL: it is not there. */
const char *read_text(struct one_case *c, const char *path, size_t *n);
/* Tells of a file that export did not write. */
const char *exported(struct one_case *c, const char *model, const char *what, const char *name);

void check_numbers(struct one_case *c, const cJSON *wanted);
void check_run_warns(struct one_case *c, const cJSON *wanted);
void check_shardings(struct one_case *c, const cJSON *wanted);
void check_collectives(struct one_case *c, const cJSON *wanted);
void check_why(struct one_case *c, const cJSON *wanted);
void check_blame(struct one_case *c, const cJSON *wanted);
void check_conflict(struct one_case *c, const cJSON *wanted);
void check_diagnosis(struct one_case *c, const cJSON *wanted);
void check_error(struct one_case *c, const cJSON *wanted);
void check_parse(struct one_case *c, const cJSON *wanted);
void check_facts(struct one_case *c, const cJSON *wanted);
void check_roundtrip(struct one_case *c, const cJSON *wanted);
void check_draw(struct one_case *c, const cJSON *wanted);

/* Texts of warnings of show, comms and doctor. */
const char *all_warnings(struct one_case *c);

#endif
