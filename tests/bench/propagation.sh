#!/bin/sh
# Propagation beside XLA's own pass on the same modules, one after the other in one run: transformer-like
# modules of about 1,000, 11,000 and 221,000 instructions, made by scale.py where the oracle is there.
#   usage: propagation.sh BUILD_DIR SHARED
build=$1 oracle=$2/oracle
if [ ! -f "$oracle/scale.py" ] || ! command -v python3 >/dev/null; then
    echo "propagation: no oracle at $oracle: XLA's time is left out"
    exec "$build/bench_propagation" models/transformer_layer.hlo
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT INT TERM
echo "propagation, beside XLA's pass in the same run:"
for size in 1000 11000 221000; do
    model=$folder/transformer_$size.hlo
    python3 "$oracle/scale.py" $size 8 >"$model"
    us=$(timeout 300 python3 "$oracle/xla.py" time "$model" 2>/dev/null |
        awk '/"propagation"/ { found = 1 } found && /min_us/ { gsub(/[^0-9.]/, "", $2); print $2; exit }')
    [ -n "$us" ] || echo "  (XLA's time is not to be had)"
    "$build/bench_propagation" "$model" "${us:-0}" "transformer of $size"
done
