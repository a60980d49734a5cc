/* Examples of the table's rows: transcripts that the tests replay against the program. */
#ifndef GSPMD_REPL_EXAMPLES_H
#define GSPMD_REPL_EXAMPLES_H

/* clang-format off */
#define EX_load \
    "gspmd> load models/mlp.json\n" \
    "models/mlp.json: 8 instructions, 3 parameters\n"
#define EX_list \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> list op:dot\n" \
    "name  op   shape        operands\n" \
    "h     dot  f32[64,512]  x, w1\n" \
    "y     dot  f32[64,128]  a, w2\n" \
    "gspmd> list in(h,1)\n" \
    "name  op         shape         operands\n" \
    "x     parameter  f32[64,128]\n" \
    "w1    parameter  f32[128,512]\n" \
    "h     dot        f32[64,512]   x, w1\n"
#define EX_info \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> info\n" \
    "module       mlp (models/mlp.json)\n" \
    "size         8 instructions in 1 computation\n" \
    "devices      8, mesh data=2 model=4\n" \
    "annotated    0 of 3 parameters, 0 Sharding calls; 0 by you\n" \
    "parameters   3, 544 KiB in all\n" \
    "             w1  f32[128,512]       256 KiB\n" \
    "             w2  f32[512,128]       256 KiB\n" \
    "             x   f32[64,128]   32,768 bytes\n" \
    "opcodes      parameter 3, dot 2, constant 1, maximum 1, broadcast 1\n"
#define EX_where \
    "gspmd> load models/transformer_layer.hlo\n" \
    "...\n" \
    "gspmd> where op:dot --limit=2\n" \
    "dot.52  transformer_layer.py:39  jit(layer)/jit(main)/attention/bsd,dhk->bshk/dot_general  (line 72 of the module)\n" \
    "dot.50  transformer_layer.py:37  jit(layer)/jit(main)/attention/bsd,dhk->bshk/dot_general  (line 77 of the module)\n" \
    "and 6 more (--all shows them)\n"
#define EX_export \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> export hlo -\n" \
    "HloModule mlp, allow_spmd_sharding_propagation_to_parameters={true,false,true}, allow_spmd_sharding_propagation_to_output={true}, num_partitions=8\n" \
    "\n" \
    "ENTRY main {\n" \
    "  x = f32[64,128] parameter(0)\n" \
    "  w1 = f32[128,512] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n" \
    "  w2 = f32[512,128] parameter(2)\n" \
    "  h = f32[64,512] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" \
    "  a.zero = f32[] constant(0)\n" \
    "  a.zeros = f32[64,512] broadcast(a.zero), dimensions={}\n" \
    "  a = f32[64,512] maximum(h, a.zeros)\n" \
    "  ROOT y = f32[64,128] dot(a, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" \
    "}\n"
#define EX_mesh \
    "gspmd> mesh data=2 model=4\n" \
    "mesh data=2 model=4: 8 devices\n" \
    "gspmd> mesh\n" \
    "mesh data=2 model=4: 8 devices\n"
#define EX_shard \
    "gspmd> load models/mlp.json\n" \
    "models/mlp.json: 8 instructions, 3 parameters\n" \
    "gspmd> mesh data=2 model=4\n" \
    "mesh data=2 model=4: 8 devices\n" \
    "gspmd> shard w1 [_,model]\n" \
    "w1: [_,model]\n" \
    "5 of 8 shardings changed: w1 [_,model], w2 [model,_], h [_,model], a.zeros [_,model], ...\n" \
    "collectives: 0 -> 1, 0 bytes -> 49,152 bytes a device\n" \
    "gspmd> shard x P('data', None)\n" \
    "x: [data,_]\n" \
    "5 of 8 shardings changed: x [data,_], h [data,model], a.zeros [data,model], a [data,model], ...\n" \
    "collectives: 1 as before, 49,152 bytes -> 24,576 bytes a device\n"
