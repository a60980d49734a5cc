/* The rules of propagation, family by family: small modules and what must come out. */
#include "propagate_support.h"

struct rule_case {
    const char *name, *options;
    const char *before; /* further computations */
    const char *entry;  /* instructions of the entry */
    const char *expect;
};

#define ROWS  "{devices=[4,1]<=[4]}"
#define COLS  "{devices=[1,4]<=[4]}"
#define GRID  "{devices=[2,2]<=[4]}"
#define PROWS "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
#define PCOLS "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
#define BAD_PCOLS "{devices=[1,2,2]<=[4] last_tile_dim_replicate}" /* groups of PROWS: does not merge */

static const struct rule_case elementwise[] = {
    { "a chain takes its start; an unsharded root stays", "", "",
      " p = f32[12,20] parameter(0), sharding=" GRID "\n q = f32[12,20] parameter(1)\n"
      " m = f32[12,20] multiply(p, q)\n e = f32[12,20] exponential(m)\n ROOT o = f32[12,20] abs(e)\n",
      "p " GRID "; q none; m " GRID "; e " GRID "; o none" },
    { "users reach operands, not parameters", "", "",
      " p = f32[12,20] parameter(0)\n q = f32[12,20] parameter(1)\n d = f32[12,20] divide(p, q)\n"
      " ROOT o = f32[12,20] tanh(d), sharding=" GRID "\n",
      "p none; q none; d " GRID "; o " GRID },
    { "parameters that may change do", "par=1,1", "",
      " p = f32[12,20] parameter(0)\n q = f32[12,20] parameter(1)\n d = f32[12,20] divide(p, q)\n"
      " ROOT o = f32[12,20] tanh(d), sharding=" GRID "\n",
      "p " GRID "; q " GRID "; d " GRID },
    { "an uneven parameter ends replicated, its neighbours do not", "par=1", "",
      " p = f32[10] parameter(0)\n c = f32[10] negate(p)\n"
      " ROOT o = f32[10] sine(c), sharding={devices=[4]<=[4]}\n",
      "p {replicated}; c {devices=[4]<=[4]}" },
    { "a root that may change does", "out=1", "",
      " p = f32[12,20] parameter(0), sharding=" ROWS "\n ROOT o = f32[12,20] cosine(p)\n", "o " ROWS },
    { "a root that may change and is uneven ends replicated", "out=1", "",
      " p = f32[10] parameter(0), sharding={devices=[4]<=[4]}\n c = f32[10] negate(p)\n"
      " ROOT o = f32[10] cosine(c)\n",
      "c {devices=[4]<=[4]}; o {replicated}" },
    { "without spmd the most specific operand alone counts", "nospmd", "",
      " p = f32[12,20] parameter(0), sharding={devices=[2,1]<=[2]}\n"
      " q = f32[12,20] parameter(1), sharding=" GRID "\n s = f32[12,20] subtract(p, q)\n"
      " ROOT o = f32[12,20] abs(s)\n",
      "s " GRID },
    { "partial operands merge", "", "",
      " p = f32[12,20] parameter(0), sharding=" PROWS "\n q = f32[12,20] parameter(1), sharding=" PCOLS "\n"
      " s = f32[12,20] maximum(p, q)\n ROOT o = f32[12,20] abs(s)\n",
      "s " GRID },
    { "without spmd they do not", "nospmd", "",
      " p = f32[12,20] parameter(0), sharding=" PROWS "\n q = f32[12,20] parameter(1), sharding=" PCOLS "\n"
      " s = f32[12,20] maximum(p, q)\n ROOT o = f32[12,20] abs(s)\n",
      "s " PROWS },
    { "partial operands on the same groups do not merge", "", "",
      " p = f32[12,20] parameter(0), sharding=" PROWS "\n q = f32[12,20] parameter(1), sharding=" BAD_PCOLS "\n"
      " s = f32[12,20] maximum(p, q)\n ROOT o = f32[12,20] abs(s)\n",
      "s " PROWS },
    { "more tiles that are no refinement are turned down", "", "",
      " p = f32[12,20] parameter(0), sharding={devices=[2,1]<=[2]}\n q = f32[12,20] parameter(1), sharding=" COLS "\n"
      " u = f32[12,20] negate(p)\n d = f32[12,20] add(u, u)\n"
      " ROOT o = f32[12,20] multiply(d, q), sharding=" COLS "\n",
      "u {devices=[2,1]<=[2]}; d {devices=[2,1]<=[2]}" },
    { "an only user may overwrite", "", "",
      " p = f32[12,20,4] parameter(0), sharding={devices=[1,4,1]<=[4]}\n z = f32[] constant(0)\n"
      " r = f32[12,20] reduce(p, z), dimensions={2}, to_apply=sum\n n = f32[12,20] negate(r)\n"
      " t = f32[12,20] parameter(1)\n m = f32[12,20] add(n, t), sharding={devices=[2,1]<=[2]}\n"
      " ROOT o = f32[12,20] abs(m)\n",
      "r " COLS "; n " COLS "; m {devices=[2,1]<=[2]}" },
    { "with a second user it may not", "", "",
      " p = f32[12,20,4] parameter(0), sharding={devices=[1,4,1]<=[4]}\n z = f32[] constant(0)\n"
      " r = f32[12,20] reduce(p, z), dimensions={2}, to_apply=sum\n n = f32[12,20] negate(r)\n"
      " t = f32[12,20] parameter(1)\n m = f32[12,20] add(n, t), sharding={devices=[2,1]<=[2]}\n"
      " k = f32[12,20] subtract(n, t), sharding={devices=[2,1]<=[2]}\n"
      " ROOT o = (f32[12,20], f32[12,20]) tuple(m, k)\n",
      "r " COLS "; n {devices=[2,1]<=[2]}" },
    { "nor has an op of two operands the right", "", "",
      " p = f32[12,20,4] parameter(0), sharding={devices=[1,4,1]<=[4]}\n z = f32[] constant(0)\n"
      " r = f32[12,20] reduce(p, z), dimensions={2}, to_apply=sum\n t = f32[12,20] parameter(1)\n"
      " n = f32[12,20] add(r, t)\n m = f32[12,20] negate(n), sharding={devices=[2,1]<=[2]}\n"
      " ROOT o = f32[12,20] abs(m)\n",
      "r " COLS "; n {devices=[2,1]<=[2]}" },
    { "the root does not count as a user", "", "",
      " p = f32[12,20,4] parameter(0), sharding={devices=[1,4,1]<=[4]}\n z = f32[] constant(0)\n"
      " r = f32[12,20] reduce(p, z), dimensions={2}, to_apply=sum\n n = f32[12,20] negate(r)\n"
      " t = f32[12,20] parameter(1)\n m = f32[12,20] add(n, t), sharding={devices=[2,1]<=[2]}\n"
      " ROOT o = (f32[12,20], f32[12,20]) tuple(m, n)\n",
      "r " COLS "; n " COLS },
    { "a scalar predicate of another shape gives and takes nothing tiled", "", "",
      " c = pred[] parameter(0)\n k = pred[] not(c)\n p = f32[12] parameter(1), sharding={devices=[4]<=[4]}\n"
      " q = f32[12] parameter(2)\n w = f32[12] negate(q)\n s = f32[12] select(k, p, w)\n ROOT o = f32[12] abs(s)\n",
      "k none; w {devices=[4]<=[4]}; s {devices=[4]<=[4]}" },
    { "a replicated scalar predicate replicates the result", "", "",
      " c = pred[] parameter(0), sharding={replicated}\n p = f32[12] parameter(1)\n q = f32[12] parameter(2)\n"
      " w = f32[12] negate(q)\n s = f32[12] select(c, p, w)\n ROOT o = f32[12] abs(s)\n",
      "w {replicated}; s {replicated}" },
    { "clamp's scalar bounds are left alone", "", "",
      " p = f32[12] parameter(0), sharding={devices=[4]<=[4]}\n lo = f32[] constant(0)\n hi = f32[] constant(6)\n"
      " s = f32[12] clamp(lo, p, hi)\n ROOT o = f32[12] abs(s)\n",
      "s {devices=[4]<=[4]}; lo none; hi none" },
    { "a conversion that keeps the width is elementwise", "", "",
      " p = f32[12] parameter(0), sharding={devices=[4]<=[4]}\n b = u32[12] bitcast-convert(p)\n"
      " ROOT o = u32[12] not(b)\n",
      "b {devices=[4]<=[4]}" },
    { "one that changes it has no rule", "", "",
      " p = f32[12] parameter(0), sharding={devices=[4]<=[4]}\n b = u8[12,4] bitcast-convert(p)\n"
      " ROOT o = u8[12,4] not(b)\n",
      "b none" },
    { "without a rule a replicated operand replicates", "", "",
      " p = f32[4,4] parameter(0), sharding={replicated}\n c = f32[4,4] cholesky(p), lower=true\n"
      " ROOT o = f32[4,4] abs(c)\n",
      "c {replicated}" },
    { "and a tiled one does nothing", "", "",
      " p = f32[4,4] parameter(0), sharding=" GRID "\n c = f32[4,4] cholesky(p), lower=true\n"
      " ROOT o = f32[4,4] abs(c)\n",
      "c none" },
    { "cse mode keeps broadcasts of scalars only", "cse", "",
      " p = f32[12] parameter(0), sharding={devices=[4]<=[4]}\n k = f32[] constant(2)\n"
      " b = f32[12] broadcast(k), dimensions={}\n a = f32[12] add(p, b)\n ROOT o = f32[12] abs(a)\n",
      "b {devices=[4]<=[4]}; a none; k none" },
};

