#!/bin/sh
# The pictures of README and pages, drawn by the program itself, and a sheet of them all: assets/*.svg,
# assets/pictures.md.
#   usage: pictures.sh BUILD_DIR
set -eu
cd "$(dirname "$0")/.."
gspmd=$1/gspmd
out=assets
"$gspmd" -q -n -c "
mesh data=2 model=4
shard w1 [_,model]
shard w2 [model,_]
plot layout w1 -o $out/layout.svg
plot mesh -o $out/mesh.svg
" models/transformer_layer.hlo
"$gspmd" -q -n -c "
mesh data=2 model=4
shard w1 [_,model]
shard x [data,_]
plot layout h --before -o $out/layout-before.svg
plot device 5 -o $out/device.svg
plot reshard y -o $out/reshard.svg
plot reshard [data,_] -> [_,model] f32[8,16] -o $out/reshard-plan.svg
plot mesh --torus -o $out/mesh-torus.svg
plot mesh comm=all-reduce.1 group=1 -o $out/mesh-groups.svg
plot hops all-reduce.1 round=2 -o $out/hops.svg
plot timeline -o $out/timeline.svg
plot memory -o $out/memory.svg
hardware tpu-v4 shape=2x4
plot mesh model --physical -o $out/mesh-physical.svg
mesh physical=[4,2]T(1,0)
plot mesh model --physical -o $out/mesh-physical-other.svg
mesh data=2 model=4
set theme=dark
plot layout w1 -o $out/layout-dark.svg
" models/mlp.json
"$gspmd" -q -n -c "load - <<END
HloModule m, num_partitions=4
ENTRY e {
  a = f32[4,6] parameter(0), sharding={devices=[2,2]<=[4]}
  ROOT b = f32[4,6] add(a, a), sharding={devices=[4,1]<=[4]}
}
END
plot layout a --values -o $out/layout-values.svg"
"$gspmd" -q -n -c "load - <<END
HloModule m, num_partitions=8
ENTRY e {
  ROOT a = f32[17,6] parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
}
END
plot layout a -o $out/layout-padding.svg"
if command -v dot >/dev/null 2>&1; then
    "$gspmd" -q -n -c "
mesh data=2 model=4
shard w1 [_,model]
shard x [data,_]
graph -o $out/graph.svg
graph all-reduce.1 -o $out/graph-devices.svg
unshard x
shard w2 [_,model]
graph --blame -o $out/graph-blame.svg
" models/mlp.json
fi
"$gspmd" -q -n -c "
mesh stage=4
shard w [stage,_,_]
plot timeline stages=stage -o $out/timeline-pipeline.svg
" models/pipeline.hlo
{
    echo '# What gspmd draws'
    echo
    echo 'Each by the command under it, from a model in models/; `make pictures` draws them again.'
    echo
    while read -r name words; do
        [ -e "$out/$name.svg" ] || continue
        printf '![%s](%s.svg)\n\n    %s\n\n' "$name" "$name" "$words"
    done <<'END'
layout plot layout w1
layout-before plot layout h --before
layout-padding plot layout a
layout-values plot layout a --values
layout-dark set theme=dark; plot layout w1
device plot device 5
reshard plot reshard y
reshard-plan plot reshard [data,_] -> [_,model] f32[8,16]
mesh plot mesh
mesh-torus plot mesh --torus
mesh-groups plot mesh comm=all-reduce.1 group=1
mesh-physical hardware tpu-v4 shape=2x4; plot mesh model --physical
mesh-physical-other mesh physical=[4,2]T(1,0); plot mesh model --physical
graph graph
graph-blame shard w2 [_,model]; graph --blame
graph-devices graph all-reduce.1
hops plot hops all-reduce.1 round=2
timeline plot timeline
timeline-pipeline plot timeline stages=stage
memory plot memory
END
} >"$out/pictures.md"
ls -l "$out"/*.svg