#define EX_constrain \
    "gspmd> load models/mlp.json\n" \
    "models/mlp.json: 8 instructions, 3 parameters\n" \
    "gspmd> mesh data=2 model=4\n" \
    "mesh data=2 model=4: 8 devices\n" \
    "gspmd> constrain h [data,?]\n" \
    "h: [data,_], as a constraint behind it\n" \
    "5 of 8 shardings changed: x [data,_], h [data,_], a.zeros [data,_], a [data,_], ...\n"
#define EX_unshard \
    "gspmd> load models/mlp.json\n" \
    "models/mlp.json: 8 instructions, 3 parameters\n" \
    "gspmd> mesh data=2 model=4\n" \
    "mesh data=2 model=4: 8 devices\n" \
    "gspmd> shard w1 [_,model]\n" \
    "w1: [_,model]\n" \
    "5 of 8 shardings changed: w1 [_,model], w2 [model,_], h [_,model], a.zeros [_,model], ...\n" \
    "collectives: 0 -> 1, 0 bytes -> 49,152 bytes a device\n" \
    "gspmd> unshard w1\n" \
    "w1: no sharding of its own\n" \
    "5 of 8 shardings changed: w1 replicated, w2 replicated, h replicated, a.zeros replicated, ...\n" \
    "collectives: 1 -> 0, 49,152 bytes -> 0 bytes a device\n"
#define EX_set \
    "gspmd> set passes=spmd\n" \
    "gspmd> set passes\n" \
    "passes=spmd  spmd: the program as it leaves spmd-partitioning\n"
#define EX_undo \
    "gspmd> load models/mlp.json\n" \
    "models/mlp.json: 8 instructions, 3 parameters\n" \
    "gspmd> mesh data=2 model=4\n" \
    "mesh data=2 model=4: 8 devices\n" \
    "gspmd> shard w1 [_,model]\n" \
    "w1: [_,model]\n" \
    "5 of 8 shardings changed: w1 [_,model], w2 [model,_], h [_,model], a.zeros [_,model], ...\n" \
    "collectives: 0 -> 1, 0 bytes -> 49,152 bytes a device\n" \
    "gspmd> undo\n" \
    "undone: shard w1 [_,model]\n" \
    "5 of 8 shardings changed: w1 replicated, w2 replicated, h replicated, a.zeros replicated, ...\n" \
    "collectives: 1 -> 0, 49,152 bytes -> 0 bytes a device\n"
#define EX_redo \
    "gspmd> load models/mlp.json\n" \
    "models/mlp.json: 8 instructions, 3 parameters\n" \
    "gspmd> mesh data=2 model=4\n" \
    "mesh data=2 model=4: 8 devices\n" \
    "gspmd> undo\n" \
    "undone: mesh data=2 model=4\n" \
    "gspmd> redo\n" \
    "done again: mesh data=2 model=4\n"
#define EX_save \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> save start\n" \
    "saved as start: 0 annotations\n"
#define EX_restore \
    "gspmd> load models/mlp.json\n" \
    "models/mlp.json: 8 instructions, 3 parameters\n" \
    "gspmd> mesh data=2 model=4\n" \
    "mesh data=2 model=4: 8 devices\n" \
    "gspmd> save start\n" \
    "saved as start: 0 annotations\n" \
    "gspmd> shard w1 [_,model]\n" \
    "w1: [_,model]\n" \
    "5 of 8 shardings changed: w1 [_,model], w2 [model,_], h [_,model], a.zeros [_,model], ...\n" \
    "collectives: 0 -> 1, 0 bytes -> 49,152 bytes a device\n" \
    "gspmd> restore start\n" \
    "restored: start\n" \
    "5 of 8 shardings changed: w1 replicated, w2 replicated, h replicated, a.zeros replicated, ...\n" \
    "collectives: 1 -> 0, 49,152 bytes -> 0 bytes a device\n"
#define EX_strategies \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> save tensor\n" \
    "saved as tensor: 1 annotation\n" \
    "gspmd> strategies\n" \
    "strategy   mesh            annotations\n" \
    "tensor     data=2 model=4            1  current\n" \
    "(current)  data=2 model=4            1  2 edits to undo\n" \
    "  shard w1 [_,model]\n"
