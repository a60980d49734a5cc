#!/bin/sh
# Runs every fuzzer (or those named) for T seconds each.
#   usage: run.sh SECONDS [NAME...]
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
seconds=$1
shift
build=build/fuzz
mkdir -p "$build"
if command -v clang >/dev/null 2>&1 && echo 'int LLVMFuzzerTestOneInput(const char*a,unsigned long b){return 0;}' |
    clang -x c -fsanitize=fuzzer - -o "$build/probe" 2>/dev/null; then
    kind=libfuzzer cc=clang part=-fsanitize=fuzzer-no-link whole='-fsanitize=fuzzer'
else
    kind=standalone cc=${CC:-gcc} part='' whole='tests/fuzz/standalone.c'
fi
common='-std=c11 -D_GNU_SOURCE -DGSPMD_FUZZ -DGSPMD_VERSION="fuzz" -g -O1 -w -Iengine -I.'
# everything but main(), compiled once
objects=build/fuzz/$kind
if ! make -s CC="$cc" B="$objects" SAN=address,undefined OPT=-O1 WARN=-w EXTRA_CFLAGS="$part" "$objects/libgspmd.a" fuzz-objects >"$build/make.log" 2>&1; then
    tail -20 "$build/make.log"
    echo "0 passed, 1 failed"
    exit 1
fi
shell=$(ls "$objects"/repl/*.o "$objects"/viz/*.o | grep -v '/repl/main\.o')
passed=0 failed=0
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    if [ $# -gt 0 ]; then
        case " $* " in *" ${name#fuzz_} "*) ;; *) continue ;; esac
    fi
    # shellcheck disable=SC2086
    if ! $cc $common -fsanitize=address,undefined -fno-sanitize-recover=all $whole "$source" $shell \
        "$objects/libgspmd.a" -o "$build/$name" -lreadline -lcjson -lz -ldl -lpthread -lm >"$build/$name.log" 2>&1; then
        echo "FAIL $name does not build"
        tail -5 "$build/$name.log"
        failed=$((failed + 1))
        continue
    fi
    corpus=$build/corpus-$name
    mkdir -p "$corpus"
    case $name in
    fuzz_hlo) cp -n models/*.hlo tests/fuzz/seeds/*.hlo "$corpus/" 2>/dev/null ;;
    fuzz_json) cp -n models/*.json tests/fuzz/seeds/*.json "$corpus/" 2>/dev/null ;;
    *) cp -n tests/fuzz/seeds/"${name#fuzz_}".* "$corpus/" 2>/dev/null ;;
    esac
    # FUZZ_FIXED=1: a fixed number of runs from a fixed seed, the same inputs every time
    runs=
    if [ -n "${FUZZ_FIXED:-}" ]; then
        case $name in
        fuzz_hlo) runs=-runs=8000 ;;
        fuzz_json) runs=-runs=60000 ;;
        fuzz_line) runs=-runs=4000 ;;
        fuzz_mlir) runs=-runs=3000 ;;
        fuzz_sharding) runs=-runs=40000 ;;
        esac
    fi
    if [ "$kind" = libfuzzer ]; then
        # shellcheck disable=SC2086
        "$build/$name" $runs -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=16384 \
            -artifact_prefix="$build/$name-" "$corpus" >"$build/$name.log" 2>&1
    else
        "$build/$name" "$seconds" "$corpus" >"$build/$name.log" 2>&1
    fi
    if [ $? = 0 ]; then
        echo "ok   $name ($kind): $(grep -E 'DONE|runs' "$build/$name.log" | tail -1)"
        passed=$((passed + 1))
    else
        echo "FAIL $name"
        tail -30 "$build/$name.log"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
