/* Times of collectives on a machine's links.
 *
 * A group's members lie along some axes of the machine: found from the digits of the group's order.
 * V is the whole gathered or unreduced buffer of one device, n the group's size.
 *
 *  torus   all-gather, reduce-scatter: V (n-1)/n over the sum of the bandwidths of its axes; an axis
 *          is a ring with both directions (2 W), a line or part of one with W; groups that interleave
 *          on the same links share them, and so do the devices of a chip.
 *          all-reduce: twice that. all-to-all: half of everything crosses the middle of each axis.
 *          permute: bytes x the flows that share a link.
 *  switch  V (n-1)/n over the bandwidth of a device; all-to-all V/n (n-1)/n; all-reduce twice.
 *  chip    devices of one chip exchange through its memory; outside they share the links' work.
 *  levels  each level moves its part: outside a node its members share the work, so V over n1 nodes
 *          costs V (n1-1)/n1 / (n0 W1). The levels work at the same time on pieces: the slowest counts.
 * Latency: hops (ring: half of them) or messages times the level's. */
#include <string.h>

#include "cost/internal.h"

enum { MOST_DIGITS = 64, SAMPLE = 4096 };

static int64_t place_of(const struct machine *m, const struct shardings *t, int64_t device)
{
    bool placed = m->places.i && device >= 0 && device < order_get(t, m->places)->ndevices;
    return placed ? order_device(t, m->places, device) : device;
}

/* The last axis of [ngroups, size] as digits: radix and stride in device ids. 0: listed explicitly. */
static int group_digits(struct shardings *t, struct tiling groups, struct digit *out)
{
    const struct order *o = order_get(t, groups.order);
    int64_t size = groups.dims[groups.naxes - 1];
    int n = 0;
    if (o->explicit_)
        return 0;
    for (int k = o->ndigits; k-- > 0 && size > 1 && n < MOST_DIGITS;) {
        struct digit g = o->digits[k];
        if (g.radix > size) /* inside a digit: its lower part */
            g.radix = size;
        size = size / g.radix;
        out[n++] = g;
    }
    return n;
}

/* Adds members at a stride to the axes that they run through. */
static void spread(const struct machine *m, int64_t radix, int64_t stride, int64_t *extent, int64_t *step)
{
    while (radix > 1) {
        int a = -1;
        for (int k = 0; k < m->naxes; k++)
            if (m->axes[k].stride <= stride && stride < m->axes[k].stride * m->axes[k].size)
                a = k;
        if (a < 0)
            return;
        int64_t s = max_i64(stride / m->axes[a].stride, 1), room = max_i64(ceil_div(m->axes[a].size, s), 1);
        int64_t e = min_i64(radix, room);
        extent[a] *= e;
        step[a] = step[a] ? min_i64(step[a], s) : s;
        if (e <= 1 && room <= 1)
            return;
        radix = ceil_div(radix, max_i64(e, 1));
        stride = m->axes[a].stride * m->axes[a].size;
    }
}

/* Explicit ids: distinct coordinates along each axis. */
static void spread_list(const struct machine *m, const struct shardings *t, const int64_t *ids, int64_t n,
                        int64_t *extent, int64_t *step)
{
    n = min_i64(n, SAMPLE);
    for (int a = 0; a < m->naxes; a++) {
        int64_t lo = INT64_MAX, hi = -1, seen = 0;
        uint64_t set[SAMPLE / 64] = { 0 };
        for (int64_t k = 0; k < n; k++) {
            int64_t c = place_of(m, t, ids[k]) / m->axes[a].stride % m->axes[a].size;
            if (c < SAMPLE && !(set[c / 64] >> (c % 64) & 1)) {
                set[c / 64] |= (uint64_t)1 << (c % 64);
                seen++;
            }
            lo = min_i64(lo, c);
            hi = max_i64(hi, c);
        }
        extent[a] = max_i64(seen, 1);
        step[a] = seen > 1 ? max_i64((hi - lo) / (seen - 1), 1) : 0;
    }
}

static void find_extents(const struct machine *m, struct shardings *t, const struct collective *c,
                         int64_t *extent, int64_t *step)
{
    for (int a = 0; a < MACHINE_AXES; a++) {
        extent[a] = 1;
        step[a] = 0;
    }
    if (c->groups.naxes == 2) {
        struct digit digits[MOST_DIGITS];
        /* places of their own are no digits of the groups: the members of one group tell */
        int n = m->places.i ? 0 : group_digits(t, c->groups, digits);
        if (n == 0 && c->group_size > 1) {
            int64_t ids[SAMPLE], count = min_i64(c->group_size, SAMPLE);
            for (int64_t k = 0; k < count; k++)
                ids[k] = order_device(t, c->groups.order, k);
            spread_list(m, t, ids, count, extent, step);
        }
        for (int k = 0; k < n; k++)
            spread(m, digits[k].radix, digits[k].stride, extent, step);
    } else if (c->raw && c->raw->nlists > 0 && c->raw->ids) {
        spread_list(m, t, c->raw->ids, c->raw->sizes[0], extent, step);
    } else {
        spread(m, min_i64(c->group_size, m->ndevices), 1, extent, step);
    }
}

