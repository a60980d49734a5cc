#!/bin/sh
# What `export program` writes runs under JAX on as many CPU devices, and gives the numbers of gspmd's own
# `run` on the same inputs. Skipped where python3 (or $PYTHON) cannot import jax.
#   usage: jax_run.sh BUILD_DIR
set -u
build=$1
here=$(dirname "$0")
python=${PYTHON:-python3}
. "$here/checks.inc"
if ! "$python" -c 'import jax, numpy' >/dev/null 2>&1; then
    echo "$python cannot import jax: not tried"
    skipped=1
    summary
    exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export JAX_PLATFORMS=cpu
unset XLA_FLAGS

cat >"$dir/inputs.py" <<'END'
"""Global inputs, drawn from a normal distribution: inputs.py REPLIES DIR"""
import json, os, re, sys
import numpy as np
lines = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
reply = [line for line in lines if line["command"] == "program"][-1]
os.makedirs(sys.argv[2])
draw = np.random.default_rng(7)
for k, parameter in enumerate(reply["parameters"]):
    kind, dims = re.fullmatch(r"(\w+)\[([\d,]*)\]", parameter["global"]).groups()
    assert kind == "f32", kind
    np.save(f"{sys.argv[2]}/{k}.npy", draw.standard_normal([int(n) for n in dims.split(",") if n]).astype("f4"))
END
cat >"$dir/equal.py" <<'END'
"""The same files, shapes and types, and numbers within 3e-5 of the largest: equal.py DIR DIR"""
import os, sys
import numpy as np
names = sorted(os.listdir(sys.argv[1]))
if not names or names != sorted(os.listdir(sys.argv[2])):
    sys.exit("other files")
for name in names:
    a, b = (np.load(os.path.join(folder, name)) for folder in sys.argv[1:])
    if a.shape != b.shape or a.dtype != b.dtype or not np.abs(a).max() > 0:
        sys.exit(f"{name}: {a.dtype}{a.shape} and {b.dtype}{b.shape}")
    if not np.abs(a - b).max() <= 3e-5 * np.abs(a).max():
        sys.exit(f"{name}: off by {np.abs(a - b).max()} of {np.abs(a).max()}")
END

gspmd() {
    timeout 60 "$build/gspmd" -q -n "$@" </dev/null
}
both() { # name, commands: gspmd and JAX on the same inputs
    at=$dir/$1
    gspmd --json -c "$2; export program $at.hlo; program" >"$at.json" &&
        "$python" "$dir/inputs.py" "$at.json" "$at.in" &&
        gspmd -c "$2; run inputs=$at.in outputs=$at.gspmd" >"$at.run" &&
        timeout 120 "$python" scripts/run_program.py "$at.hlo" --inputs "$at.in" --outputs "$at.jax" \
            --boundary "$at.json" >"$at.txt" 2>&1 &&
        "$python" "$dir/equal.py" "$at.gspmd" "$at.jax" || { cat "$at.txt" 2>/dev/null; return 1; }
}
says() { # text, arguments: the script refuses, with that text
    text=$1
    shift
    timeout 60 "$python" scripts/run_program.py "$@" >"$dir/said" 2>&1 && return 1
    grep -q -e "$text" "$dir/said" && ! grep -q Traceback "$dir/said"
}

mlp='load models/mlp.json; mesh data=2 model=4'
layer='load models/transformer_layer.hlo; mesh data=2 model=4'
check "mlp, data and model" both mlp "$mlp; shard w1 [_,model]; shard x [data,_]"
check "mlp, weights split over data too" both fsdp "$mlp; shard x [data,_]; shard w1 [data,model]; shard w2 [model,data]"
check "mlp, 15 devices with padding" both uneven \
    'load models/mlp.json; mesh data=3 model=5; shard x [data,_]; shard w1 [_,model]; shard w2 [data,_]'
check "mlp, an output with padding" both padded 'load models/mlp.json; mesh data=3 model=5; shard x [data,_]; shard w1 [_,model]'
check "layer as it came" both layer "$layer"
check "layer, heads and mlp over model" both heads "$layer; shard Arg_7.8 [_,model]; shard Arg_8.9 [model,_]; \
shard Arg_2.3 [_,model,_]; shard Arg_3.4 [_,model,_]; shard Arg_4.5 [_,model,_]; shard Arg_5.6 [model,_,_]"
check "layer, mlp over both axes" both wide "$layer; shard Arg_7.8 [data,model]; shard Arg_8.9 [model,data]"

# By hand: a tuple for a parameter, partition ids, a group of all, lists of devices, tiles in another order.
cat >"$dir/hand.hlo" <<'END'
HloModule hand, num_partitions=4, frontend_attributes={gspmd.parameters="{{devices=[4]<=[2,2]T(1,0)}, {replicated}}",gspmd.outputs="{{devices=[4]<=[4]}, {devices=[2,2]0,2,1,3}, /*index=2*/{maximal device=2}}"}

sum {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}

ENTRY main {
  p = (s32[2], s64[]) parameter(0)
  x = s32[2] get-tuple-element(p), index=0, sharding={devices=[4]<=[2,2]T(1,0)}
  n = s64[] get-tuple-element(p), index=1
  narrow = s32[] convert(n)
  me = u32[] partition-id()
  mine = s32[] convert(me)
  both = s32[] add(mine, narrow)
  spread = s32[2] broadcast(both), dimensions={}
  id = s32[1,1] reshape(mine)
  next = s32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  first = s32[2] add(next, spread)
  total = s32[2] all-reduce(x), channel_id=2, replica_groups={{0}}, to_apply=sum
  third = s32[2] add(total, spread)
  ROOT out = (s32[2], s32[1,1], s32[2]) tuple(first, id, third)
}
END
hand() {
    "$python" - "$dir" <<'END' && timeout 120 "$python" scripts/run_program.py "$dir/hand.hlo" --inputs "$dir/hand.in" \
        --outputs "$dir/hand.out" >/dev/null 2>&1 && "$python" - "$dir" <<'END2'
import os, sys
import numpy as np
os.makedirs(sys.argv[1] + "/hand.in")
np.save(sys.argv[1] + "/hand.in/0.npy", np.arange(7, dtype="i4") * 10)
np.save(sys.argv[1] + "/hand.in/1.npy", np.array(100))
END
import sys
import numpy as np
found = [np.load(f"{sys.argv[1]}/hand.out/{k}.npy").tolist() for k in range(3)]
sys.exit(found != [[160, 100, 101, 111, 142, 152, 123, 133], [[0, 2], [1, 3]], [222, 192]])
END2
}
check "by hand" hand
sed 's/all-reduce(x), channel_id=2,/all-reduce(x),/' "$dir/hand.hlo" >"$dir/replicas.hlo"
check "a collective without a channel" says 'over replicas' "$dir/replicas.hlo"

cp -r "$dir/mlp.in" "$dir/bad.in"
cp "$dir/mlp.in/1.npy" "$dir/bad.in/0.npy"
check "an input of another shape" says 'input 0: \[128, 512\]' "$dir/mlp.hlo" --inputs "$dir/bad.in"
sed 's/, frontend_attributes=.*//' "$dir/mlp.hlo" >"$dir/bare.hlo"
check "a file without its boundary" says 'export program' "$dir/bare.hlo"
check "no HLO text" says 'HloModule' models/mlp.json
check "no file" says 'No such file' "$dir/nothing.hlo"
summary
[ "$failed" = 0 ]
