#!/bin/sh
# Runs every test and ends with one line: N passed, N failed (and N skipped).
#   usage: run_tests.sh BUILD_DIR
set -u
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
shared=${GSPMD_SHARED:-../shared}
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# A program that counts for itself: its last line "N passed, N failed[, N skipped]" is added up.
counted() {
    name=$1
    shift
    timeout 900 "$@" >"$log" 2>&1
    status=$?
    line=$(grep -E '(^| )[0-9]+ passed, [0-9]+ failed' "$log" | tail -1)
    p=$(printf '%s' "$line" | sed -n 's/.*\b\([0-9][0-9]*\) passed.*/\1/p')
    f=$(printf '%s' "$line" | sed -n 's/.*\b\([0-9][0-9]*\) failed.*/\1/p')
    s=$(printf '%s' "$line" | sed -n 's/.*\b\([0-9][0-9]*\) skipped.*/\1/p')
    p=${p:-0} f=${f:-0} s=${s:-0}
    if [ "$status" != 0 ] && [ "$f" = 0 ]; then
        f=1
    fi
    [ "$f" = 0 ] || { echo "---- $name (status $status)"; grep -vE '^(ok|PASS)' "$log" | tail -40; }
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    echo "$name: $p passed, $f failed$([ "$s" = 0 ] || echo ", $s skipped")"
}

# A cmocka program.
unit() {
    name=unit/$(basename "$1")
    timeout 300 "$1" >"$log" 2>&1
    status=$?
    p=$(grep -c '^\[       OK \]' "$log")
    f=$(grep -c '^\[  FAILED  \] [^0-9]' "$log")
    s=$(grep -c '^\[  SKIPPED \] [^0-9]' "$log")
    f=$((f / 2 + f % 2))
    if [ "$status" != 0 ] && [ "$f" = 0 ]; then
        f=1
    fi
    [ "$f" = 0 ] || { echo "---- $name (status $status)"; tail -40 "$log"; }
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    echo "$name: $p passed, $f failed"
}

counted layers sh scripts/check_layers.sh "$build" base sharding ir text propagate partition emulate cost session
for u in tests/unit/*.c; do
    unit "$build/unit/$(basename "$u" .c)"
done
# the proof under random strategies: our models, and real dumps where they are
sweep=
for name in mlp_dptp_train_small mlp_uneven_small paper_layer_final_small zero1_small four_axis_small int8_dot_small \
    embed_vocab_train_small lora_train_small conv_grads_small hsdp_small moe_1d_small gpt_fwd_scan_small; do
    for f in "$shared/inputs/$name".hlo "$shared/inputs/$name".hlo.gz; do
        [ -e "$f" ] && sweep="$sweep $f"
    done
done
# shellcheck disable=SC2086
counted verify-sweep "$build/verify_sweep" models/*.json models/*.hlo $sweep
counted verify-table "$build/verify_table" -t 3
counted transcripts sh tests/run_transcripts.sh "$build/gspmd"
for script in tests/scripts/*.sh; do
    [ -e "$script" ] && counted "$(basename "$script" .sh)" sh "$script" "$build"
done
if [ -d "$shared/corpus" ]; then
    counted conformance "$build/gspmd-conformance" --expect tests/conformance/expected.txt "$shared/corpus" "$shared/cases"
else
    echo "conformance: no corpus at $shared, skipped"
    skipped=$((skipped + 1))
fi
if [ "$skipped" = 0 ]; then
    echo "$passed passed, $failed failed"
else
    echo "$passed passed, $failed failed, $skipped skipped"
fi
[ "$failed" = 0 ]
