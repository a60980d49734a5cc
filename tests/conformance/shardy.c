/* shardy.jsonl: modules in StableHLO with Shardy's annotations. The text is not read yet, so that no
 * case can be judged; each is counted as skipped. */
#include "conformance.h"

#include <stdio.h>

static const char reason[] = "StableHLO text is not read yet";

static void skip(void *context, struct conformance *c, const cJSON *line)
{
    int *n = context;
    ++*n;
    conformance_skip(c, field_text(line, "name"), reason);
}

void conformance_shardy(const char *path, struct conformance *c)
{
    char buffer[4096];
    int n = 0;
    const char *file = conformance_file(path, "shardy.jsonl", buffer);
    if (!file)
        return;
    conformance_lines(file, c, skip, &n);
    printf("%d cases skipped: %s\n", n, reason);
}
