#!/bin/sh
# The partitioner beside XLA's spmd-partitioning on the same modules, one after the other in one run:
# transformer-like modules of about 1,000, 11,000 and 221,000 instructions for 128 and 2,048 devices, made
# by scale.py where the oracle is there; and one module for 8 and for 1,048,576 devices.
#   usage: partitioner.sh BUILD_DIR SHARED
build=$1 oracle=$2/oracle
if [ ! -f "$oracle/scale.py" ] || ! command -v python3 >/dev/null; then
    echo "partitioner: no oracle at $oracle: XLA's time is left out"
    exec "$build/bench_partitioner" models/transformer_layer.hlo
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT INT TERM
echo "partitioner, beside XLA's pass in the same run:"
for size in 1000 11000 221000; do
    for devices in 128 2048; do
        model=$folder/transformer.hlo
        python3 "$oracle/scale.py" $size $devices >"$model"
        us=$(timeout 600 python3 "$oracle/xla.py" time --repeat 2 --timeout 500 "$model" 2>/dev/null |
            awk '/"partitioning"/ { found = 1 } found && /min_us/ { gsub(/[^0-9.]/, "", $2); print $2; exit }')
        [ -n "$us" ] || echo "  (XLA's time is not to be had)"
        "$build/bench_partitioner" "$model" "${us:-0}" "transformer of $size, $devices devices"
    done
done
python3 "$oracle/scale.py" 5000 128 >"$folder/flat.hlo"
set -- "$2"/inputs/gpt3_train_scan_real.hlo.gz "$2"/inputs/gpt_train_scan_small.hlo.gz "$2"/inputs/llama_decode_small.hlo.gz
for model; do
    [ -f "$model" ] && "$build/bench_partitioner" --shared "$model"
done
"$build/bench_partitioner" --shared "$folder/flat.hlo"
python3 "$oracle/scale.py" 1000 8 >"$folder/few.hlo"
python3 "$oracle/scale.py" 1000 1048576 >"$folder/many.hlo"
"$build/bench_partitioner" --devices "$folder/few.hlo" "$folder/many.hlo"