static const struct rule_case shapes[] = {
    { "broadcast: backward keeps what comes from the operand", "", "",
      " p = f32[16,8] parameter(0)\n c = f32[16,8] negate(p)\n"
      " ROOT b = f32[4,16,3,8] broadcast(c), dimensions={1,3}, sharding={devices=[2,2,1,2]<=[8]}\n",
      "c {devices=[2,2,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}" },
    { "broadcast: without spmd a tiled new dimension stops it", "nospmd", "",
      " p = f32[16,8] parameter(0)\n c = f32[16,8] negate(p)\n"
      " ROOT b = f32[4,16,3,8] broadcast(c), dimensions={1,3}, sharding={devices=[2,2,1,2]<=[8]}\n",
      "c none" },
    { "broadcast: forward at last", "", "",
      " p = f32[16] parameter(0), sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n"
      " b = f32[16,5] broadcast(p), dimensions={0}\n ROOT o = f32[16,5] abs(b)\n",
      "b {devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}" },
    { "broadcast: a user comes before the operand", "", "",
      " p = f32[16] parameter(0), sharding={devices=[4]<=[4]}\n b = f32[8,16] broadcast(p), dimensions={1}\n"
      " t = f32[8,16] parameter(1), sharding=" ROWS "\n s = f32[8,16] add(b, t)\n ROOT o = f32[8,16] abs(s)\n",
      "b " ROWS "; s " ROWS },
    { "broadcast of a scalar: the scalar is replicated", "", "",
      " k = f32[] constant(1)\n b = f32[8,16] broadcast(k), dimensions={}\n"
      " t = f32[8,16] parameter(0), sharding=" GRID "\n s = f32[8,16] add(b, t)\n ROOT o = f32[8,16] abs(s)\n",
      "k {replicated}; b " GRID "; s " GRID },
    { "transpose, both ways", "", "",
      " p = f32[8,4,2] parameter(0), sharding={devices=[4,2,1]<=[8]}\n"
      " t = f32[2,8,4] transpose(p), dimensions={2,0,1}\n u = f32[2,8,4] abs(t)\n"
      " v = f32[8,4,2] transpose(u), dimensions={1,2,0}\n q = f32[8,2,4] parameter(1)\n"
      " w = f32[8,2,4] negate(q)\n x = f32[4,2,8] transpose(w), dimensions={2,1,0}\n"
      " y = f32[4,2,8] abs(x), sharding={devices=[1,2,4]<=[8]}\n"
      " ROOT o = (f32[8,4,2], f32[4,2,8]) tuple(v, y)\n",
      "t {devices=[1,4,2]<=[8]}; v {devices=[4,2,1]<=[8]}; w {devices=[4,2,1]<=[2,4]T(1,0)}" },
    { "reshape splits and merges", "", "",
      " p = f32[16,7] parameter(0), sharding={devices=[4,1]<=[4]}\n r = f32[4,4,7] reshape(p)\n"
      " s = f32[28,4] reshape(p)\n ROOT o = (f32[4,4,7], f32[28,4]) tuple(r, s)\n",
      "r {devices=[4,1,1]<=[4]}; s {devices=[4,1]<=[4]}" },
    { "a reshape that cannot keep the split replicates", "", "",
      " p = f32[4,8] parameter(0), sharding={devices=[1,2]<=[2]}\n r = f32[32] reshape(p)\n ROOT o = f32[32] abs(r)\n",
      "r {replicated}" },
    { "reshape inside manual groups", "", "",
      " p = f32[32,8] parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dims={manual}}\n"
      " r = f32[4,8,8] reshape(p)\n ROOT o = f32[4,8,8] abs(r)\n",
      "r {devices=[4,1,1,2]<=[8] last_tile_dims={manual}}" },
    { "reverse turns the tiles", "", "",
      " p = f32[8,4] parameter(0), sharding=" GRID "\n r = f32[8,4] reverse(p), dimensions={0}\n"
      " ROOT o = f32[8,4] abs(r)\n",
      "r {devices=[2,2]2,3,0,1}" },
    { "pad and slice pass as they are", "", "",
      " p = f32[8,16] parameter(0), sharding=" GRID "\n z = f32[] constant(0)\n"
      " a = f32[10,16] pad(p, z), padding=1_1x0_0\n b = f32[4,16] slice(a), slice={[2:6],[0:16]}\n"
      " ROOT o = f32[4,16] abs(b)\n",
      "a " GRID "; b " GRID "; z none" },
    { "concatenation: the most specific operand, also along its own dimension", "", "",
      " p = f32[4,8] parameter(0), sharding={devices=[2,1]<=[2]}\n q = f32[4,8] parameter(1), sharding=" COLS "\n"
      " c = f32[8,8] concatenate(p, q), dimensions={0}\n ROOT o = f32[8,8] abs(c)\n",
      "c " COLS },
    { "concatenation without spmd cuts the devices", "nospmd", "",
      " p = f32[4,8] parameter(0)\n q = f32[4,8] parameter(1)\n a = f32[4,8] negate(p)\n b = f32[4,8] negate(q)\n"
      " ROOT c = f32[8,8] concatenate(a, b), dimensions={0}, sharding=" ROWS "\n",
      "a {devices=[2,1]0,1}; b {devices=[2,1]2,3}" },
    { "its copies become a dimension too many, which a dot takes along", "nospmd", "",
      " p = f32[6,8,1] parameter(0)\n q = f32[6,8] parameter(1)\n r = f32[2,1] parameter(2), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
      " a = f32[6,8,1] negate(p)\n b = f32[6,8] negate(q)\n"
      " d = f32[6,1] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}\n"
      " k = f32[14,1] concatenate(d, r, d), dimensions={0}\n ROOT o = f32[14,1] abs(k)\n",
      "a {devices=[1,1,1,2]0,1}; b {devices=[1,1,2]0,1}; d {devices=[1,1,2]0,1}" },
    { "and a reshape takes for copies", "nospmd", "",
      " p = f32[2,12] parameter(0)\n r = f32[8] parameter(1), sharding={devices=[2,2]<=[4] last_tile_dim_replicate}\n"
      " n = f32[2,12] negate(p)\n v = f32[24] reshape(n)\n k = f32[32] concatenate(v, r), dimensions={0}\n ROOT o = f32[32] abs(k)\n",
      "v {devices=[2,2]<=[4]}; n {devices=[2,1,2]<=[4] last_tile_dim_replicate}" },
    { "stacked parameters pass a concatenation at once", "", "",
      " a = f32[4,8] parameter(0), sharding={devices=[1,2]<=[2]}\n b = f32[4,8] parameter(1), sharding={devices=[1,2]<=[2]}\n"
      " x = f32[1,4,8] reshape(a)\n y = f32[1,4,8] reshape(b)\n c = f32[2,4,8] concatenate(x, y), dimensions={0}\n"
      " ROOT o = f32[2,4,8] abs(c)\n",
      "x {devices=[1,1,2]<=[2]}; c {devices=[1,1,2]<=[2]}" },
    { "dynamic-slice replicates what it cuts; indices get nothing", "", "",
      " p = f32[8,8] parameter(0)\n x = f32[8,8] negate(p)\n i = s32[] parameter(1)\n j = s32[] negate(i)\n"
      " ROOT d = f32[2,8] dynamic-slice(x, j, j), dynamic_slice_sizes={2,8}, sharding=" GRID "\n",
      "x " PCOLS "; j none" },
    { "a replicated one replicates all its operands", "", "",
      " p = f32[8,8] parameter(0)\n x = f32[8,8] negate(p)\n i = s32[] parameter(1)\n j = s32[] negate(i)\n"
      " ROOT d = f32[2,8] dynamic-slice(x, j, j), dynamic_slice_sizes={2,8}, sharding={replicated}\n",
      "x {replicated}; j {replicated}" },
    { "dynamic-update-slice: forward from both, backward to both", "", "",
      " p = f32[8,8] parameter(0), sharding=" PROWS "\n u = f32[8,2] parameter(1)\n v = f32[8,2] negate(u)\n"
      " i = s32[] parameter(2)\n d = f32[8,8] dynamic-update-slice(p, v, i, i)\n ROOT o = f32[8,8] abs(d)\n",
      "d " PROWS "; v " PROWS },
};