#define EX_spell \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> spell [(model,data),_] f32[64,128]\n" \
    "axes     [(model,data),_]\n" \
    "hlo      {devices=[8,1]<=[2,4]T(1,0)}\n" \
    "mesh     {mesh['data'=2,'model'=4], [{'model', 'data'}, {}]}\n" \
    "pspec    P(('model', 'data'), None)\n" \
    "sdy      #sdy.sharding<@mesh, [{\"model\", \"data\"}, {}]>\n" \
    "list     {devices=[8,1]0,4,1,5,2,6,3,7}\n" \
    "iota     {devices=[8,1]<=[2,4]T(1,0)}\n" \
    "named    NamedSharding(mesh, P(('model', 'data'), None))\n" \
    "dtensor  [_StridedShard(dim=0, split_factor=4), Shard(0)]\n" \
    "sbp      cannot be said: axis model is split further by axis data, against the order of the mesh, and SBP has no word for that\n" \
    "book     A[I_{model,data}, J]\n" \
    "typed    f32[64@(model,data),128]\n"
#define EX_diff \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> save start\n" \
    "saved as start: 0 annotations\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> diff start\n" \
    "tensor   shape         before      after\n" \
    "w1       f32[128,512]  -       ->  [_,model]\n" \
    "w2       f32[512,128]  -       ->  [model,_]\n" \
    "h        f32[64,512]   -       ->  [_,model]\n" \
    "a.zeros  f32[64,512]   -       ->  [_,model]\n" \
    "a        f32[64,512]   -       ->  [_,model]\n" \
    "   collective  shape         bytes  over   for\n" \
    "+  all-reduce  f32[64,128]  49,152  model  y\n" \
    "all-reduce: 0 -> 1\n" \
    "bytes a device: 0 bytes -> 49,152 bytes\n" \
    "memory at the peak: 704 KiB -> 224 KiB\n"
#define EX_show \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> show\n" \
    "name     op         global        sharding   local         copies   bytes  origin\n" \
    "w1       parameter  f32[128,512]  [_,model]  f32[128,128]       2  65,536  user\n" \
    "w2       parameter  f32[512,128]  [model,_]  f32[128,128]       2  65,536  propagated\n" \
    "h        dot        f32[64,512]   [_,model]  f32[64,128]        2  32,768  propagated\n" \
    "a.zeros  broadcast  f32[64,512]   [_,model]  f32[64,128]        2  32,768  propagated\n" \
    "a        maximum    f32[64,512]   [_,model]  f32[64,128]        2  32,768  propagated\n" \
    "gspmd> show h\n" \
    "h = dot\n" \
    "  sharding   [_,model]   {devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n" \
    "  global     f32[64,512]   128 KiB\n" \
    "  local      f32[64,128]   32,768 bytes a device, 4 tiles, copies 2\n" \
    "  origin     propagated from w1 (why h tells the way)\n"
#define EX_why \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> why y\n" \
    "y  f32[64,128]  replicated  {replicated}\n" \
    "y   dot        replicated  from a: the result takes the split of the operand's batch and free dimensions (P-106)\n" \
    "a   maximum    [_,model]   from h: an elementwise result is laid out as its operand (P-98)\n" \
    "h   dot        [_,model]   from w1: the result takes the split of the operand's batch and free dimensions (P-106)\n" \
    "w1  parameter  [_,model]   annotated by your shard w1 [_,model]\n" \
    "try:        shard x [data,_]\n"
#define EX_conflicts \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard x [model,_]; shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> conflicts\n" \
    "h  [_,model]\n" \
    "  w1 won with [_,model]; x offered [model,_]: no better than what the result has (P-106)\n" \
    "  it costs 1 collective, 24,576 bytes a device\n"
#define EX_why_not \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> why-not y [data,_]\n" \
    "y  f32[64,128]  has replicated, not [data,_]\n" \
    "  no path     no neighbour offers it: no annotation's split leads here\n" \
    "would bring it: shard a [data,model] (5 shardings changed; found by trying)\n" \
    "always:         shard y [data,_]\n"
