#!/bin/sh
# sweep: the same answer for any number of workers, the figures of memory and cost, Ctrl-C keeps what is there.
#   usage: sweep.sh BUILD_DIR
set -u
gspmd=$1/gspmd
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
passed=0 failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
check() {
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1"
    fi
}
w='w1:[_,model]|[model,_]|[data,model]|- x:[data,_]|-'
for n in 1 2 5; do
    "$gspmd" -q -n --json -c "mesh data=2 model=4; set threads=$n; sweep mesh=data,model $w" models/mlp.json | grep '"command":"sweep"' >"$tmp/$n"
done
cmp -s "$tmp/1" "$tmp/2" && cmp -s "$tmp/1" "$tmp/5"
check "one, two and five workers answer alike" $?
[ "$(grep -o '"number"' "$tmp/1" | wc -l)" = 32 ]
check "all 32 strategies are there" $?

# strategy data=2 model=4, w1 [_,model], x [data,_]
"$gspmd" -q -n --json -c 'mesh data=2 model=4; shard w1 [_,model]; shard x [data,_]; memory; cost' models/mlp.json >"$tmp/one"
peak=$(sed -n 's/.*"peak":\([0-9]*\),"at".*/\1/p' "$tmp/one")
step=$(sed -n 's/.*"placement":"[^"]*","step":\([^,]*\),.*/\1/p' "$tmp/one")
grep -q "\"mesh\":\"data=2 model=4\",\"w1\":\"\[_,model\]\",\"x\":\"\[data,_\]\",\"step\":$step,[^}]*\"peak\":$peak," "$tmp/1"
check "the figures of memory and cost ($step s, $peak bytes)" $?

"$gspmd" -q -n -c "mesh data=2 model=4; sweep $w -o $tmp/front.svg" models/mlp.json >/dev/null
grep -q '<svg' "$tmp/front.svg"
check "the plot is an SVG" $?

mkdir "$tmp/models"
cp models/transformer_layer.hlo "$tmp/models/b.hlo"
cp models/pipeline.hlo "$tmp/models/a.hlo"
"$gspmd" -q -n -c "sweep models=$tmp/models mesh=x=2,y=4|x=8,y=1" | grep -q '^4 of 4 strategies'
check "a folder of models" $?

f='[stage,_,data,_]|[stage,_,_,data]|[_,_,data,stage]|-'
"$gspmd" -q -n -c "mesh stage=8; sweep mesh=stage,data Arg_5.6:$f Arg_6.7:$f Arg_7.8:$f Arg_8.9:$f" \
    models/paper/t5_6p47B_gpipe_16mb.hlo.gz >"$tmp/out" 2>"$tmp/err" &
pid=$!
sleep 2
kill -INT $pid
wait $pid
[ $? = 130 ] && grep -q 'of 1,024 strategies' "$tmp/out" && grep -q 'stopped after' "$tmp/err"
check "Ctrl-C keeps what is there" $?
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
