#!/bin/sh
# Figures of the pictures: graphs of what a screen shows, views of a million devices, frames of the window.
#   usage: pictures.sh BUILD_DIR SHARED
build=$1 inputs=$2/inputs
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# the best of five, in milliseconds, as the command itself tells
best() { # MODEL SETTING COMMAND
    for _ in 1 2 3 4 5; do
        "$build/gspmd" -q -n -c "$2
time $3" "$1" 2>&1 | sed -n 's/^note: \([0-9.]*\) ms$/\1/p'
    done | sort -n | head -1
}
if command -v dot >/dev/null 2>&1; then
    echo "graphs, laid out and written, dot and all (bar 300 ms):"
    echo "  the MLP: $(best models/mlp.json 'mesh data=2 model=4; shard w1 [_,model]' "graph -o $tmp/g.svg") ms"
    for name in gpt_unrolled24_real gpt3_unrolled96_real llama405b_unrolled_train_real resnet50_dp_train_real; do
        f=$inputs/$name.hlo.gz
        [ -e "$f" ] || continue
        # a product in the middle, and the module at a glance; the program is made beforehand, as at the prompt
        dot=$({ "$build/gspmd" -q -n -c 'show op:dot --all' "$f"; "$build/gspmd" -q -n -c 'show op:convolution --all' "$f"; } 2>/dev/null |
            sed -n '20s/^ *\([^ ]*\).*/\1/p')
        echo "  $name: $(best "$f" 'comms > /dev/null' "graph -o $tmp/g.svg") ms at a glance, $(best "$f" 'comms > /dev/null' "graph $dot -o $tmp/g.svg") ms around $dot"
    done
fi
echo "a layout over 1,048,576 devices: $(best models/mlp.json 'mesh data=1024 model=1024; shard w1 [data,model]' "plot layout w1 -o $tmp/l.svg") ms"
echo "the mesh of 1,048,576 devices: $(best models/mlp.json 'mesh data=1024 model=1024' "plot mesh --torus -o $tmp/m.svg") ms"
if [ -x "$build/unit/viz_window" ]; then
    echo "the window, 1280 x 800 (bars: 16 ms a frame, 50 ms an edit, memory flat):"
    "$build/unit/viz_window" 2>&1 | grep -E '^(an edit|panning|zooming|memory)' | sed 's/^/  /'
fi