#define EX_step \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> step 2\n" \
    "1  given             w1  - -> [_,model]  annotated by your shard w1 [_,model]\n" \
    "2  level 1, sweep 1  h   - -> [_,model]  from w1: the result takes the split of the operand's batch and free dimensions (P-106)\n" \
    "after change 2 of 8\n" \
    "gspmd> step\n" \
    "3  level 1, sweep 1  a  - -> [_,model]  from h: an elementwise result is laid out as its operand (P-98)\n" \
    "after change 3 of 8\n"
#define EX_back \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> back 2\n" \
    "8  level 2, sweep 1  a.zero   - -> replicated  taken back\n" \
    "7  level 2, sweep 1  a.zeros  - -> [_,model]   taken back\n" \
    "after change 6 of 8\n"
#define EX_run_to \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> run-to h\n" \
    "1  given             w1  - -> [_,model]  annotated by your shard w1 [_,model]\n" \
    "2  level 1, sweep 1  h   - -> [_,model]  from w1: the result takes the split of the operand's batch and free dimensions (P-106)\n" \
    "after change 2 of 8\n" \
    "gspmd> run-to start\n" \
    "2  level 1, sweep 1  h   - -> [_,model]  taken back\n" \
    "1  given             w1  - -> [_,model]  taken back\n" \
    "after change 0 of 8: the start\n"
#define EX_coverage \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> coverage\n" \
    "annotation  sharding   reached  by trying\n" \
    "w1          [_,model]        7  without it 5 change  your shard w1 [_,model]\n" \
    "0 of 1 annotation could go together\n"
#define EX_propagate \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> propagate\n" \
    "8 of 8 instructions have a sharding, 5 are split; 8 changes in 1 sweep\n"
#define EX_passes \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> shard w2 [model,_]\n" \
    "...\n" \
    "gspmd> constrain y [model,_]\n" \
    "...\n" \
    "gspmd> passes reduce_scatter\n" \
    "before reduce_scatter: 1 collective, 49,152 bytes sent by each device\n" \
    "collective  name          shape         bytes  over   for  because\n" \
    "all-reduce  all-reduce.1  f32[64,128]  49,152  model  y    partial sums of the contracting dimension (S-181)\n" \
    "after reduce_scatter: 1 collective, 24,576 bytes sent by each device\n" \
    "collective      name              shape         bytes  over   for  because\n" \
    "reduce-scatter  reduce-scatter.1  f32[16,128]  24,576  model  y    partial sums of the contracting dimension (S-181)\n"
#define EX_comms \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> comms\n" \
    "collective  name          shape         bytes  over   for  because\n" \
    "all-reduce  all-reduce.1  f32[64,128]  49,152  model  y    partial sums of the contracting dimension (S-181)\n" \
    "1 all-reduce; 49,152 bytes sent by each device\n" \
    "by axis: model 49,152 bytes\n"
#define EX_blame \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> blame all-reduce.1\n" \
    "collective  name          shape         bytes  over   for  because\n" \
    "all-reduce  all-reduce.1  f32[64,128]  49,152  model  y    partial sums of the contracting dimension (S-181)\n" \
    "  for        y = dot f32[64,128]\n" \
    "  operand    a  [_,model]\n" \
    "  operand    w2  [model,_]\n" \
    "  result     replicated\n" \
    "  takes      dot.2 f32[64,128], of y\n" \
    "  because    partial sums of the contracting dimension (S-181)\n" \
    "  weighed    all-reduce as it is: 49,152 bytes\n" \
    "             a gathered over the same devices: 98,304 bytes\n" \
    "             w2 gathered over the same devices: 192 KiB\n" \
    "avoidable: unshard w1 removes it; nothing more elsewhere, 0 bytes in all instead of 49,152 (found by trying 7 changes)\n" \
    "tried                it    bytes in all  elsewhere  arguments  shardings\n" \
    "unshard w1           goes             0         +0    544 KiB          5\n" \
    "shard w1 replicated  goes             0         +0    544 KiB          5\n" \
    "shard w2 [_,model]   goes        98,304    +98,304    160 KiB          2\n" \
    "shard w2 replicated  goes        98,304    +98,304    352 KiB          1\n" \
    "shard a replicated   goes        98,304    +98,304    352 KiB          3\n" \
    "and 2 more: blame all-reduce.1 --all\n" \
    "why y tells where its sharding comes from\n"
