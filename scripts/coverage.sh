#!/bin/sh
# Line coverage of the engine by the whole test run, a line a folder; engine/text is held to 90 %.
set -eu
cd "$(dirname "$0")/.."
make -s B=build/coverage OPT=-O0 EXTRA_CFLAGS='--coverage' EXTRA_LDFLAGS='--coverage' test-build
find build/coverage -name '*.gcda' -delete
SANFLAGS=--coverage sh scripts/run_tests.sh build/coverage >build/coverage/log 2>&1 || tail -5 build/coverage/log
for layer in base sharding ir text propagate partition emulate session; do
    total=0 hit=0
    for f in engine/$layer/*.c; do
        line=$(gcov -n -o "build/coverage/engine/$layer" "$f" 2>/dev/null | grep -A1 "File '$f'" | tail -1)
        percent=$(printf '%s' "$line" | sed -n 's/Lines executed:\([0-9.]*\)% of.*/\1/p')
        lines=$(printf '%s' "$line" | sed -n 's/.*% of \([0-9]*\).*/\1/p')
        [ -n "$lines" ] || continue
        total=$((total + lines))
        hit=$((hit + $(awk "BEGIN { printf \"%d\", $percent * $lines / 100 + 0.5 }")))
    done
    [ "$total" = 0 ] || echo "engine/$layer: $hit of $total lines, $((100 * hit / total)) %"
done
