/* Text files that are part of the program (scripts/embed.sh writes the tables). */
#ifndef GSPMD_BASE_EMBEDDED_H
#define GSPMD_BASE_EMBEDDED_H

struct embedded {
    const char *name; /* the file's, without folder and suffix */
    const char *text;
};

#endif