#define EX_reshard \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> reshard f32[16,16] [model,_] -> [_,model]\n" \
    "[model,_] -> [_,model]   {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate} -> {devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n" \
    "f32[16,16]: f32[4,16] on a device -> f32[16,4]\n" \
    "collective  name          shape       bytes  over\n" \
    "all-to-all  all-to-all.1  f32[4,4,4]    192  model\n" \
    "all-to-all: 192 bytes sent by each device\n" \
    "partitioner=best knows no path of fewer bytes\n" \
    "gspmd> reshard f32[16,16] [data,_] -> [_,model]\n" \
    "[data,_] -> [_,model]   {devices=[2,1,4]<=[8] last_tile_dim_replicate} -> {devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n" \
    "f32[16,16]: f32[8,16] on a device -> f32[16,4]\n" \
    "collective  name          shape       bytes  over\n" \
    "all-gather  all-gather.1  f32[16,16]    512  data\n" \
    "all-gather: 512 bytes sent by each device; the whole array is made on every device on the way\n" \
    "step  partitioner=xla                  bytes  partitioner=best                bytes\n" \
    "   1  all-gather f32[16,16] over data    512  all-gather f32[16,4] over data    128\n" \
    "best: all-gather, 128 bytes instead of 512 bytes\n"
#define EX_program \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> program\n" \
    "HloModule mlp, num_partitions=8\n" \
    "\n" \
    "add {\n" \
    "  parameter.1 = f32[] parameter(0)\n" \
    "  parameter.2 = f32[] parameter(1)\n" \
    "  ROOT add.1 = f32[] add(parameter.1, parameter.2)\n" \
    "}\n" \
    "\n" \
    "ENTRY main_spmd {\n" \
    "  x = f32[64,128] parameter(0), sharding={replicated}\n" \
    "  w1 = f32[128,128] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n" \
    "  w2 = f32[128,128] parameter(2), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n" \
    "  dot.1 = f32[64,128] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" \
    "  constant.1 = f32[] constant(0)\n" \
    "  broadcast.1 = f32[64,128] broadcast(constant.1), dimensions={}\n" \
    "  maximum.1 = f32[64,128] maximum(dot.1, broadcast.1)\n" \
    "  dot.2 = f32[64,128] dot(maximum.1, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" \
    "  ROOT all-reduce.1 = f32[64,128] all-reduce(dot.2), channel_id=1, replica_groups=[2,4]<=[8], use_global_device_ids=true, to_apply=add\n" \
    "}\n"
#define EX_partition \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> partition\n" \
    "8 devices, 12 instructions each: 1 all-reduce; 49,152 bytes sent by each device\n"
#define EX_doctor \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=3\n" \
    "...\n" \
    "gspmd> shard x [data,_]\n" \
    "...\n" \
    "gspmd> doctor\n" \
    "4 values do not divide evenly:\n" \
    "  h  [data,_]  1,024 padding elements (3 %): dimension 0: 64 over 3 pads to 22 each, 66 would divide\n" \
    "  a.zeros  [data,_]  1,024 padding elements (3 %): dimension 0: 64 over 3 pads to 22 each, 66 would divide\n" \
    "  a  [data,_]  1,024 padding elements (3 %): dimension 0: 64 over 3 pads to 22 each, 66 would divide\n" \
    "  x  [data,_]  256 padding elements (3 %): dimension 0: 64 over 3 pads to 22 each, 66 would divide\n" \
    "sizes of parameters against the mesh:\n" \
    "  data=3 does not divide 64: x dimension 0\n" \
    "  data=3 does not divide 128: x dimension 1, w1 dimension 0, w2 dimension 1\n" \
    "  data=3 does not divide 512: w1 dimension 1, w2 dimension 0\n"
#define EX_run \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> run\n" \
    "ran on 8 devices: 1 output\n" \
    "  0  f32[64,128]\n"
#define EX_verify \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> verify\n" \
    "8 devices agree with the unpartitioned module (ring)\n"
