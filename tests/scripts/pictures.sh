#!/bin/sh
# Pictures from the command line: every view of every model in every backend; dot that hangs, dies or is not
# there; no display; what is refused.
#   usage: pictures.sh BUILD_DIR
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
case $1 in
/*) gspmd=$1/gspmd ;;
*) gspmd=$root/$1/gspmd ;;
esac
cd "$root" || exit 1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0

ok() {
    passed=$((passed + 1))
}
bad() {
    failed=$((failed + 1))
    echo "FAIL $*"
}
# check NAME COMMAND...: it must succeed
check() {
    name=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then ok; else
        bad "$name"
        head -5 "$tmp/log"
    fi
}

have_dot=0
command -v dot >/dev/null 2>&1 && have_dot=1
have_cairo=1
"$gspmd" -n -c "mesh x=2; plot mesh -o $tmp/probe.png" >/dev/null 2>&1 || have_cairo=0

# a script that draws everything of a model whose mesh and shardings are given
draw() {
    model=$1
    setting=$2
    tensor=$3
    prefix=$tmp/$(basename "$model" | tr . _)
    rm -f "$prefix"*
    script="$setting"
    for kind in svg txt png pdf; do
        case $kind in png | pdf) [ $have_cairo = 1 ] || continue ;; esac
        script="$script
plot layout $tensor -o $prefix-layout.$kind
plot layout $tensor device=1 -o $prefix-device.$kind
plot layout $tensor --before -o $prefix-before.$kind
plot device 1 -o $prefix-all.$kind
plot reshard $tensor -> replicated -o $prefix-reshard.$kind"
        case $setting in *mesh*) script="$script
plot mesh -o $prefix-mesh.$kind
plot mesh --torus --order -o $prefix-torus.$kind" ;; esac
        [ $have_dot = 1 ] && script="$script
graph -o $prefix-graph.$kind
graph $tensor -o $prefix-around.$kind"
    done
    script="$script
graph $tensor -o $prefix-around.dot"
    printf '%s\n' "$script" >"$tmp/script"
    check "$model is drawn" "$gspmd" -q -n -f "$tmp/script" "$model"
    for f in "$prefix"*; do
        case $f in
        *.svg)
            if command -v xmllint >/dev/null 2>&1; then
                check "$f is valid" xmllint --noout "$f"
            fi ;;
        *.png) check "$f is PNG" sh -c "head -c 8 '$f' | od -c | grep -q 'P   N   G'" ;;
        *.pdf) check "$f is PDF" sh -c "head -c 5 '$f' | grep -q '%PDF-'" ;;
        *.txt) check "$f has text" test -s "$f" ;;
        *.dot) [ $have_dot = 1 ] && check "$f is read by dot" dot -Tplain -o /dev/null "$f" ;;
        esac
    done
}

draw models/mlp.json 'mesh data=2 model=4
shard w1 [_,model]
shard x [data,_]' w1
draw models/attention.json 'mesh data=2 model=4
shard wq [_,model,_]' wq
draw models/transformer_layer.hlo 'mesh data=2 model=4
shard w1 [_,model]' w1

# same input, same bytes
for k in 1 2; do
    "$gspmd" -q -n -c "mesh data=2 model=4; shard w1 [_,model]; plot layout w1 -o $tmp/same$k.svg; plot layout w1 -o $tmp/same$k.txt" \
        models/mlp.json
    [ $have_cairo = 1 ] && "$gspmd" -q -n -c "mesh data=2 model=4; shard w1 [_,model]; plot layout w1 -o $tmp/same$k.png; plot layout w1 -o $tmp/same$k.pdf" \
        models/mlp.json
done
for kind in svg txt png pdf; do
    [ -e "$tmp/same1.$kind" ] && check "same bytes: $kind" cmp "$tmp/same1.$kind" "$tmp/same2.$kind"
done

# refused NAME STATUS PATTERN COMMAND...: exit status, and one line of error
refused() {
    name=$1 want=$2 pattern=$3
    shift 3
    timeout 30 "$@" >"$tmp/out" 2>"$tmp/err"
    status=$?
    if [ "$status" = "$want" ] && grep -q -- "$pattern" "$tmp/err" && [ "$(grep -c 'error: ' "$tmp/err")" = 1 ]; then
        ok
    else
        bad "$name: status $status, want $want"
        cat "$tmp/err"
    fi
}

# dot hangs: stopped; dies: told; is not there: told; the session lives in each case
mkdir "$tmp/bin"
printf '#!/bin/sh\nkill -9 $$\n' >"$tmp/bin/dot"
chmod +x "$tmp/bin/dot"
refused "a killed dot" 4 'dot ended without an answer: it was killed' \
    env "PATH=$tmp/bin:$PATH" "$gspmd" -n -c "graph -o $tmp/x.svg" models/mlp.json
printf '#!/bin/sh\nexec sleep 60\n' >"$tmp/bin/dot"
refused "a hanging dot" 4 'dot took too long and was stopped' \
    env "PATH=$tmp/bin:$PATH" GSPMD_DOT_MS=300 "$gspmd" -n -c "graph -o $tmp/x.svg" models/mlp.json
printf '#!/bin/sh\ncat >/dev/null; echo nonsense\n' >"$tmp/bin/dot"
refused "a dot that talks nonsense" 4 'no graph' \
    env "PATH=$tmp/bin:$PATH" "$gspmd" -n -c "graph -o $tmp/x.svg" models/mlp.json
rm "$tmp/bin/dot"
refused "no dot" 4 'could not be started' \
    env "PATH=$tmp/bin" "$gspmd" -n -c "graph -o $tmp/x.svg" models/mlp.json
printf '#!/bin/sh\nexec sleep 60\n' >"$tmp/bin/dot"
env "PATH=$tmp/bin:$PATH" GSPMD_DOT_MS=300 "$gspmd" -n -c 'set bail=off
graph -o '"$tmp"'/x.svg
graph
echo alive' models/mlp.json >"$tmp/out" 2>/dev/null
if grep -q alive "$tmp/out" && grep -q 'w1' "$tmp/out"; then ok; else bad "the session lives on behind a hanging dot"; fi

# no display: one sentence
refused "no display" 4 'no display' \
    env -u DISPLAY -u WAYLAND_DISPLAY -u SDL_VIDEODRIVER "$gspmd" -n -c 'mesh x=2; window mesh' models/mlp.json
refused "no such view" 2 'is no view' "$gspmd" -n -c 'window cake' models/mlp.json
refused "--safe starts no program" 2 '--safe' "$gspmd" -n --safe -c "plot graph -o $tmp/x.svg" models/mlp.json
refused "an unknown kind of file" 2 'pictures are written as' "$gspmd" -n -c "mesh x=2; plot mesh -o $tmp/x.bmp"

# a window without a screen: SDL's dummy driver, commands from a pipe
if [ $have_cairo = 1 ] && printf 'mesh x=2\nwindow mesh\n' | SDL_VIDEODRIVER=dummy timeout 30 "$gspmd" -n >"$tmp/out" 2>"$tmp/err"; then
    ok
    printf 'mesh data=2 model=4\nwindow layout w1\nshard w1 [_,model]\nwindow mesh\nundo\nverify\nwindow close\necho over\n' |
        SDL_VIDEODRIVER=dummy timeout 60 "$gspmd" -n models/mlp.json >"$tmp/out" 2>&1
    if grep -q over "$tmp/out"; then ok; else
        bad "a session with windows"
        cat "$tmp/out"
    fi
else
    echo "no window could be opened: skipped"
    cat "$tmp/err"
    skipped=$((skipped + 1))
fi

echo "pictures: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
