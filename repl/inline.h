/* Pictures in the terminal itself: which way it takes them, and their bytes. */
#ifndef GSPMD_REPL_INLINE_H
#define GSPMD_REPL_INLINE_H

#include "repl/shell.h"
#include "viz/scene.h"

/* `set inline=`, in this order. AUTO: what the terminal says it can show. */
enum inline_kind { INLINE_OFF, INLINE_AUTO, INLINE_KITTY, INLINE_ITERM, INLINE_SIXEL };

/* The way in which a picture that this command makes for the terminal is shown; OFF: as text. asked: `--inline`
 * was given, which asks the terminal even where `set inline=off`. */
enum inline_kind inline_kind(const struct call *c, bool asked);
/* The escapes that show s. */
bool inline_picture(struct call *c, enum inline_kind kind, const struct scene *s, struct str *out) MUST_CHECK;

#endif