#define EX_trace \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> trace\n" \
    "...\n"
#define EX_inject \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> inject kill y device=3\n" \
    "...\n"
#define EX_break \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> break all-reduce.1\n" \
    "break before all-reduce.1 of the program; continue runs to it\n" \
    "gspmd> continue\n" \
    "before all-reduce.1 (all-reduce, step 3): devices 0,1,2,3,4,5,6,7\n" \
    "gspmd> step\n" \
    "ended after step 4: devices 0,1,2,3,4,5,6,7\n"
#define EX_continue \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> continue\n" \
    "ended after step 4: devices 0,1,2,3,4,5,6,7\n"
#define EX_print \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> print h device=3\n" \
    "...\n"
#define EX_plot \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> plot layout w1\n" \
    "w1   f32[128,512]   [_,model]\n" \
    "local f32[128,128], 4 tiles, 2 copies of each, 65,536 bytes a device\n" \
    "\n" \
    "             0:128         128:256        256:384        384:512\n" \
    "       ┌──────────────┬──────────────┬──────────────┬──────────────┐\n" \
    "       │ ╱ ╱ ╱ ╱ ╱ ╱ ╱│╱ ╱ ╱ ╱ ╱ ╱ ╱ │ ╱ ╱ ╱ ╱ ╱ ╱ ╱│╱ ╱ ╱ ╱ ╱ ╱ ╱ │\n" \
    "  0:128│╱ ╱ 0,4 x2  ╱ │ ╱  1,5 x2 ╱ ╱│╱ ╱ 2,6 x2  ╱ │ ╱  3,7 x2 ╱ ╱│\n" \
    "       │ ╱ ╱ ╱ ╱ ╱ ╱ ╱│╱ ╱ ╱ ╱ ╱ ╱ ╱ │ ╱ ╱ ╱ ╱ ╱ ╱ ╱│╱ ╱ ╱ ╱ ╱ ╱ ╱ │\n" \
    "       └──────────────┴──────────────┴──────────────┴──────────────┘\n" \
    "\n" \
    "numbers in a tile: the devices that hold it\n" \
    " ╱ xN: N copies, one on each device named\n"
#define EX_graph \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> graph y hops=1\n" \
    "...\n"
#define EX_animate \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh model=2\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> animate all-reduce.1\n" \
    "...\n"
#define EX_window \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> window layout w1\n" \
    "gspmd> window mesh --torus\n"
#define EX_expect \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> expect no all-gather\n" \
    "ok: no all-gather\n" \
    "gspmd> expect bytes(model) < 1KiB\n" \
    "       ^^^^^^^^^^^^^^^^^^^^^^^^^^ expected bytes(model) < 1KiB, found 49152\n" \
    "(exit 1)\n"
#define EX_suggest \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [model,_]\n" \
    "...\n" \
    "gspmd> suggest\n" \
    "now: 192 KiB sent by each device, 584 KiB of memory at the peak\n" \
    "...\n"
#define EX_extract \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> extract all-reduce.1 -\n" \
    "HloModule piece, num_partitions=4\n" \
    "...\n"
#define EX_explain \
    "gspmd> explain partial sum\n" \
    "Each device's value is one term, and the value meant is their sum. A product whose contracting dimension\n" \
    "...\n"
#define EX_echo \
    "gspmd> echo these words\n" \
    "these words\n"
#define EX_time \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> time info > /dev/null\n"
#define EX_alias \
    "gspmd> alias mm mesh data=2 model=4\n" \
    "gspmd> mm\n" \
    "mesh data=2 model=4: 8 devices\n"
#define EX_help \
    "gspmd> help source\n" \
    "source FILE\n" \
    "    run the commands of a file\n" \
    "    also: .\n"
#define EX_apropos \
    "gspmd> apropos annotation\n" \
    "load        open a module: HLO or StableHLO text (.gz too), a JSON model\n" \
    "...\n"
#define EX_lesson \
    "gspmd> lesson matmul --check\n" \
    "ok  matmul: 3 questions, 0 problems\n"
