/* The shipped files themselves, so that the program needs none of them where it runs. Assembled from
 * the root of the tree; the Makefile makes this object anew when one of them changes. */
#include <stdlib.h>
#include <string.h>

#include "cost/internal.h"

/* clang-format off */
#define EMBED(id, path)                                                                            \
    __asm__(".section .rodata\n"                                                                   \
            ".global gspmd_file_" #id "\n.global gspmd_file_end_" #id "\n"                         \
            "gspmd_file_" #id ":\n.incbin \"" path "\"\n"                                          \
            "gspmd_file_end_" #id ":\n.byte 0\n.text\n");                                          \
    extern const char gspmd_file_##id[], gspmd_file_end_##id[];
#define HARDWARE(id, name) EMBED(id, "assets/hardware/" name ".json")
#include "cost/hardware.def"
EMBED(calibration, "assets/calibration.json")
/* clang-format on */

static const char *const names[] = {
#define HARDWARE(id, name) name,
#include "cost/hardware.def"
    NULL
};

/* Labels of one section: no two objects of C, so numbers are subtracted. */
static size_t between(const char *from, const char *to)
{
    return (size_t)((uintptr_t)to - (uintptr_t)from);
}

const char *const *hardware_names(void)
{
    return names;
}

const char *hardware_text(const char *name, size_t *n)
{
    static const struct {
        const char *name, *start, *end;
    } files[] = {
#define HARDWARE(id, name) { name, gspmd_file_##id, gspmd_file_end_##id },
#include "cost/hardware.def"
    };
    for (size_t k = 0; k < COUNTOF(files); k++)
        if (strcmp(files[k].name, name) == 0) {
            *n = between(files[k].start, files[k].end);
            return files[k].start;
        }
    return NULL;
}

const char *calibration_text(size_t *n)
{
    *n = between(gspmd_file_calibration, gspmd_file_end_calibration);
    return gspmd_file_calibration;
}
