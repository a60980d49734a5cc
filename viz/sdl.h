/* SDL2, opened at first use. Built without its headers, sdl_ready says so. */
#ifndef GSPMD_VIZ_SDL_H
#define GSPMD_VIZ_SDL_H

#include "base/diag.h"

#if defined(__has_include) && !defined(GSPMD_NO_SDL)
#if __has_include(<SDL2/SDL.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wpedantic"
#define SDL_MAIN_HANDLED
#include <SDL2/SDL.h>
#pragma GCC diagnostic pop
#define HAVE_SDL 1
#endif
#endif
#ifndef HAVE_SDL
#define HAVE_SDL 0
#endif

bool sdl_ready(struct diag *d) MUST_CHECK;

#if HAVE_SDL
#define SDL_FUNCTIONS(F)                                                                           \
    F(SDL_SetHint) F(SDL_SetMainReady) F(SDL_InitSubSystem) F(SDL_QuitSubSystem) F(SDL_GetError)   \
    F(SDL_CreateWindow) F(SDL_DestroyWindow) F(SDL_GetWindowSurface) F(SDL_UpdateWindowSurface)    \
    F(SDL_CreateRGBSurfaceWithFormatFrom) F(SDL_FreeSurface) F(SDL_UpperBlit) F(SDL_FillRect)      \
    F(SDL_PollEvent) F(SDL_PushEvent) F(SDL_WaitEventTimeout) F(SDL_GetModState)                   \
    F(SDL_SetWindowTitle) F(SDL_StartTextInput) F(SDL_GetTicks64) F(SDL_GetDisplayDPI)             \
    F(SDL_GetCurrentVideoDriver) F(SDL_RaiseWindow) F(SDL_SetWindowMinimumSize)                    \
    F(SDL_EventState) F(SDL_GetWindowID) F(SDL_GetWindowSize) F(SDL_GetWindowDisplayIndex) \
    F(SDL_GetDisplayUsableBounds)
struct sdl {
    bool tried, ready;
#define F(name) __typeof__(&name) name;
    SDL_FUNCTIONS(F)
#undef F
};
extern struct sdl sdl;
#endif

#endif
