/* Between the files of the HLO printer. */
#ifndef GSPMD_TEXT_PRINTER_H
#define GSPMD_TEXT_PRINTER_H

#include "text/text.h"

struct text {
    const char *s;
    size_t n;
};

struct printer {
    const struct module *m;
    const struct hlo_print_options *o;
    struct str *out; /* NULL: bytes are only counted */
    int64_t n;
    bool percent; /* names begin with it */
    struct arena tmp;
    struct str scratch;
    struct text *shapes; /* by shape id, without and with layout; NULL: not kept */
    uint32_t nshapes;
    const char **names;   /* by instruction, of those that have none; made when first asked for */
    const char **renamed; /* by instruction, where a called computation repeats a name; may be NULL */
};

void put(struct printer *p, const char *s, size_t n);
void puts_(struct printer *p, const char *s);
void put_int(struct printer *p, int64_t v);
void put_ints(struct printer *p, int64_t n, const int64_t *v, const char *between);
void put_shape(struct printer *p, shape_id s, bool with_layout);
void put_name(struct printer *p, instr_id i);

/* print_groups.c */
void put_groups(struct printer *p, const struct replica_groups *g);
void put_pairs(struct printer *p, const struct permute_pairs *a);

/* names.c: the name that an instruction without one is printed under. */
const char *unnamed(struct printer *p, instr_id i);
/* Before a whole module is printed: names that it repeats become unique. */
void printer_rename(struct printer *p);

#endif