static const struct rule_case sums[] = {
    { "dot: batch and free dimensions survive, contracted ones replicate", "", "",
      " l = f32[4,8,16] parameter(0), sharding={devices=[2,2,2]<=[8]}\n r = f32[4,16,32] parameter(1)\n"
      " d = f32[4,8,32] dot(l, r), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
      " ROOT o = f32[4,8,32] abs(d)\n",
      "d {devices=[2,2,1,2]<=[8] last_tile_dim_replicate}" },
    { "dot: two operands that merge", "", "",
      " l = f32[8,16] parameter(0), sharding=" PROWS "\n r = f32[16,32] parameter(1), sharding=" PCOLS "\n"
      " d = f32[8,32] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT o = f32[8,32] abs(d)\n",
      "d " GRID },
    { "dot: of two that do not, the larger operand", "", "",
      " l = f32[8,16] parameter(0), sharding=" ROWS "\n r = f32[16,32] parameter(1), sharding=" COLS "\n"
      " d = f32[8,32] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT o = f32[8,32] abs(d)\n",
      "d " COLS },
    { "dot: unless what follows decides", "", "",
      " l = f32[8,16] parameter(0), sharding=" ROWS "\n r = f32[16,32] parameter(1), sharding=" COLS "\n"
      " d = f32[8,32] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      " z = f32[] constant(0)\n m = f32[8] reduce(d, z), dimensions={1}, to_apply=sum\n"
      " ROOT o = f32[8] abs(m), sharding={devices=[4]<=[4]}\n",
      "d " ROWS "; m {devices=[4]<=[4]}" },
    { "dot: a chain is filled backward first", "", "",
      " l = f32[8,16] parameter(0), sharding=" ROWS "\n r = f32[16,32] parameter(1)\n"
      " d = f32[8,32] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n n = f32[8,32] negate(d)\n"
      " ROOT o = f32[8,32] abs(n), sharding=" COLS "\n",
      "d " COLS "; n " COLS },
    { "dot: never overwrites what is no refinement", "", "",
      " l = f32[8,16] parameter(0), sharding=" GRID "\n r = f32[16,32] parameter(1)\n"
      " d = f32[8,32] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      " ROOT o = f32[8,32] abs(d), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}\n",
      "d {devices=[1,2,2]<=[4] last_tile_dim_replicate}" },
    { "dot: not even with an only user", "", "",
      " l = f32[8,16] parameter(0), sharding=" ROWS "\n r = f32[16,32] parameter(1)\n"
      " d = f32[8,32] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n n = f32[8,32] negate(d)\n"
      " ROOT o = f32[8,32] abs(n), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}\n",
      "d {devices=[1,2,2]<=[4] last_tile_dim_replicate}" },
    { "dot: an operand takes the result's split and the other's", "", "",
      " p = f32[8,16] parameter(0)\n l = f32[8,16] negate(p)\n r = f32[16,32] parameter(1), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n"
      " ROOT d = f32[8,32] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding=" PROWS "\n",
      "l " GRID },
    { "dot of one value with itself: as its first operand", "", "",
      " p = f32[16,16] parameter(0)\n x = f32[16,16] negate(p)\n"
      " ROOT d = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding=" GRID "\n",
      "x " PROWS },
    { "reduce: reduced dimensions replicate", "", "",
      " p = f32[8,16] parameter(0), sharding=" GRID "\n z = f32[] constant(0)\n"
      " r = f32[16] reduce(p, z), dimensions={0}, to_apply=sum\n ROOT o = f32[16] abs(r)\n",
      "r {devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}; z none" },
    { "reduce: without spmd that is all", "nospmd", "",
      " p = f32[8,16] parameter(0), sharding=" GRID "\n z = f32[] constant(0)\n"
      " r = f32[16] reduce(p, z), dimensions={0}, to_apply=sum\n ROOT o = f32[16] abs(r)\n",
      "r {replicated}" },
    { "reduce: backward", "", "",
      " p = f32[8,16] parameter(0)\n c = f32[8,16] negate(p)\n z = f32[] constant(0)\n"
      " ROOT r = f32[16] reduce(c, z), dimensions={0}, to_apply=sum, sharding={devices=[4]<=[4]}\n",
      "c " COLS },
    { "reduce of two inputs: each takes the other's", "",
      "pick {\n a0 = f32[] parameter(0)\n a1 = s32[] parameter(1)\n b0 = f32[] parameter(2)\n b1 = s32[] parameter(3)\n"
      " ROOT pick.r = (f32[], s32[]) tuple(a0, a1)\n}\n",
      " p = f32[8,4] parameter(0), sharding=" PROWS "\n q = s32[8,4] parameter(1)\n y = s32[8,4] negate(q)\n"
      " i0 = f32[] constant(0)\n i1 = s32[] constant(0)\n"
      " r = (f32[8], s32[8]) reduce(p, y, i0, i1), dimensions={1}, to_apply=pick\n"
      " ROOT o = (f32[8], s32[8]) copy(r)\n",
      "r {{devices=[2,2]<=[4] last_tile_dim_replicate}, {devices=[2,2]<=[4] last_tile_dim_replicate}}; y " PROWS },
    { "sort: as the operand", "", "",
      " p = f32[8,16] parameter(0), sharding=" ROWS "\n s = f32[8,16] sort(p), dimensions={1}, to_apply=smaller\n"
      " ROOT o = f32[8,16] abs(s)\n",
      "s " ROWS },
    { "sort: a split sort dimension needs a place to go", "", "",
      " p = f32[3,16] parameter(0), sharding=" COLS "\n s = f32[3,16] sort(p), dimensions={1}, to_apply=smaller\n"
      " ROOT o = f32[3,16] abs(s)\n",
      "s none" },
    { "reduce-window passes its input's layout", "", "",
      " p = f32[8,16] parameter(0), sharding=" COLS "\n z = f32[] constant(0)\n"
      " w = f32[8,16] reduce-window(p, z), window={size=1x3 pad=0_0x1_1}, to_apply=sum\n ROOT o = f32[8,16] abs(w)\n",
      "w " COLS "; z none" },
    { "reduce-window with dilation does not", "", "",
      " p = f32[8,16] parameter(0), sharding=" COLS "\n z = f32[] constant(0)\n"
      " w = f32[8,12] reduce-window(p, z), window={size=1x3 rhs_dilate=1x2}, to_apply=sum\n ROOT o = f32[8,12] abs(w)\n",
      "w none" },
    { "select-and-scatter takes its operand's", "", "",
      " p = f32[8,16] parameter(0), sharding=" ROWS "\n s = f32[8,8] parameter(1)\n z = f32[] constant(0)\n"
      " w = f32[8,16] select-and-scatter(p, s, z), window={size=1x2 stride=1x2}, select=larger, scatter=sum\n"
      " ROOT o = f32[8,16] abs(w)\n",
      "w " ROWS },
    { "convolution: small kernel, batch and space follow", "", "",
      " p = f32[8,32,32,4] parameter(0), sharding={devices=[2,2,1,1]<=[4]}\n k = f32[3,3,4,16] parameter(1)\n"
      " c = f32[8,32,32,16] convolution(p, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n"
      " ROOT o = f32[8,32,32,16] abs(c)\n",
      "c {devices=[2,2,1,1]<=[4]}" },
    { "convolution: large kernel, batch alone", "", "",
      " p = f32[8,34,34,4] parameter(0), sharding={devices=[2,2,1,1]<=[4]}\n k = f32[33,33,4,16] parameter(1)\n"
      " c = f32[8,2,2,16] convolution(p, k), window={size=33x33}, dim_labels=b01f_01io->b01f\n"
      " ROOT o = f32[8,2,2,16] abs(c)\n",
      "c {devices=[2,1,1,1,2]<=[4] last_tile_dim_replicate}" },
    { "convolution: a window of one is a dot", "", "",
      " p = f32[8,32,32,4] parameter(0), sharding={devices=[1,2,1,2]<=[4]}\n k = f32[1,1,4,16] parameter(1)\n"
      " c = f32[8,32,32,16] convolution(p, k), window={size=1x1}, dim_labels=b01f_01io->b01f\n"
      " ROOT o = f32[8,32,32,16] abs(c)\n",
      "c {devices=[1,2,1,1,2]<=[4] last_tile_dim_replicate}" },
};