#define EX_history \
    "gspmd> echo one\n" \
    "one\n" \
    "gspmd> history\n" \
    "   1  echo one\n" \
    "   2  history\n"
#define EX_quit \
    "gspmd> quit 3\n" \
    "(exit 3)\n"
#define EX_hardware \
    "gspmd> hardware h100\n" \
    "h100: NVIDIA H100 SXM, DGX nodes of 8\n" \
    "                             value  unit                                     source\n" \
    "devices a chip                   1  devices                                  https://www.nvidia.com/en-us/data-center/h100/ (data sheet; without sparsity)\n" \
    "peak bf16                 9.89e+14  FLOP/s, dense                            https://www.nvidia.com/en-us/data-center/h100/ (data sheet; without sparsity)\n" \
    "...\n"
#define EX_memory \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> shard x [data,_]\n" \
    "...\n" \
    "gspmd> memory\n" \
    "peak         176 KiB a device, at dot.2\n" \
    "fits         176 KiB of 16.0 GiB on tpu-v3, 16.0 GiB free; what grows with the batch could be 349,522 times as much\n" \
    "  parameters         131,072 bytes   72.7 %\n" \
    "  inputs              16,384 bytes    9.1 %\n" \
    "  temporaries         32,768 bytes   18.2 %\n" \
    "arguments    147,456 bytes, outputs 16,384 bytes (0 of them in donated arguments), temporaries 16,384 bytes\n" \
    "schedule     depth first, the largest cone of an operand first\n" \
    "alive at the peak  kind         shape          bytes   share  for\n" \
    "w1                 parameters   f32[128,128]  65,536  36.4 %\n" \
    "w2                 parameters   f32[128,128]  65,536  36.4 %\n" \
    "x                  inputs       f32[32,128]   16,384   9.1 %\n" \
    "dot.1              temporaries  f32[32,128]   16,384   9.1 %  h\n" \
    "dot.2              temporaries  f32[32,128]   16,384   9.1 %  y\n" \
    "held alike  copies   bytes  too many\n" \
    "w1               2  65,536    32,768\n" \
    "w2               2  65,536    32,768\n" \
    "x                4  16,384    12,288\n" \
    "77,824 bytes a device would go if nothing were held twice\n"
#define EX_cost \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> shard x [data,_]\n" \
    "...\n" \
    "gspmd> hardware h100\n" \
    "...\n" \
    "gspmd> cost\n" \
    "step         6.15 us on h100: 8 nvlink\n" \
    "compute      2.07 us, communication 4.08 us, of which 4.08 us exposed (66.3 % of the step)\n" \
    "utilisation  0.0 % of the bf16 peak by matrix FLOPs: 2.097e+06 a device and step (all: 2.105e+06), 224 KiB of memory traffic\n" \
    "operation   kernels  compute    links  exposed  of the step\n" \
    "all-reduce        1           4.08 us  4.08 us       66.3 %\n" \
    "dot               2  2.07 us                         33.7 %\n" \
    "axis   kernels    links  exposed  of the step\n" \
    "model        1  4.08 us  4.08 us       66.3 %\n" \
    "scope       kernels  compute    links  exposed  of the step\n" \
    "(no scope)        3  2.07 us  4.08 us  4.08 us      100.0 %\n" \
    "kernel        op          shape        one run  runs  of the step  bound by  for\n" \
    "all-reduce.1  all-reduce  f32[32,128]  4.08 us     1       66.3 %  links     y\n" \
    "dot.2         dot         f32[32,128]  1.04 us     1       16.8 %  memory    y\n" \
    "dot.1         dot         f32[32,128]  1.04 us     1       16.8 %  memory    h\n"
#define EX_roofline \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> shard x [data,_]\n" \
    "...\n" \
    "gspmd> roofline --limit=3\n" \
    "tpu-v3: below 136.7 FLOPs a byte memory is the bound\n" \
    "kernel        op              FLOPs   bytes  FLOPs a byte  of peak  of the step  bound by\n" \
    "all-reduce.1  all-reduce      4,096  32,768         0.125                47.4 %  links\n" \
    "dot.2         dot         1.053e+06  98,308          10.7    8.1 %       26.3 %  memory\n" \
    "dot.1         dot         1.049e+06  98,304          10.7    8.0 %       26.3 %  memory\n"
