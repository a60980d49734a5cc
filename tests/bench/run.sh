#!/bin/sh
# Benchmarks in one run: reading, propagating and partitioning the large dumps, start to prompt, and
# single commands on a model of some thousand instructions.
#   usage: run.sh BUILD_DIR SHARED
build=$1 inputs=$2/inputs
milliseconds() { # best of ten runs of a command, whole process
    best=999999
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        t0=$(date +%s%N)
        "$@" >/dev/null 2>&1 </dev/null
        t=$((($(date +%s%N) - t0) / 10000))
        [ "$t" -lt "$best" ] && best=$t
    done
    echo "$((best / 100)).$(printf %02d $((best % 100)))"
}
echo "start to prompt and quit: $(milliseconds "$build/gspmd" -q -n -c quit) ms (bar 50)"
echo "1,024 devices of the MLP, run and verified: $(milliseconds "$build/gspmd" -q -n -c 'load models/mlp.json; mesh data=32 model=32; shard w1 [_,model]; shard x [data,_]; run; verify') ms (bar 5,000)"
if [ ! -d "$inputs" ]; then
    echo "no large dumps at $inputs: only our own model"
    exec "$build/bench" models/transformer_layer.hlo
fi
sh "$(dirname "$0")/propagation.sh" "$build" "$2"
sh "$(dirname "$0")/partitioner.sh" "$build" "$2"
if command -v python3 >/dev/null 2>&1; then
    echo "reading, beside XLA's and MLIR's own parsers:"
    python3 "$(dirname "$0")/readers.py" "$build/gspmd" "$inputs"/gpt_train_scan_small.hlo.gz "$inputs"/gpt_train_scan_small.sdy.mlir.gz \
        "$inputs"/gpt_unrolled24_real.hlo.gz "$inputs"/gpt_unrolled24_real.mhlo.mlir.gz "$inputs"/gpt3_unrolled96_real.hlo.gz \
        "$inputs"/gpt3_unrolled96_real.sdy.mlir.gz
fi
model=$inputs/resnet50_dp_train_real.hlo.gz
echo "commands on $(basename "$model"), 10,105 instructions (bar 100 ms each at 5,000):"
{
    echo 'set bail=off'
    for c in info 'show op:dot' 'why op:dot' comms 'mesh data=256' 'shard Arg_9.10 [_,_,_,data]' 'undo' 'redo' conflicts doctor 'plot layout convolution.757'; do
        echo "echo \"== $c\""
        echo "time $c"
    done
} | "$build/gspmd" -q -n "$model" 2>&1 | awk '/^== /{name=substr($0,4)} /^note: .* ms$/{printf "  %-30s %s %s\n", name, $2, $3}'
# 1,024 strategies of a training step of 4,668 instructions, on two cores: wall and processor time
w='[stage,_,data,_]|[stage,_,_,data]|[_,_,data,stage]|-'
echo "sweep of 1,024 strategies of 4,668 instructions (bar 10 s on two idle cores):"
(
    "$build/gspmd" -q -n -c "mesh stage=8; set threads=2; time sweep mesh=stage,data Arg_5.6:$w Arg_6.7:$w Arg_7.8:$w Arg_8.9:$w | head -1" \
        "$inputs/paper/t5_6p47B_gpipe_16mb.hlo.gz" 2>&1
    times | sed -n '2s/^/  processor time of both: /p'
)
"$build/bench_kernels"
sh "$(dirname "$0")/pictures.sh" "$build" "$2"
# text to numbers, beside XLA's compile and run, where XLA is
python3 tests/bench/text_to_numbers.py "$build/gspmd" "$2"
# processor time of a steady run beside XLA CPU's, where jaxlib is
python3 tests/bench/steady.py "$build/bench_steady" "$2"
exec "$build/bench" --planner models/transformer_layer.hlo \
    "$inputs"/paper_train_unrolled24_16x8.hlo.gz "$inputs"/gpt_unrolled12_real.hlo.gz \
    "$inputs"/gpt_unrolled24_real.hlo.gz "$inputs"/gpt3_unrolled96_real.hlo.gz \
    "$inputs"/llama405b_unrolled_train_real.hlo.gz "$inputs"/gpt_unrolled220_real.hlo.gz