static const struct rule_case indexed[] = {
    { "gather: indices give the batch, whole dimensions pass", "", "",
      " t = f32[100,8] parameter(0), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n"
      " i = s32[16] parameter(1), sharding={devices=[2,2]<=[4] last_tile_dim_replicate}\n"
      " g = f32[16,8] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}\n"
      " ROOT o = f32[16,8] abs(g)\n",
      "g " GRID },
    { "gather: without spmd the operand gives nothing", "nospmd", "",
      " t = f32[100,8] parameter(0), sharding={devices=[1,2]<=[2]}\n i = s32[16] parameter(1)\n"
      " g = f32[16,8] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}\n"
      " ROOT o = f32[16,8] abs(g)\n",
      "g none" },
    { "gather: backward to both operands", "", "",
      " p = f32[100,8] parameter(0)\n t = f32[100,8] negate(p)\n q = s32[16] parameter(1)\n i = s32[16] negate(q)\n"
      " ROOT g = f32[16,8] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}, sharding=" GRID "\n",
      "t " PCOLS "; i {devices=[2,2]<=[4] last_tile_dim_replicate}" },
    { "gather: batching dimensions", "", "",
      " t = f32[8,100] parameter(0), sharding={devices=[4,1]<=[4]}\n i = s32[8,5,1] parameter(1)\n"
      " g = f32[8,5] gather(t, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}\n"
      " ROOT o = f32[8,5] abs(g)\n",
      "g " ROWS },
    { "gather: an iota among the indices makes its dimension a batch", "", "",
      " t = f32[8,100] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      " n = s32[8,5,1] iota(), iota_dimension=0\n j = s32[8,5,1] parameter(1)\n"
      " i = s32[8,5,2] concatenate(n, j), dimensions={2}\n"
      " g = f32[8,5] gather(t, i), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1}\n"
      " ROOT o = f32[8,5] abs(g)\n",
      "g " ROWS },
    { "scatter: the operand first", "", "",
      " t = f32[100,8] parameter(0), sharding={devices=[1,4]<=[4]}\n i = s32[16,1] parameter(1)\n u = f32[16,8] parameter(2)\n"
      " v = f32[16,8] negate(u)\n"
      " s = f32[100,8] scatter(t, i, v), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n"
      " ROOT o = f32[100,8] abs(s)\n",
      "s " COLS "; v " COLS },
    { "scatter: updates pass on whole dimensions", "", "",
      " p = f32[100,8] parameter(0)\n t = f32[100,8] negate(p)\n i = s32[16,1] parameter(1)\n"
      " u = f32[16,8] parameter(2), sharding={devices=[1,4]<=[4]}\n"
      " s = f32[100,8] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n"
      " ROOT o = f32[100,8] abs(s)\n",
      "s " COLS "; t " COLS },
    { "scatter: updates split by what they are indexed with", "", "",
      " t = f32[100,8] parameter(0)\n q = s32[16,1] parameter(1)\n i = s32[16,1] negate(q)\n"
      " u = f32[16,8] parameter(2), sharding={devices=[4,1]<=[4]}\n"
      " s = f32[100,8] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, sharding={replicated}\n"
      " ROOT o = f32[100,8] abs(s)\n",
      "i {devices=[4,1]<=[4]}" },
    { "scatter: without spmd also where nothing around it has a sharding", "nospmd", "",
      " t = f32[100,8] parameter(0)\n i = s32[16,1] parameter(1)\n u = f32[16,8] parameter(2)\n"
      " s = f32[100,8] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n"
      " ROOT o = f32[100,8] abs(s)\n",
      "s {replicated}; t none" },
    { "scatter: without spmd the result is replicated", "nospmd", "",
      " t = f32[100,8] parameter(0), sharding={devices=[1,4]<=[4]}\n i = s32[16,1] parameter(1)\n u = f32[16,8] parameter(2)\n"
      " s = f32[100,8] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n"
      " ROOT o = f32[100,8] abs(s)\n",
      "s {replicated}" },
};

