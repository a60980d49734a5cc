#!/bin/sh
# Applies each fault of tests/mutants/list in turn to a copy of the tree and expects a test to fail.
#   usage: run.sh [NAME...]
# A line of the list:  name | file | sed expression | test command (in the copy; build is ./build)
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$root/build/mutants
mkdir -p "$copy"
for d in Makefile engine viz repl models scripts tests assets README.md; do
    rm -rf "${copy:?}/$d"
    cp -rp "$root/$d" "$copy/"
done
cd "$copy" || exit 1
export GSPMD_SHARED="${GSPMD_SHARED:-$root/../shared}"
make -s OPT=-O1 test-build >/dev/null 2>&1 || { echo "the tree does not build"; exit 1; }
passed=0 failed=0
while IFS= read -r row; do
    name=${row%% | *} rest=${row#* | }
    file=${rest%% | *} rest=${rest#* | }
    edit=${rest% | *} command=${rest##* | }
    case $row in '' | \#*) continue ;; esac
    if [ $# -gt 0 ]; then
        case " $* " in *" $name "*) ;; *) continue ;; esac
    fi
    file=$(echo "$file" | xargs)
    edit=$(printf '%s' "$edit" | sed 's/^ *//; s/ *$//')
    cp -p "$file" "$copy/original"
    sed -i -E "$edit" "$file"
    if cmp -s "$file" "$copy/original"; then
        echo "FAIL $name: the edit no longer applies to $file"
        failed=$((failed + 1))
    elif ! make -s OPT=-O1 test-build >"$copy/log" 2>&1; then
        echo "FAIL $name: the mutant does not build"
        tail -3 "$copy/log"
        failed=$((failed + 1))
    elif timeout 300 sh -c "$command" >"$copy/log" 2>&1; then
        echo "FAIL $name: not caught by: $command"
        failed=$((failed + 1))
    else
        echo "ok   $name"
        passed=$((passed + 1))
    fi
    cp -p "$copy/original" "$file"
    touch "$file"
done <"$root/tests/mutants/list"
make -s OPT=-O1 test-build >/dev/null 2>&1
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
