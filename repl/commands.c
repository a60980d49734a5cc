/* The table of commands: dispatcher, help, man page, completion and tests all read it. */
#include "repl/commands.h"
#include "repl/examples.h"

/* clang-format off */
const struct command commands[] = {
    /* ---- model ---- */
    { .name = "load", .group = "model", .args = "[session|strategy|rules] FILE|DIR", .min = 1, .max = 2, .options = "--all --limit=",
      .summary = "open a module: HLO or StableHLO text (.gz too), a JSON model",
      .details = "    The mesh and the options stay, annotations do not: they belong to a module. What cannot be\n"
                 "    read leaves the module that is there. In a script, load - <<END takes the lines up to END.\n"
                 "    DIR       a folder that xla_dump_to filled: tells the modules and stages in it, takes the largest\n"
                 "    session   what export session wrote: the module, the saved strategies and the current one\n"
                 "    strategy  annotations by argument name onto the module at hand: what export strategy writes, a\n"
                 "              JSON or Python map of names to PartitionSpecs, or another module's parameters; tells\n"
                 "              what did not match\n"
                 "    rules     logical axis rules and globs over argument names (embed -> fsdp; *wi*: [embed, mlp]):\n"
                 "              tells which matched, which were shadowed, which axes clashed\n",
      .example = EX_load, .complete = COMPLETE_FILE, .run = cmd_load },
    { .name = "list", .aliases = "ls", .group = "model", .args = "[SEL | parameters | computations] [--all]", .max = 1, .options = "--all --limit=",
      .summary = "instructions of the module, with operation, shape, operands",
      .details = "    SEL: names, globs (dot.*), op:dot, scope:layer0/*, in(T,3) and out(T,3) (what T is made from,\n"
                 "    what is made from it, so many steps away), joined by commas.\n",
      .example = EX_list, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_list },
    { .name = "info", .aliases = "i", .group = "model", .args = "[--all]", .max = 0, .options = "--all",
      .summary = "the module at a glance: devices, parameters by bytes, annotations, what is unusual",
      .example = EX_info, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_info },
    { .name = "where", .group = "model", .args = "SEL [--all]", .min = 1, .max = 1, .options = "--all --limit=",
      .summary = "source line and scope of an instruction, from its metadata",
      .example = EX_where, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_where },
    { .name = "export", .group = "model", .args = "hlo|stablehlo|strategy|program|session FILE [--propagated] [force]", .min = 2, .max = 3, .options = "--propagated --force as=",
      .summary = "write the module with its annotations, or the partitioned program",
      .details = "    hlo         the module that the strategy stands for, as HLO text\n"
                 "    program     what every device runs, as HLO text that XLA reads; the shardings of its inputs\n"
                 "                and outputs are in the header. More than 10 MB of device lists needs force\n"
                 "    stablehlo   the same as StableHLO, with mhlo.sharding attributes\n"
                 "    strategy    FILE.json, FILE.py (PartitionSpecs by argument name), FILE.hlo, FILE.mlir (the\n"
                 "                annotated module), or as=json|python|hlo|stablehlo; load strategy reads them all\n"
                 "    session     a script of the module's path, the saved strategies and the current one, which\n"
                 "                load session reads\n"
                 "    --propagated  with all shardings after propagation\n"
                 "    A FILE of - is the terminal.\n",
      .example = EX_export, .complete = COMPLETE_EXPORT, .flags = NEEDS_MODULE | WRITES_FILES, .run = cmd_export },

    /* ---- strategy ---- */
    { .name = "mesh", .aliases = "m", .group = "strategy", .args = "[@NAME] [AXIS=SIZE... [order=...] [physical=...]]", .max = -1,
      .summary = "name the grid of devices; alone: print it",
      .details = "    order=[4,2]T(1,0) or order=0,1,3,2,... says which device sits where. A further mesh is\n"
                 "    named @NAME and used as [@NAME x,_]. Annotations are read again, by axis name. Until one is\n"
                 "    named, it is the module's own: JAX since 0.7 writes it into its dumps.\n"
                 "    physical=[4,2]T(1,0) or physical=0,2,1,3,...: the places of devices 0, 1, 2, .. on the hardware,\n"
                 "    counted along its links; costs and plot mesh --physical follow it, shardings do not.\n",
      .example = EX_mesh, .complete = COMPLETE_NONE, .flags = CHANGES, .run = cmd_mesh },
    { .name = "shard", .aliases = "s", .group = "strategy", .args = "T SHARDING", .min = 2, .max = -1,
      .summary = "annotate a tensor, as if its text carried sharding=",
      .details = "    [_,model]          one entry a dimension: an axis, several ((data,model) or data*model,\n"
                 "                       major to minor), _ not split, ? left open, sub-axes model:(2)2\n"
                 "    {devices=[2,1,4]<=[8] last_tile_dim_replicate}, P('data', None), replicated, maximal 3,\n"
                 "    #sdy.sharding<@mesh, [{\"data\"}, {?}]>, f32[8@data,4], [Shard(0), Replicate()], (S(0), B),\n"
                 "    A[I_data, J], NamedSharding(mesh, P('data')) are read, too: spell prints them all.\n"
                 "    T may be a selection, or one leaf of a tuple: T{0,1}.\n",
      .example = EX_shard, .complete = COMPLETE_SPEC, .flags = NEEDS_MODULE | CHANGES, .run = cmd_shard },
    { .name = "constrain", .group = "strategy", .args = "T SHARDING", .min = 2, .max = -1,
      .summary = "put a Sharding call behind a tensor, as with_sharding_constraint does",
      .example = EX_constrain, .complete = COMPLETE_SPEC, .flags = NEEDS_MODULE | CHANGES, .run = cmd_constrain },
    { .name = "unshard", .group = "strategy", .args = "T | --module", .max = 1, .options = "--module",
      .summary = "take an annotation away; --module: all that the dump brought",
      .example = EX_unshard, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | CHANGES, .run = cmd_unshard },
    { .name = "set", .group = "strategy", .args = "[OPTION[=VALUE]]", .max = 2,
      .summary = "print all options, print one, set one",
      .example = EX_set, .complete = COMPLETE_OPTION, .flags = CHANGES, .run = cmd_set },
    { .name = "undo", .aliases = "u", .group = "strategy", .args = "[--all]", .max = 0, .options = "--all",
      .summary = "take the last edit back; as often as there are edits; --all: to the module as loaded",
      .example = EX_undo, .flags = CHANGES, .run = cmd_undo },
    { .name = "redo", .group = "strategy", .args = "", .max = 0,
      .summary = "do again what was undone",
      .example = EX_redo, .flags = CHANGES, .run = cmd_redo },
    { .name = "save", .group = "strategy", .args = "NAME", .min = 1, .max = 1,
      .summary = "keep the strategy under a name",
      .example = EX_save, .complete = COMPLETE_SAVED, .flags = NEEDS_MODULE, .run = cmd_save },
    { .name = "restore", .group = "strategy", .args = "NAME", .min = 1, .max = 1,
      .summary = "go to a saved strategy; undo comes back",
      .example = EX_restore, .complete = COMPLETE_SAVED, .flags = NEEDS_MODULE | CHANGES, .run = cmd_restore },
    { .name = "strategies", .group = "strategy", .args = "", .max = 0,
      .summary = "saved strategies, and the annotations of the current one",
      .example = EX_strategies, .flags = MAY_REDIRECT, .run = cmd_strategies },
    { .name = "spell", .group = "strategy", .args = "T | SHARDING [SHAPE]", .min = 1, .max = -1,
      .summary = "a sharding in every system's words: PartitionSpec, HLO, Shardy, DTensor, SBP, ...",
      .details = "    T: its sharding after propagation. Every line can be typed back where a sharding is expected;\n"
                 "    a spelling that cannot say it gives the reason. set spelling= prints all in one of them.\n",
      .example = EX_spell, .complete = COMPLETE_TENSOR, .flags = MAY_REDIRECT, .run = cmd_spell },
    { .name = "diff", .group = "strategy", .args = "A [B] [--all]", .min = 1, .max = 2, .options = "--all --limit=",
      .summary = "what two strategies, modules or programs do differently, by layer, too",
      .details = "    A and B are saved names, current (B, when it is left out), previous, or files: another\n"
                 "    dump of the model, whatever its numbering, or a program that XLA partitioned, which is\n"
                 "    compared with ours by its collectives.\n",
      .example = EX_diff, .complete = COMPLETE_SAVED, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_diff },

    /* ---- propagation ---- */
    { .name = "show", .aliases = "sh", .group = "propagation", .args = "[SEL] [--all]", .max = 1, .options = "--all --limit=",
      .summary = "shardings after propagation: global and local shape, copies, bytes a device, origin",
      .details = "    Alone: what the last edit changed. SEL: those (list's help tells what can stand there).\n",
      .example = EX_show, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_show },
    { .name = "why", .aliases = "w", .group = "propagation", .args = "T [DIM | AXIS] [--all]", .min = 1, .max = 2, .options = "--all",
      .summary = "where a sharding comes from: rule by rule back to the annotation, and who lost",
      .example = EX_why, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_why },
    { .name = "why-not", .group = "propagation", .args = "T SHARDING [--all]", .min = 2, .max = -1, .options = "--all",
      .summary = "what stands against a sharding, and the nearest annotation that would bring it",
      .details = "    annotated, boundary  propagation may not change it\n"
                 "    axis                 what should split one dimension splits another\n"
                 "    size                 fewer elements than tiles\n"
                 "    conflict             a neighbour offers it and loses, with the rule\n"
                 "    no path              nobody offers it\n"
                 "    Annotations are tried on copies of the strategy, the nearest first.\n",
      .example = EX_why_not, .complete = COMPLETE_SPEC, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_why_not },
    { .name = "step", .group = "propagation", .args = "[N] [--all]", .max = 1, .options = "--all --limit=",
      .summary = "propagation change by change: the next one, with rule and cause",
      .details = "    step and back move a cursor over all changes, from what was given to the end.\n",
      .example = EX_step, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_step },
    { .name = "back", .group = "propagation", .args = "[N] [--all]", .max = 1, .options = "--all --limit=",
      .summary = "propagation change by change: take the last one back",
      .example = EX_back, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_back },
    { .name = "run-to", .group = "propagation", .args = "T | N | start | end [--back] [--all]", .min = 1, .max = 1, .options = "--back --all --limit=",
      .summary = "go through propagation's changes up to the next one of a tensor",
      .example = EX_run_to, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_run_to },
    { .name = "conflicts", .group = "propagation", .args = "[--all]", .max = 0, .options = "--all --limit=",
      .summary = "where two shardings met and could not merge: who won, who lost, why, what it costs",
      .example = EX_conflicts, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_conflicts },
    { .name = "coverage", .group = "propagation", .args = "[--all]", .max = 0, .options = "--all --limit=",
      .summary = "how far each annotation reached, and which could go without any change",
      .details = "    reached: instructions whose chain of causes (why) ends at the annotation. What could go is\n"
                 "    found by trying, on copies of the strategy.\n",
      .example = EX_coverage, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_coverage },
    { .name = "propagate", .aliases = "p", .group = "propagation", .args = "[--rules] [--all]", .max = 0, .options = "--rules --all",
      .summary = "report on propagation (it runs whenever it is needed)",
      .details = "    --rules       for developers: how often each rule changed a sharding (fired), and how often what\n"
                 "                  it left is there at the end (decisive); --all: also those that did not fire\n",
      .example = EX_propagate, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_propagate },

    /* ---- partition ---- */
    { .name = "comms", .aliases = "c", .group = "partition", .args = "[--all]", .max = 0, .options = "--all --limit=",
      .summary = "collectives of the partitioned program: groups by axis, bytes, for which instruction",
      .details = "    Bytes are what one device sends, by the ring's formula, times the trip counts of the loops\n"
                 "    around. \"x ?\": the trip count is not known, and counts once. over: axes of the mesh, of a\n"
                 "    permute with the places that it moves (stage +1; (ring): the last sends to the first, too), or\n"
                 "    device numbers where no axis says it. What a screen does not hold are those of fewer bytes.\n",
      .example = EX_comms, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_comms },
    { .name = "blame", .group = "partition", .args = "COLLECTIVE [--all]", .min = 1, .max = 1, .options = "--all",
      .summary = "why a collective is there, what was weighed, and what removes it, found by trying",
      .details = "    Changes of one annotation near it and at its causes are tried on copies of the strategy:\n"
                 "    goes, stays  the collective then\n"
                 "    elsewhere    bytes that the change adds to everything else\n"
                 "    arguments    what one device's arguments take then\n"
                 "    avoidable    with the best of them less is sent in all; necessary: not so\n",
      .example = EX_blame, .complete = COMPLETE_NONE, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_blame },
    { .name = "reshard", .group = "partition", .args = "T | [SHAPE|T] A -> B [SHAPE]", .min = 1, .max = -1,
      .summary = "how a value changes its sharding, and what that costs",
      .details = "    reshard T                      what the program does for T\n"
                 "    reshard A -> B f32[8,16]       what moving such an array would take (the shape may stand first)\n"
                 "    reshard T -> B                 the same for T from where it is\n"
                 "  The plan of partitioner= as it is set, then XLA's and best's side by side.\n",
      .example = EX_reshard, .complete = COMPLETE_SPEC, .flags = MAY_REDIRECT, .run = cmd_reshard },
    { .name = "program", .group = "partition", .args = "[--all]", .max = 0, .options = "--all --limit=",
      .summary = "what every device runs, as HLO text",
      .example = EX_program, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_program },
    { .name = "passes", .group = "partition", .args = "[PASS [--program]]", .max = 1, .options = "--program",
      .summary = "what each pass after partitioning does to the collectives",
      .details = "    passes            all of them, in order: on or off, and what is sent behind each\n"
                 "    passes PASS       the collectives before and after it\n"
                 "    --program         the programs before and after it, as HLO text\n",
      .example = EX_passes, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_passes },
    { .name = "partition", .group = "partition", .args = "", .max = 0,
      .summary = "report on the partitioner (it runs whenever it is needed)",
      .example = EX_partition, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_partition },
    { .name = "doctor", .group = "partition", .args = "[--all]", .max = 0, .options = "--all --limit=",
      .summary = "sizes that do not divide, padding, idle devices, arrays made whole, missing rules",
      .example = EX_doctor, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_doctor },

    /* ---- numbers ---- */
    { .name = "run", .group = "numbers", .args = "[inputs=DIR] [outputs=DIR] [devices=1] [seed=N]", .max = 0, .options = "inputs= outputs= devices= seed=",
      .summary = "run the program on emulated devices",
      .details = "    inputs=DIR    DIR/0.npy, 1.npy, ...: one a leaf of the parameters, global arrays; what is\n"
                 "                  missing is made up from seed= (small integers, the same on every machine)\n"
                 "    outputs=DIR   one file a leaf of the outputs, global arrays\n"
                 "    devices=1     the unpartitioned module\n",
      .example = EX_run, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_run },
    { .name = "verify", .aliases = "v", .group = "numbers", .args = "[mode=ring|float] [--each] [--fuzz N] [seed=N]", .max = 0, .options = "mode= seed= --each --fuzz:",
      .summary = "prove that the partitioned program computes what the unpartitioned one does",
      .details = "    ring      every float is a 64-bit integer: results must agree bit for bit, at any depth\n"
                 "    float     the real types, within bounds that the operations allow\n"
                 "    --each    every intermediate that the program has in its final sharding, too\n"
                 "    --fuzz N  N random strategies of this module on these devices; what does not agree is printed\n"
                 "              as the commands that bring it\n",
      .example = EX_verify, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_verify },
    { .name = "trace", .group = "numbers", .args = "[INSTR] [device=N] [seed=N] [--all]", .max = 1, .options = "device= seed= --all --limit=",
      .summary = "run the program and show when each device did what, and each collective hop by hop",
      .details = "    INSTR     the hops of that collective: who sent which chunk to whom, when\n"
                 "    device=N  the timeline of one device\n"
                 "    The clock counts ticks of its own: a kernel takes 1 + bytes / 1,024 + operations / 131,072, a hop\n"
                 "    1 + bytes / 64. set collectives=ring|tree|direct chooses how chunks travel; values do not change.\n",
      .example = EX_trace, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_trace },
    { .name = "inject", .group = "numbers", .args = "delay|drop|corrupt|kill INSTR [device=N] [turn=N] [hop=N] [ticks=N]", .min = 2, .max = 2, .options = "device= turn= hop= ticks= seed=",
      .summary = "run the program with one planted fault, and see it reported",
      .details = "    delay    device N is held up when it comes to INSTR (ticks=1000)\n"
                 "    kill     device N ends there\n"
                 "    drop     a message that device N sends in the collective INSTR is lost (hop=0: its first)\n"
                 "    corrupt  one bit of that message is turned on the way\n"
                 "    turn=N   in a loop: when it comes there for the N-th time, from 0\n",
      .example = EX_inject, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_inject },
    { .name = "break", .group = "numbers", .args = "[INSTR | off]", .max = 1, .options = "seed=",
      .summary = "stop all devices before an instruction of the program; alone: where they are",
      .details = "    continue runs to the next break, step [N] makes N steps on every device, print T device=3 shows a\n"
                 "    value. Devices run in lock step. break off ends it, so does an edit.\n",
      .example = EX_break, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_break },
    { .name = "continue", .group = "numbers", .args = "", .max = 0, .options = "seed=",
      .summary = "run the stopped devices to the next break, or to the end",
      .example = EX_continue, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_continue },
    { .name = "print", .group = "numbers", .args = "T [device=N] [--all]", .min = 1, .max = 1, .options = "device= seed= --all --limit=",
      .summary = "a value of the program on a device: where the devices are stopped, else of a whole run",
      .example = EX_print, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_print },

    /* ---- cost ---- */
    { .name = "hardware", .aliases = "hw", .group = "cost", .args = "[NAME | FILE.json] [shape=8x16] [calibration=FILE]", .max = 1, .options = "shape= calibration=",
      .summary = "device types; one with every number and its source, chosen for memory, cost and sweep",
      .details = "    shape=8x16  chips along each axis of the torus; else near square, as slices are cut. A file of\n"
                 "                your own: assets/hardware/README.md tells its fields.\n"
                 "    calibration=FILE  other shares of the data sheet than assets/calibration.json has\n",
      .example = EX_hardware, .complete = COMPLETE_FILE, .flags = MAY_REDIRECT, .run = cmd_hardware },
    { .name = "memory", .group = "cost", .args = "[keep=X,..] [drop=X,..] [--all]", .max = 0, .options = "keep= drop= --all --limit=",
      .summary = "peak memory of one device: what is alive then, by kind, and whether it fits",
      .details = "    The program's own order when it is scheduled, else the best of three list orders. Donated\n"
                 "    arguments hold outputs; a loop's carry is kept once; elementwise chains have no buffers inside.\n"
                 "    temporaries: as XLA counts them, with outputs in allocations of their own.\n"
                 "    keep=X  what if X, of a loop's body, were kept in all turns and not computed again\n"
                 "    drop=X  what if X, of those alive, were computed again and not kept\n",
      .example = EX_memory, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_memory },
    { .name = "cost", .group = "cost", .args = "[overlap=none|full] [--all]", .max = 0, .options = "overlap= --all --limit=",
      .summary = "step time on the chosen hardware: compute, communication, by operation, axis, scope",
      .details = "    A kernel takes the longer of its arithmetic and its memory traffic; a collective its ring or\n"
                 "    links (why-cost shows the numbers); loops by their trip counts. overlap=full hides collectives\n"
                 "    behind the compute of their computation; start and done pairs always overlap.\n",
      .example = EX_cost, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_cost },
    { .name = "roofline", .group = "cost", .args = "[overlap=none|full] [--all]", .max = 0, .options = "overlap= --all --limit=",
      .summary = "kernel by kernel: FLOPs, bytes, what bounds it",
      .example = EX_roofline, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_roofline },
    { .name = "why-cost", .group = "cost", .args = "X [overlap=none|full]", .min = 1, .max = 1, .options = "overlap=",
      .summary = "the formula of one operation's time, with its numbers and their sources",
      .details = "    X: an instruction of the module, or a node of the program (comms and cost name them).\n",
      .example = EX_why_cost, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_why_cost },

    { .name = "sweep", .group = "cost", .args = "[models=FOLDER] [mesh=AXES] [T:SPEC|SPEC..]... [OPTION=A|B..]... [-o FILE.svg]", .max = -1, .options = "-o: --all",
      .summary = "memory and time of many strategies on all cores: a table, and which none beats in both",
      .details = "    mesh=data,model             every way to cut the devices into these axes\n"
                 "    mesh=data=2,model=4|..      these meshes\n"
                 "    w1:[_,model]|[model,_]|-    annotations to try on a tensor or a selection; - : as it is\n"
                 "    passes=full|spmd            values of an option (set lists them)\n"
                 "    models=FOLDER               every dump of a folder, first of all\n"
                 "    All combinations are tried, from the current strategy. Ctrl-C keeps what is there.\n",
      .example = EX_sweep, .flags = MAY_REDIRECT, .run = cmd_sweep },

    /* ---- pictures ---- */
    { .name = "plot", .group = "pictures", .args = "VIEW... [-o FILE.svg|FILE.png|FILE.pdf|FILE.txt]", .min = 1, .max = -1,
      .options = "-o: dims= page= tiles= device= comm= group= round= hops= nodes= stages= --values --before --torus --order --physical --in --out --blame --inline",
      .summary = "draw which device holds what, the mesh, a reshard: on the terminal or into a file",
      .details = "    layout T                who holds which piece of a tensor\n"
                 "        dims=R,C            the two dimensions that are shown; others are pages\n"
                 "        page=DIM:TILE,..    only that page\n"
                 "        tiles=N             tiles of a dimension that are drawn one by one\n"
                 "        device=N            what device N holds of it\n"
                 "        --values            numbers in the cells, as run devices=1 computes them\n"
                 "        --before            beside it what it was before the last edit\n"
                 "    device N                what device N holds of the parameters\n"
                 "    reshard T               what the program moves for T; T -> B, A -> B f32[8,16]: what would move\n"
                 "    mesh [AXIS]             the grid of devices, the groups of AXIS joined\n"
                 "        --torus --order     links of neighbours; places where they are not the ids\n"
                 "        --physical          where the devices sit on the hardware, how far the next one along AXIS is\n"
                 "        comm=NAME group=N   the groups of a collective\n"
                 "    graph [T [B]]           as the command graph has it\n"
                 "    hops COLLECTIVE         how it moves its chunks, round by round; round=K group=G: one of them\n"
                 "    timeline                devices over time: computing, communicating, waiting\n"
                 "        stages=AXIS         and where a stage of the pipeline along AXIS has no microbatch\n"
                 "    memory                  bytes of one device over its schedule, what is alive at the peak\n"
                 "    --inline                as a picture in the terminal, where it can: kitty, Ghostty, iTerm2, WezTerm,\n"
                 "                            sixels; set inline=auto: always\n",
      .example = EX_plot, .complete = COMPLETE_PLOT, .flags = MAY_REDIRECT, .run = cmd_plot },
    { .name = "graph", .group = "pictures", .args = "[T [B]] [hops=N] [--in|--out] [-o FILE.svg|FILE.png|FILE.pdf|FILE.dot]", .max = 2,
      .options = "-o: hops= nodes= --in --out --blame --inline",
      .summary = "instructions around one, between two, or the module at a glance; where data moves is marked",
      .details = "    graph             the module: a box a layer or computation, when it is large\n"
                 "    graph T           T and hops=2 steps around it, at most nodes=48\n"
                 "    graph T --in      what T is made from; --out: what is made from T\n"
                 "    graph A B         everything on the way from A to B\n"
                 "    graph COLLECTIVE  its devices, and who sends to whom\n"
                 "    --blame           frames the collectives that another annotation would save, found by trying\n"
                 "    On the terminal it is a list; files and the window are laid out by Graphviz's dot, which is\n"
                 "    started for it, and stopped when it takes long. -o FILE.dot writes the graph for Graphviz.\n",
      .example = EX_graph, .complete = COMPLETE_TENSOR, .flags = MAY_REDIRECT, .run = cmd_graph },
    { .name = "animate", .group = "pictures", .args = "COLLECTIVE [group=G] [-o FILE.svg|FILE.png|FILE.pdf]", .min = 1, .max = 1,
      .options = "-o: group= round= --inline",
      .summary = "a collective round by round: who has which chunk, what moves next, with the true numbers",
      .details = "    From a run on emulated devices (set collectives=ring|tree|direct). On the terminal and in an\n"
                 "    SVG file the frames stand below each other; PNG is a file a frame, FILE-00.png and so on; PDF\n"
                 "    has a page a frame. In the window (window hops NAME) space plays it, > and < step.\n",
      .example = EX_animate, .complete = COMPLETE_NONE, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_animate },
    { .name = "window", .aliases = "view", .group = "pictures", .args = "[VIEW...] [--wait] | close", .max = -1,
      .summary = "show a view in a window that follows every edit",
      .details = "    VIEW as plot has it: layout T, mesh, device N, ... A further one opens beside the first.\n"
                 "    In the window: ? tells the keys, : takes a command of this shell, a click shows what is\n"
                 "    under the pointer. The prompt goes on; closing the window leaves the session as it is.\n"
                 "    --wait returns when the window is closed. set theme=dark, set scale=2 for a projector.\n",
      .example = EX_window, .complete = COMPLETE_PLOT, .flags = RAW_WORDS, .run = cmd_window },

    /* ---- reviews ---- */
    { .name = "expect", .group = "reviews", .args = "WHAT [for SEL]", .min = 1, .max = -1,
      .summary = "assert something; exit status 1 when it does not hold",
      .details = "    expect no all-gather > 1MiB      expect no collectives\n"
                 "    expect all-reduce <= 2           expect comms(model) <= 3\n"
                 "    expect bytes < 2MiB              expect bytes(data) == 0\n"
                 "    expect sharding h == [data,_]    expect even\n"
                 "    expect memory < 14GiB            expect no remat\n"
                 "    expect verify\n"
                 "    expect unchanged FILE            the strategy as it was when --update wrote FILE\n"
                 "    for SEL: only what serves those instructions. --junit FILE on the command line keeps\n"
                 "    all verdicts; where GITHUB_ACTIONS=true, failures come as annotations, too.\n",
      .example = EX_expect, .flags = NEEDS_MODULE | RAW_WORDS, .run = cmd_expect },

    { .name = "suggest", .group = "reviews", .args = "[bytes | memory] [--all]", .max = 1, .options = "--all",
      .summary = "single annotations that send less, or take less memory, found by trying",
      .details = "    bytes (when nothing is said): fewer bytes, and no more memory than now. Each axis of the mesh\n"
                 "    is tried on each dimension of the largest parameters and of what collectives serve, on\n"
                 "    copies of the strategy.\n",
      .example = EX_suggest, .flags = NEEDS_MODULE | MAY_REDIRECT, .run = cmd_suggest },
    { .name = "extract", .group = "reviews", .args = "COLLECTIVE | SEL  FILE.hlo | -", .min = 2, .max = 2,
      .summary = "the smallest piece of the module that still shows a collective, to paste in an issue",
      .details = "    The piece stands alone: what it takes from the rest are parameters, and every value carries\n"
                 "    the sharding that it has here. A selection is cut out as it is.\n",
      .example = EX_extract, .complete = COMPLETE_TENSOR, .flags = NEEDS_MODULE | WRITES_FILES, .run = cmd_extract },
    { .name = "report", .group = "reviews", .args = "FILE.html|.md|.pdf [--against STRATEGY]", .min = 1, .max = 1, .options = "--against=",
      .summary = "one file for reviewers: strategy, pictures, collectives and reasons, the difference",
      .details = "    Self-contained, and the same bytes wherever it is made. --against=NAME: what differs from a\n"
                 "    saved strategy, or from another dump. The page's tables sort and filter, and can be read\n"
                 "    without scripts.\n",
      .complete = COMPLETE_FILE, .flags = NEEDS_MODULE | WRITES_FILES, .run = cmd_report },
    { .name = "explain", .group = "reviews", .args = "[WORD | LOG | -] [--all]", .max = -1, .options = "--all --limit=",
      .summary = "a word of the field; or what a job's log says, and what would mend it",
      .details = "    LOG: a file, - with lines behind <<END, or the message itself. Lines about an \"Involuntary\n"
                 "    full rematerialization\" and tables of the largest allocations are read; each is found in\n"
                 "    the loaded module, whatever its numbering.\n",
      .example = EX_explain, .complete = COMPLETE_FILE, .flags = MAY_REDIRECT, .run = cmd_explain },

    /* ---- scripts ---- */
    { .name = "source", .aliases = ".", .group = "scripts", .args = "FILE", .min = 1, .max = 1,
      .summary = "run the commands of a file",
      .complete = COMPLETE_FILE, .run = cmd_source },
    { .name = "echo", .group = "scripts", .args = "WORDS", .max = -1,
      .summary = "print the words",
      .example = EX_echo, .flags = RAW_WORDS, .run = cmd_echo },
    { .name = "time", .group = "scripts", .args = "COMMAND", .min = 1, .max = -1,
      .summary = "run a command and tell how long it took",
      .example = EX_time, .complete = COMPLETE_COMMAND, .flags = RAW_WORDS, .run = cmd_time },
    { .name = "log", .group = "scripts", .args = "[FILE | off]", .max = 1,
      .summary = "write what is done from here on as a script that does it again",
      .complete = COMPLETE_FILE, .flags = WRITES_FILES, .run = cmd_log },
    { .name = "watch", .group = "scripts", .args = "[FILE] [--times=N]", .max = 1, .options = "--times=",
      .summary = "read a dump again whenever it changes, annotations kept, and tell what differs",
      .details = "    The loaded file when none is named. Ctrl-C ends it, --times=N after N changes.\n",
      .complete = COMPLETE_FILE, .flags = NEEDS_MODULE, .run = cmd_watch },
    { .name = "recover", .group = "scripts", .args = "[--drop]", .max = 0, .options = "--drop",
      .summary = "bring back what the last session that died had done; --drop: forget it",
      .details = "    Every edit at the prompt is written down as it is made, and forgotten when the session\n"
                 "    ends with quit or Ctrl-D.\n",
      .run = cmd_recover },
    { .name = "alias", .group = "scripts", .args = "[NAME [COMMAND]]", .max = -1,
      .summary = "name a command line; with the name alone: forget it",
      .example = EX_alias, .complete = COMPLETE_COMMAND, .flags = RAW_WORDS, .run = cmd_alias },

    /* ---- help ---- */
    { .name = "help", .aliases = "? h", .group = "help", .args = "[COMMAND | GROUP]", .max = 1,
      .summary = "the commands; what one does, with an example",
      .example = EX_help, .complete = COMPLETE_COMMAND, .flags = MAY_REDIRECT, .run = cmd_help },
    { .name = "apropos", .group = "help", .args = "WORD", .min = 1, .max = 1,
      .summary = "commands whose help mentions a word",
      .example = EX_apropos, .flags = MAY_REDIRECT, .run = cmd_apropos },
    { .name = "tutorial", .group = "help", .args = "", .max = 0,
      .summary = "the main job in five minutes, live",
      .run = cmd_tutorial },
    { .name = "lesson", .group = "help", .args = "[NAME] [--present] [--check]", .max = 1, .options = "--present --check",
      .summary = "texts with live commands, and questions that the engine checks",
      .details = "    Alone: the list. --present: page by page, for a projector. --check: solve all questions by\n"
                 "    their solutions, as the tests do. Your own module and strategy wait outside.\n",
      .example = EX_lesson, .complete = COMPLETE_NONE, .flags = MAY_REDIRECT, .run = cmd_lesson },
    { .name = "history", .group = "help", .args = "[--all]", .max = 0, .options = "--all --limit=",
      .summary = "the commands so far, numbered",
      .example = EX_history, .flags = MAY_REDIRECT, .run = cmd_history },
    { .name = "version", .group = "help", .args = "", .max = 0,
      .summary = "which gspmd this is",
      .run = cmd_version },
    { .name = "quit", .aliases = "exit q", .group = "help", .args = "[STATUS]", .max = 1,
      .summary = "end the session",
      .example = EX_quit, .run = cmd_quit },
};
/* clang-format on */

const int ncommands = (int)COUNTOF(commands);