static const struct rule_case control[] = {
    { "tuples fill with replicated and take what is better", "", "",
      " p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n q = f32[8] parameter(1)\n"
      " t = (f32[8], f32[8]) tuple(p, q)\n g = f32[8] get-tuple-element(t), index=1\n h = f32[8] get-tuple-element(t), index=0\n"
      " ROOT o = (f32[8], f32[8]) tuple(g, h)\n",
      "t {{devices=[4]<=[4]},{replicated}}; g {replicated}; h {devices=[4]<=[4]}" },
    { "nested tuples count leaves", "", "",
      " p = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n q = f32[8] parameter(1)\n i = (f32[8], f32[8]) tuple(q, p)\n"
      " t = (f32[8], (f32[8], f32[8])) tuple(q, i)\n g = (f32[8], f32[8]) get-tuple-element(t), index=1\n"
      " ROOT o = (f32[8], f32[8]) copy(g)\n",
      "i {{replicated},{devices=[2]<=[2]}}; t {{replicated},{replicated},{devices=[2]<=[2]}}; g {{replicated},{devices=[2]<=[2]}}" },
    { "an element makes its tuple", "", "",
      " p = (f32[8], f32[8]) parameter(0)\n t = (f32[8], f32[8]) copy(p)\n g = f32[8] get-tuple-element(t), index=1\n"
      " ROOT o = f32[8] negate(g), sharding={devices=[4]<=[4]}\n",
      "t {{replicated},{devices=[4]<=[4]}}; g {devices=[4]<=[4]}" },
    { "elements change leaf by leaf", "", "",
      " p = (f32[8], f32[8], f32[8]) parameter(0)\n t = (f32[8], f32[8], f32[8]) copy(p)\n a = f32[8] get-tuple-element(t), index=0\n"
      " b = f32[8] get-tuple-element(t), index=2\n x = f32[8] negate(a), sharding={devices=[4]<=[4]}\n"
      " y = f32[8] negate(b), sharding={devices=[2]<=[2]}\n ROOT o = (f32[8], f32[8]) tuple(x, y)\n",
      "t {{devices=[4]<=[4]},{replicated},{devices=[2]<=[2]}}" },
    { "a leaf need not be a refinement", "", "",
      " p = (f32[12,20], f32[8]) parameter(0)\n t = (f32[12,20], f32[8]) copy(p)\n a = f32[12,20] get-tuple-element(t), index=0\n"
      " b = f32[12,20] get-tuple-element(t), index=0\n x = f32[12,20] negate(a), sharding={devices=[2,1]<=[2]}\n"
      " y = f32[12,20] abs(b), sharding=" COLS "\n ROOT o = (f32[12,20], f32[12,20]) tuple(x, y)\n",
      "t {" COLS ",{replicated}}" },
    { "the filler keeps manual groups", "", "",
      " p = (f32[8,8], f32[8]) parameter(0)\n t = (f32[8,8], f32[8]) copy(p)\n g = f32[8] get-tuple-element(t), index=1\n"
      " ROOT o = f32[8] negate(g), sharding={devices=[2,2]<=[4] last_tile_dims={manual}}\n",
      "t {{devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}},{devices=[2,2]<=[4] last_tile_dims={manual}}}" },
    { "an operand held twice takes the better", "", "",
      " p = f32[8] parameter(0)\n x = f32[8] negate(p)\n"
      " ROOT t = (f32[8], f32[8]) tuple(x, x), sharding={{replicated},{devices=[4]<=[4]}}\n",
      "x {devices=[4]<=[4]}" },
    { "empty tuples", "", "",
      " p = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n e = () tuple()\n t = (f32[8], (), f32[8]) tuple(p, e, p)\n"
      " ROOT o = (f32[8], (), f32[8]) copy(t)\n",
      "t {{devices=[2]<=[2]},{devices=[2]<=[2]}}; e {}" },
    { "a loop, its body and its condition agree", "",
      "cond {\n s = (s32[], f32[8,8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(9)\n"
      " ROOT c = pred[] compare(i, n), direction=LT\n}\n"
      "body {\n v = (s32[], f32[8,8]) parameter(0)\n j = s32[] get-tuple-element(v), index=0\n one = s32[] constant(1)\n"
      " j2 = s32[] add(j, one)\n a = f32[8,8] get-tuple-element(v), index=1\n m = f32[8,8] multiply(a, a)\n"
      " ROOT w2 = (s32[], f32[8,8]) tuple(j2, m)\n}\n",
      " p = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}\n k = s32[] constant(0)\n t = (s32[], f32[8,8]) tuple(k, p)\n"
      " w = (s32[], f32[8,8]) while(t), condition=cond, body=body\n g = f32[8,8] get-tuple-element(w), index=1\n"
      " ROOT o = f32[8,8] abs(g)\n",
      "t {{replicated},{devices=[2,1]<=[2]}}; w {{replicated},{devices=[2,1]<=[2]}}; v {{replicated},{devices=[2,1]<=[2]}}; "
      "s {{replicated},{devices=[2,1]<=[2]}}; w2 {{replicated},{devices=[2,1]<=[2]}}; m {devices=[2,1]<=[2]}; j {replicated}; g {devices=[2,1]<=[2]}" },
    { "a loop at the root stays free behind a copy", "",
      "cond {\n s = (f32[8]) parameter(0)\n ROOT c = pred[] constant(false)\n}\nbody {\n ROOT v = (f32[8]) parameter(0)\n}\n",
      " p = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n t = (f32[8]) tuple(p)\n"
      " ROOT w = (f32[8]) while(t), condition=cond, body=body\n",
      "t {{devices=[2]<=[2]}}; w {{devices=[2]<=[2]}}; ROOT none" },
    { "a sharded body root gives its sharding to all of them", "",
      "cond {\n s = (f32[8]) parameter(0)\n ROOT c = pred[] constant(false)\n}\n"
      "body {\n v = (f32[8]) parameter(0)\n g0 = f32[8] get-tuple-element(v), index=0\n n = f32[8] negate(g0)\n"
      " ROOT w2 = (f32[8]) tuple(n), sharding={{devices=[2]<=[2]}}\n}\n",
      " p = f32[8] parameter(0)\n q = f32[8] negate(p)\n t = (f32[8]) tuple(q)\n w = (f32[8]) while(t), condition=cond, body=body\n"
      " h = f32[8] get-tuple-element(w), index=0\n ROOT o = f32[8] abs(h)\n",
      "q {devices=[2]<=[2]}; t {{devices=[2]<=[2]}}; s {{devices=[2]<=[2]}}; n {devices=[2]<=[2]}; h {devices=[2]<=[2]}" },
    { "calls hand on in both directions", "", "f {\n a = f32[8] parameter(0)\n ROOT n = f32[8] negate(a)\n}\n",
      " p = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n q = f32[8] abs(p)\n c = f32[8] call(q), to_apply=f\n ROOT o = f32[8] abs(c)\n",
      "q {devices=[2]<=[2]}; a {devices=[2]<=[2]}; n {devices=[2]<=[2]}; c {devices=[2]<=[2]}" },
    { "branches share the result, parameters follow their operands", "",
      "yes {\n a = f32[8] parameter(0)\n ROOT n = f32[8] negate(a)\n}\nno {\n b = f32[8] parameter(0)\n ROOT m = f32[8] exponential(b)\n}\n",
      " s = pred[] parameter(0)\n p = f32[8] parameter(1), sharding={devices=[2]<=[2]}\n q = f32[8] parameter(2)\n u = f32[8] abs(p)\n"
      " v = f32[8] abs(q)\n c = f32[8] conditional(s, u, v), true_computation=yes, false_computation=no\n ROOT o = f32[8] abs(c)\n",
      "u {devices=[2]<=[2]}; v {devices=[2]<=[2]}; a {devices=[2]<=[2]}; n {devices=[2]<=[2]}; b {devices=[2]<=[2]}; c {devices=[2]<=[2]}" },
    { "a branch's parameter overwrites what it is passed", "",
      "yes {\n a = f32[8] parameter(0)\n ROOT n = f32[8] reverse(a), dimensions={0}\n}\nno {\n b = f32[8] parameter(0)\n ROOT m = f32[8] negate(b)\n}\n",
      " s = pred[] parameter(0)\n p = f32[8] parameter(1)\n u = f32[8] abs(p)\n v = f32[8] abs(p)\n"
      " c = f32[8] conditional(s, u, v), true_computation=yes, false_computation=no\n ROOT o = f32[8] abs(c), sharding={devices=[2]<=[2]}\n",
      "u {devices=[2]1,0}; v {devices=[2]<=[2]}; a {devices=[2]1,0}; b {devices=[2]<=[2]}" },
    { "an optimisation barrier passes tuples", "", "",
      " p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n t = (f32[8]) tuple(p)\n b = (f32[8]) opt-barrier(t)\n"
      " g = f32[8] get-tuple-element(b), index=0\n ROOT o = f32[8] abs(g)\n",
      "b {{devices=[4]<=[4]}}; g {devices=[4]<=[4]}" },
    { "the seed of random bits is replicated", "", "",
      " p = u64[2] parameter(0), sharding={devices=[2]<=[2]}\n s = u64[2] not(p)\n r = u32[8,8] rng-bit-generator(s), algorithm=rng_default\n"
      " ROOT o = u32[8,8] not(r), sharding={devices=[2,1]<=[2]}\n",
      "s {replicated}; r {devices=[2,1]<=[2]}" },
    { "an all-reduce passes, an all-gather does not", "", "",
      " p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n r = f32[8] all-reduce(p), replica_groups={}, to_apply=sum\n"
      " a = f32[8] abs(r)\n ROOT o = f32[8] abs(a)\n",
      "r {devices=[4]<=[4]}; a {devices=[4]<=[4]}" },
};