/* ---- one level -------------------------------------------------------------------------------------------- */

static double link_bandwidth(const struct machine *m, int level, bool all_to_all)
{
    double share = all_to_all ? m->calibration.all_to_all : m->calibration.link;
    return m->hardware->level[level].bandwidth.value * share;
}

static void describe_axes(const struct machine *m, const int64_t *extent, const int64_t *step, bool a2a,
                          struct link_use *use)
{
    bool with_chip = false;
    for (int a = 0; a < m->naxes; a++)
        with_chip = with_chip || (m->axes[a].level < 0 && extent[a] > 1);
    for (int a = 0; a < m->naxes; a++) {
        int level = m->axes[a].level;
        if (extent[a] <= 1 || level < 0)
            continue;
        bool torus = m->hardware->level[level].kind == NETWORK_TORUS;
        int64_t st = max_i64(step[a], 1);
        int64_t sharing = (torus ? st : 1) * (with_chip ? 1 : m->sharers);
        bool ring = torus && m->axes[a].wrap && extent[a] * st >= m->axes[a].size;
        double w = link_bandwidth(m, level, a2a) / (double)(torus ? sharing : 1);
        int k = use->naxes++;
        use->axes[k].axis = a;
        use->axes[k].extent = extent[a];
        use->axes[k].sharing = sharing;
        use->axes[k].ring = ring;
        use->axes[k].bandwidth = ring ? 2 * w : w;
    }
}

struct level_part {
    int64_t members;   /* of the group at this level */
    double bandwidth;  /* sum over its axes */
    double hops;
    double cut;        /* all-to-all: seconds a byte of one device */
};

static void level_part(const struct machine *m, const struct link_use *use, int level, struct level_part *out)
{
    *out = (struct level_part){ .members = 1 };
    bool torus = m->hardware->level[level].kind == NETWORK_TORUS;
    for (int k = 0; k < use->naxes; k++) {
        if (m->axes[use->axes[k].axis].level != level)
            continue;
        double e = (double)use->axes[k].extent;
        out->members *= use->axes[k].extent;
        out->bandwidth = torus ? out->bandwidth + use->axes[k].bandwidth : use->axes[k].bandwidth;
        out->hops += torus ? (use->axes[k].ring ? e / 2 : e - 1) * (double)use->axes[k].sharing : 1;
        /* Half of what each device has crosses the middle, a half of that each way: e V / 4. */
        double cut = torus ? e / 4 / use->axes[k].bandwidth : 1 / use->axes[k].bandwidth;
        out->cut = cut > out->cut ? cut : out->cut;
    }
}

/* ---- kinds ------------------------------------------------------------------------------------------------- */

static double bytes_of_operands(const struct module *mod, const struct instr *in)
{
    double sum = 0;
    for (uint32_t k = 0; k < in->noperands; k++)
        sum += (double)value_bytes(mod, instr_at(mod, in->operands[k])->shape, false);
    return sum;
}

/* Factors: passes over the buffer. */
static void grouped(const struct machine *m, struct link_use *use, double passes, bool a2a, double v,
                    int64_t chip)
{
    double inner = 1; /* members inside: they share what goes out */
    if (chip > 1) { /* through the chip's memory */
        double n = (double)chip, w = m->hardware->bandwidth.value * m->calibration.memory;
        use->transfer = (a2a ? 1 : passes) * v * (n - 1) / n / w;
    }
    for (int level = 0; level < m->hardware->nlevels; level++) {
        struct level_part p;
        level_part(m, use, level, &p);
        if (p.members <= 1)
            continue;
        double n = (double)p.members, t;
        bool torus = m->hardware->level[level].kind == NETWORK_TORUS;
        if (a2a)
            t = torus ? v * p.cut * (double)chip : v * (n - 1) / n * p.cut;
        else
            t = passes * v * (n - 1) / n / (p.bandwidth * inner);
        use->transfer = t > use->transfer ? t : use->transfer;
        use->latency += passes * p.hops * m->hardware->level[level].latency.value;
        inner *= n;
    }
}

