#include "viz/sdl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(struct diag *d, const char *hint, const char *what)
{
    const char *before = diag_stage(d, "limit");
    diag_error(d, NULL, (struct span){ 0 }, "%s", what);
    diag_hint(d, "%s", hint);
    diag_stage(d, before);
    return false;
}

#define FILES_WORK "pictures in files and text work: plot VIEW -o FILE.svg"

#if HAVE_SDL

struct sdl sdl;

static bool load(void)
{
    if (sdl.tried)
        return sdl.ready;
    sdl.tried = true;
    void *handle = dlopen("libSDL2-2.0.so.0", RTLD_NOW | RTLD_LOCAL);
    bool ok = handle != NULL;
#define F(name)                                                                                    \
    {                                                                                              \
        void *p = handle ? dlsym(handle, #name) : NULL;                                            \
        ok = ok && p;                                                                              \
        memcpy(&sdl.name, &p, sizeof p);                                                           \
    }
    SDL_FUNCTIONS(F)
#undef F
    sdl.ready = ok;
    return ok;
}

static bool is_set(const char *name)
{
    const char *v = getenv(name);
    return v && v[0];
}

bool sdl_ready(struct diag *d)
{
    /* Without a display SDL would look for a console to draw on: nobody who is logged in from afar wants that. */
    if (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY") && !is_set("SDL_VIDEODRIVER"))
        return refuse(d, FILES_WORK, "there is no display to open a window on");
    if (!load())
        return refuse(d, FILES_WORK "; Debian's package is libsdl2-2.0-0",
                      "the window needs SDL2 (libSDL2-2.0.so.0), which is not here");
    return true;
}

#else

bool sdl_ready(struct diag *d)
{
    return refuse(d, FILES_WORK, "this gspmd was built without SDL2: no window");
}

#endif