#define CALL(n, x, s) " " n " = f32[8,8] custom-call(" x "), custom_call_target=\"Sharding\", sharding=" s
#define OPEN1 ", backend_config=\"unspecified_dims=[1]\"\n"

static const struct rule_case annotations[] = {
    { "an annotation is a copy, and its unsharded operand is like it", "", "",
      " p = f32[8,8] parameter(0)\n c = f32[8,8] abs(p)\n" CALL("s", "c", ROWS) "\n ROOT o = f32[8,8] negate(s)\n",
      "c " ROWS "; s " ROWS },
    { "a sharded operand keeps its own", "", "",
      " p = f32[8,8] parameter(0)\n c = f32[8,8] abs(p), sharding=" COLS "\n" CALL("s", "c", ROWS) "\n"
      " n = f32[8,8] negate(s)\n ROOT o = f32[8,8] abs(n)\n",
      "c " COLS "; s " ROWS "; n " ROWS },
    { "an annotated parameter keeps being one", "", "",
      " p = f32[8,8] parameter(0)\n" CALL("s", "p", ROWS) "\n ROOT o = f32[8,8] negate(s)\n", "p " ROWS "; s " ROWS },
    { "an open dimension is filled from the operand", "", "",
      " p = f32[8,8] parameter(0)\n c = f32[8,8] abs(p), sharding=" PCOLS "\n" CALL("s", "c", PROWS) OPEN1
      " n = f32[8,8] negate(s)\n ROOT o = f32[8,8] abs(n)\n",
      "c " PCOLS "; s " GRID "; n " GRID },
    { "and from a user", "", "",
      " p = f32[8,8] parameter(0)\n c = f32[8,8] abs(p)\n" CALL("s", "c", PROWS) OPEN1
      " ROOT o = f32[8,8] abs(s), sharding=" PCOLS "\n",
      "c " GRID "; s " GRID },
    { "a closed one is not", "", "",
      " p = f32[8,8] parameter(0)\n c = f32[8,8] abs(p), sharding=" PCOLS "\n" CALL("s", "c", PROWS) "\n"
      " n = f32[8,8] negate(s)\n ROOT o = f32[8,8] abs(n)\n",
      "s " PROWS "; n " PROWS },
    { "open dimensions are refined through the border of a manual region", "", "",
      " p = f32[8,8] parameter(0)\n c = f32[8,8] abs(p), sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}\n"
      CALL("s", "c", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}") OPEN1
      " m = f32[4,8] custom-call(s), custom_call_target=\"SPMDFullToShardShape\", sharding={devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}" OPEN1
      " n = f32[4,8] negate(m)\n"
      " b = f32[8,8] custom-call(n), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}\n"
      " ROOT o = f32[8,8] abs(b)\n",
      "s {devices=[2,2,2]<=[8] last_tile_dim_replicate}; m {devices=[1,2,2,2]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}; "
      "n {devices=[1,2,2,2]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}" },
    { "manual spreads between the borders", "", "",
      " p = f32[8] parameter(0)\n c = f32[8] abs(p), sharding={devices=[2]<=[2]}\n"
      " s = f32[8] custom-call(c), custom_call_target=\"Sharding\", sharding={devices=[2]<=[2]}\n"
      " f = f32[4] custom-call(s), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
      " k = f32[4] constant({1,2,3,4})\n a = f32[4] add(f, k)\n"
      " t = f32[8] custom-call(a), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[2]<=[2]}\n ROOT o = f32[8] abs(t)\n",
      "f {manual}; k {manual}; a {manual}; t {devices=[2]<=[2]}" },
    { "manual stops at the way out also where that has no sharding", "", "",
      " p = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"
      " f = f32[4] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n a = f32[4] negate(f)\n"
      " t = f32[8] custom-call(a), custom_call_target=\"SPMDShardToFullShape\"\n u = f32[8] abs(t)\n ROOT o = f32[8] abs(u)\n",
      "f {manual}; a {manual}; t none; u none" },
    { "shard_as makes one even of what does not go together", "out=1", "",
      " p = f32[8,8] parameter(0), sharding=" ROWS "\n q = f32[8,8] parameter(1), sharding=" COLS "\n a = f32[8,8] negate(p)\n"
      CALL("ga", "a", "{unknown shard_as 3}") "\n b = f32[8,8] negate(q)\n" CALL("gb", "b", "{unknown shard_as 3}") "\n"
      " ROOT t = (f32[8,8], f32[8,8]) tuple(ga, gb)\n",
      "a " COLS "; b " COLS },
    { "shard_as makes them one", "out=1", "",
      " p = f32[8,8] parameter(0), sharding=" PROWS "\n q = f32[8,8] parameter(1), sharding=" PCOLS "\n a = f32[8,8] negate(p)\n"
      CALL("ga", "a", "{unknown shard_as 3}") "\n b = f32[8,8] negate(q)\n" CALL("gb", "b", "{unknown shard_as 3}") "\n"
      " ROOT t = (f32[8,8], f32[8,8]) tuple(ga, gb)\n",
      "a " GRID "; b " GRID "; ROOT {" GRID "," GRID "}" },
    { "members of `like` ask those of `as` where both have the number", "out=1", "",
      " p = f32[8,8] parameter(0), sharding=" ROWS "\n q = f32[8,8] parameter(1)\n a = f32[8,8] negate(p)\n"
      CALL("ga", "a", "{unknown shard_like 1}") "\n b = f32[8,8] negate(q)\n" CALL("gb", "b", "{unknown shard_like 1}") "\n"
      " c = f32[8,8] negate(q)\n" CALL("gc", "c", "{unknown shard_as 1}") "\n"
      " ROOT t = (f32[8,8], f32[8,8], f32[8,8]) tuple(ga, gb, gc)\n",
      "a " ROWS "; b {replicated}; c {replicated}" },
    { "shard_like with a number of its own spreads beside shard_as", "out=1", "",
      " p = f32[8,8] parameter(0), sharding=" ROWS "\n q = f32[8,8] parameter(1)\n a = f32[8,8] negate(p)\n"
      CALL("ga", "a", "{unknown shard_like 1}") "\n b = f32[8,8] negate(q)\n" CALL("gb", "b", "{unknown shard_like 1}") "\n"
      " c = f32[8,8] negate(q)\n" CALL("gc", "c", "{unknown shard_as 2}") "\n"
      " ROOT t = (f32[8,8], f32[8,8], f32[8,8]) tuple(ga, gb, gc)\n",
      "a " ROWS "; b " ROWS "; c {replicated}" },
    { "a gather of an array by itself: it counts as the indices, also without spmd", "nospmd", "",
      " p = s32[1] parameter(0)\n x = s32[1] negate(p)\n"
      " y = s32[1] gather(x, x), offset_dims={0}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=0, slice_sizes={1}, sharding={replicated}\n"
      " ROOT z = s32[1] abs(y)\n",
      "x {replicated}" },
    { "shard_like only spreads", "", "",
      " p = f32[8,8] parameter(0), sharding=" ROWS "\n q = f32[8,8] parameter(1), sharding=" COLS "\n a = f32[8,8] negate(p)\n"
      CALL("ga", "a", "{unknown shard_like 3}") "\n b = f32[8,8] negate(q)\n" CALL("gb", "b", "{unknown shard_like 3}") "\n"
      " ROOT t = (f32[8,8], f32[8,8]) tuple(ga, gb)\n",
      "a " ROWS "; b " COLS },
    { "a barrier stops what comes forward", "", "",
      " p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n c = f32[8] abs(p)\n"
      " f = f32[8] custom-call(c), custom_call_target=\"ShardBarrierFrom\", custom_call_has_side_effect=true\n n = f32[8] negate(f)\n"
      " ROOT o = (f32[8]) tuple(n)\n",
      "c {devices=[4]<=[4]}; n none" },
    { "the other one answers replicated backward", "", "",
      " p = f32[8] parameter(0)\n c = f32[8] abs(p)\n"
      " f = f32[8] custom-call(c), custom_call_target=\"ShardBarrierTo\", custom_call_has_side_effect=true\n"
      " ROOT o = f32[8] negate(f), sharding={devices=[4]<=[4]}\n",
      "c {replicated}" },
    { "outputs one by one", "out=0,1", "",
      " p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n q = f32[8] parameter(1), sharding={devices=[4]<=[4]}\n"
      " ROOT t = (f32[8], f32[8]) tuple(p, q), sharding={{replicated},{replicated}}\n",
      "ROOT {{replicated},{devices=[4]<=[4]}}" },
    { "parameters one by one", "par=1,0", "",
      " p = f32[8] parameter(0)\n q = f32[8] parameter(1)\n c = f32[8] add(p, q)\n ROOT o = f32[8] abs(c), sharding={devices=[4]<=[4]}\n",
      "p {devices=[4]<=[4]}; q none; c {devices=[4]<=[4]}" },
};

