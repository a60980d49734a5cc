/* Custom calls that have a meaning here: annotations are copies; shard and full forms of one value are
 * where the two shapes agree (on one device a manual region's body has no meaning otherwise). */
#include <string.h>

#include "emulate/lower.h"

static const char *const copies[] = {
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
    "annotate_device_placement",
    "LayoutConstraint",
    "MoveToHost",
    "MoveToDevice",
};

static bool is_copy(const char *target)
{
    for (size_t k = 0; k < COUNTOF(copies); k++)
        if (strcmp(target, copies[k]) == 0)
            return true;
    return false;
}

bool custom_call_known(const char *target)
{
    return is_copy(target) || strcmp(target, "TopK") == 0;
}

bool lower_custom_call(struct lowering *l)
{
    const char *target = instr_target(l->m, l->i);
    if (strcmp(target, "TopK") == 0)
        return lower_topk(l);
    if (!is_copy(target))
        return diag_error(l->d, l->m->source, l->i->at, "cannot run custom call \"%s\": no kernel for it", target);
    for (uint32_t k = 0; k < l->step->nout; k++)
        if (k >= l->step->nin || l->step->lin[k].count != l->step->lout[k].count)
            return diag_error(l->d, l->m->source, l->i->at,
                              "%s changes the shape: a manual region has no meaning on one device", target);
    l->alias = true;
    return true;
}
