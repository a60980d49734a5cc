#include "viz/scene.h"

struct scene *scene_new(struct arena *a)
{
    struct scene *s = ARENA_NEW(a, struct scene);
    s->arena = a;
    s->title = "";
    return s;
}

struct scene_item *scene_add(struct scene *s, enum scene_kind kind, enum scene_role role)
{
    struct scene_item item = { .kind = kind, .role = role, .device = -1, .axis = -1, .size = 10 };
    vec_push(s->arena, &s->items, item);
    return &s->items.v[s->items.n - 1];
}