/* What front ends do not write, but XLA answers. */
static const struct rule_case rare[] = {
    { "a loop at the root is free behind its copy, sharded or not (P-75)", "",
      "cond { a = (s32[], f32[4,8]) parameter(0)\n"
      " i = s32[] get-tuple-element(a), index=0\n"
      " n = s32[] constant(3)\n"
      " ROOT r = pred[] compare(i, n), direction=LT\n"
      "}\n"
      "body { b = (s32[], f32[4,8]) parameter(0), sharding={{maximal device=3}, {maximal device=3}}\n"
      " j = s32[] get-tuple-element(b), index=0\n"
      " o = s32[] constant(1)\n"
      " k = s32[] add(j, o)\n"
      " x = f32[4,8] get-tuple-element(b), index=1\n"
      " ROOT t = (s32[], f32[4,8]) tuple(k, x)\n"
      "}\n",
      " p = f32[4,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      " z = s32[] constant(0)\n"
      " t0 = (s32[], f32[4,8]) tuple(z, p)\n"
      " ROOT w = (s32[], f32[4,8]) while(t0), condition=cond, body=body\n",
      "w {{replicated}, {devices=[4,1]<=[4]}}; t {{maximal device=3}, {maximal device=3}}; b {{replicated}, {devices=[4,1]<=[4]}}" },
    { "one sharding for a loop whose shape is not written is each element's", "out=1",
      "cond { a = (s32[], f32[4,8]) parameter(0)\n"
      " i = s32[] get-tuple-element(a), index=0\n"
      " n = s32[] constant(3)\n"
      " ROOT r = pred[] compare(i, n), direction=LT\n"
      "}\n"
      "body { b = (s32[], f32[4,8]) parameter(0)\n"
      " j = s32[] get-tuple-element(b), index=0\n"
      " o = s32[] constant(1)\n"
      " k = s32[] add(j, o)\n"
      " x = f32[4,8] get-tuple-element(b), index=1\n"
      " ROOT t = (s32[], f32[4,8]) tuple(k, x), sharding={{replicated}, {replicated}}\n"
      "}\n",
      " p = f32[4,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      " z = s32[] constant(0)\n"
      " t0 = (s32[], f32[4,8]) tuple(z, p)\n"
      " ROOT w = while(t0), condition=cond, body=body, sharding={replicated}\n",
      "w {{replicated}, {devices=[4,1]<=[4]}}; x {devices=[4,1]<=[4]}; t {{replicated}, {replicated}}" },
    { "manual of the other operand goes on to a dot's operand (P-126)", "nospmd",
      "",
      " p = f32[4,8] parameter(0), sharding={replicated}\n"
      " m = f32[4,8] copy(p), sharding={manual}\n"
      " q = f32[8,4] parameter(1)\n"
      " c = f32[8,4] copy(q)\n"
      " d = f32[4,4] dot(m, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n"
      " ROOT t = (f32[4,4]) tuple(d)\n",
      "c {manual}; q {manual}; d {replicated}" },
    { "manual of the indices goes on to the updates (P-130)", "nospmd",
      "",
      " p = f32[4,8] parameter(0)\n"
      " i = s32[4] iota(), iota_dimension=0, sharding={manual}\n"
      " q = f32[4,8] parameter(1)\n"
      " u = f32[4,8] copy(q)\n"
      " d = f32[4,8] scatter(p, i, u), to_apply=sum, update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, sharding={devices=[4,1]<=[4]}\n"
      " ROOT t = (f32[4,8]) tuple(d)\n",
      "u {manual}; q {manual}; p none" },
    { "a barrier that relays meets what the one in front of it stood on (P-85)", "",
      "",
      " p = f32[4,8] parameter(0)\n"
      " c = f32[4,8] copy(p), sharding={devices=[4,1]<=[4]}\n"
      " f = f32[4,8] custom-call(c), custom_call_target=\"ShardBarrierTo\", sharding={replicated}, custom_call_has_side_effect=true\n"
      " g = f32[4,8] custom-call(f), custom_call_target=\"ShardBarrierFrom\", sharding={unknown shard_as 0}, custom_call_has_side_effect=true\n"
      " ROOT n = f32[4,8] negate(g), sharding={devices=[1,4]<=[4]}\n",
      "c {devices=[1,4]<=[4]}; p none" },
    { "a barrier of a like group relays where the number is an as group's, too (P-84)", "",
      "",
      " p = f32[4,8] parameter(0)\n"
      " k = f32[4,8] negate(p), sharding={unknown shard_as 0}\n"
      " c = f32[4,8] copy(p)\n"
      " t = f32[4,8] custom-call(c), custom_call_target=\"ShardBarrierTo\", custom_call_has_side_effect=true\n"
      " g = f32[4,8] custom-call(t), custom_call_target=\"ShardBarrierFrom\", sharding={unknown shard_like 0}, custom_call_has_side_effect=true\n"
      " r = f32[8,4] reshape(k)\n"
      " n = f32[4,8] negate(g), sharding={devices=[1,4]<=[4]}\n"
      " ROOT o = (f32[4,8], f32[8,4]) tuple(n, r)\n",
      "c {devices=[1,4]<=[4]}; k {replicated}" },
};