/* Distance of a step along the axes, and the flows that share its links. */
static void permute(const struct machine *m, struct shardings *t, const struct collective *c, struct link_use *use,
                    double bytes)
{
    const struct permute_pairs *p = c->pairs;
    if (!p || c->group_size == 0)
        return;
    int64_t cells = p->kind == PAIRS_LIST ? p->n : order_get(t, p->from.order)->ndevices, inner = 1;
    int64_t by = max_i64(cells / 128, 1), counted = 0;
    double up[MACHINE_AXES] = { 0 }, down[MACHINE_AXES] = { 0 }, hops = 0; /* links have two directions */
    for (int k = p->axis + 1; p->kind == PAIRS_SHIFT && k < p->from.naxes; k++)
        inner *= p->from.dims[k];
    for (int64_t cell = 0; cell < cells; cell += by) {
        int64_t from, to;
        if (p->kind == PAIRS_LIST) {
            from = p->list[2 * cell];
            to = p->list[2 * cell + 1];
        } else if (p->kind == PAIRS_TILINGS) {
            from = order_device(t, p->from.order, cell);
            to = order_device(t, p->to.order, cell);
        } else {
            int64_t size = p->from.dims[p->axis], limit = p->limit ? p->limit : size, i = cell / inner % size;
            int64_t at = i + p->shift;
            if (p->wrap)
                at = (at % limit + limit) % limit;
            if (i >= limit || at < 0 || at >= limit)
                continue;
            from = order_device(t, p->from.order, cell);
            to = order_device(t, p->from.order, cell + (at - i) * inner);
        }
        double here = 0;
        from = place_of(m, t, from);
        to = place_of(m, t, to);
        for (int a = 0; a < m->naxes; a++) {
            int64_t size = m->axes[a].size, x = from / m->axes[a].stride % size, y = to / m->axes[a].stride % size;
            int64_t dist = x > y ? x - y : y - x;
            bool rises = y > x;
            if (m->axes[a].wrap && size - dist < dist) {
                dist = size - dist;
                rises = !rises;
            }
            if (m->axes[a].level < 0)
                continue;
            if (m->hardware->level[m->axes[a].level].kind == NETWORK_SWITCH)
                dist = dist > 0;
            *(rises ? &up[a] : &down[a]) += (double)dist;
            here += (double)dist * m->hardware->level[m->axes[a].level].latency.value;
        }
        hops = here > hops ? here : hops;
        counted++;
    }
    for (int a = 0; a < m->naxes && counted > 0; a++) {
        int level = m->axes[a].level;
        double mean = (up[a] > down[a] ? up[a] : down[a]) / (double)counted;
        if (level < 0 || mean <= 0)
            continue;
        bool torus = m->hardware->level[level].kind == NETWORK_TORUS;
        /* A device of a line sends `mean` hops in the busier direction, over the links of that direction:
         * one for each device of a ring, one less of a line. */
        double links = m->axes[a].wrap ? 1 : 1 - 1 / (double)m->axes[a].size;
        double flows = torus ? mean / links * (double)m->sharers : 1;
        if (flows < 1)
            flows = 1;
        double tt = bytes * flows / link_bandwidth(m, level, false);
        int k = use->naxes++;
        use->axes[k].axis = a;
        use->axes[k].extent = (int64_t)(mean + 0.5);
        use->axes[k].sharing = (int64_t)(flows + 0.5);
        use->axes[k].ring = m->axes[a].wrap;
        use->axes[k].bandwidth = link_bandwidth(m, level, false);
        use->transfer = tt > use->transfer ? tt : use->transfer;
    }
    use->latency = hops;
}

double collective_seconds(const struct machine *m, const struct module *mod, const struct collective *c,
                          struct link_use *use)
{
    const struct instr *in = instr_at(mod, c->instr);
    struct shardings *t = mod->ir->shardings;
    double operands = bytes_of_operands(mod, in), n = (double)c->group_size;
    *use = (struct link_use){ 0 };
    if (c->kind == OP_COLLECTIVE_PERMUTE) {
        use->bytes = operands;
        permute(m, t, c, use, operands);
    } else if (n > 1) {
        int64_t extent[MACHINE_AXES], step[MACHINE_AXES];
        bool a2a = c->kind == OP_ALL_TO_ALL || c->kind == OP_RAGGED_ALL_TO_ALL;
        find_extents(m, t, c, extent, step);
        describe_axes(m, extent, step, a2a, use);
        use->bytes = c->kind == OP_ALL_GATHER ? operands * n : operands;
        int64_t chip = 1;
        for (int a = 0; a < m->naxes; a++)
            chip = m->axes[a].level < 0 ? extent[a] : chip;
        grouped(m, use, c->kind == OP_ALL_REDUCE ? 2 : 1, a2a, use->bytes, chip);
    }
    use->seconds = use->transfer + use->latency;
    return use->seconds;
}