#define EX_why_cost \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> shard w1 [_,model]\n" \
    "...\n" \
    "gspmd> shard x [data,_]\n" \
    "...\n" \
    "gspmd> hardware a100\n" \
    "...\n" \
    "gspmd> why-cost y\n" \
    "dot.2  dot f32[32,128]  1.06 us x 1 runs = 1.06 us, 17.0 % of the step\n" \
    "  arithmetic: 1.049e+06 matrix FLOPs / (1.56e+14 FLOP/s x 0.94 reached x 1 of whole 64-tiles), beside it 4,096 others / (1.95e+13 x 1) = 7.15 ns  (https://www.nvidia.com/en-us/data-center/a100/ (data sheet))\n" \
    "  memory: (81,924 bytes read + 16,384 written) / (2039 GB/s x 0.8 reached) = 60.3 ns  (https://www.nvidia.com/en-us/data-center/a100/ (data sheet))\n" \
    "    reads 16,384 bytes of dot.1\n" \
    "    reads 65,536 bytes of w2\n" \
    "    reads 4 bytes of constant.1\n" \
    "  the longer one and 1 us to start: 1.06 us, bound by memory\n" \
    "all-reduce.1  all-reduce f32[32,128]  4.12 us x 1 runs = 4.12 us, 66.0 % of the step\n" \
    "  V = 16,384 bytes in groups of 4 over model\n" \
    "  along nvlink (8 devices): 4 members, 204 GB/s of 300 GB/s (https://www.nvidia.com/en-us/data-center/a100/: NVLink 600 GB/s both ways; x 0.68 reached)\n" \
    "  2 V (n-1)/n / bandwidth = 120 ns, latency 4 us: 4.12 us\n"
#define EX_sweep \
    "gspmd> load models/mlp.json\n" \
    "...\n" \
    "gspmd> mesh data=2 model=4\n" \
    "...\n" \
    "gspmd> sweep mesh=data,model w1:[_,model]|- x:[data,_]|-\n" \
    "16 of 16 strategies on tpu-v3\n" \
    "fastest that fits: 2.89 us, 288 KiB: data=4 model=2  w1 [_,model]  x [data,_]\n" \
    "least memory: 6.9 us, 160 KiB: data=1 model=8  w1 [_,model]  x [data,_]\n" \
    "      step     peak   waits  FLOPs          sent  strategy\n" \
    "*  2.89 us  288 KiB   0.8 %  1.2 %   8,192 bytes  data=4 model=2  w1 [_,model]  x [data,_]\n" \
    "   3.37 us  384 KiB   2.7 %  4.1 %  32,768 bytes  data=4 model=2  w1 [_,model]  x -\n" \
    "   3.57 us  536 KiB   0.0 %  1.0 %       0 bytes  data=8 model=1  w1 [_,model]  x [data,_]  (and 1 alike)\n" \
    "   3.68 us  560 KiB   0.0 %  1.9 %       0 bytes  data=4 model=2  w1 -  x [data,_]\n" \
    "   3.91 us  608 KiB   0.0 %  3.5 %       0 bytes  data=2 model=4  w1 -  x [data,_]\n" \
    "   4.37 us  704 KiB   0.0 %  6.2 %       0 bytes  data=1 model=8  w1 -  x [data,_]  (and 5 alike)\n" \
    "*  4.84 us  176 KiB  47.4 %  0.7 %  24,576 bytes  data=2 model=4  w1 [_,model]  x [data,_]\n" \
    "   5.32 us  224 KiB  48.7 %  1.3 %  49,152 bytes  data=2 model=4  w1 [_,model]  x -\n" \
    "*   6.9 us  160 KiB  64.4 %  0.5 %  57,344 bytes  data=1 model=8  w1 [_,model]  x [data,_]  (and 1 alike)\n" \
    "* no other strategy is both faster and smaller; waits: share of the step for links; FLOPs: share of the peak\n" \
    "...\n"
/* clang-format on */

#endif