static void run_all(const struct rule_case *cases, size_t n)
{
    int bad = 0;
    for (size_t k = 0; k < n; k++) {
        struct bed b;
        char text[16384];
        (void)snprintf(text, sizeof text, "HloModule m\n" COMMON_COMPUTATIONS "%sENTRY main {\n%s}\n", cases[k].before,
                       cases[k].entry);
        bed_load(&b, text);
        bed_run(&b, cases[k].options);
        assert_non_null(b.result);
        bad += bed_check(&b, cases[k].name, cases[k].expect);
        bed_free(&b);
    }
    assert_int_equal(bad, 0);
}

static void test_elementwise(void **state)
{
    (void)state;
    run_all(elementwise, COUNTOF(elementwise));
}

static void test_shapes(void **state)
{
    (void)state;
    run_all(shapes, COUNTOF(shapes));
}

static void test_sums(void **state)
{
    (void)state;
    run_all(sums, COUNTOF(sums));
}

static void test_indexed(void **state)
{
    (void)state;
    run_all(indexed, COUNTOF(indexed));
}

static void test_control(void **state)
{
    (void)state;
    run_all(control, COUNTOF(control));
}

static void test_annotations(void **state)
{
    (void)state;
    run_all(annotations, COUNTOF(annotations));
}

static void test_rare(void **state)
{
    (void)state;
    run_all(rare, COUNTOF(rare));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_sums),        cmocka_unit_test(test_indexed),
        cmocka_unit_test(test_control),     cmocka_unit_test(test_annotations),
        cmocka_unit_test(test_rare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
