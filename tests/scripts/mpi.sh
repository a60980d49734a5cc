#!/bin/sh
# gspmd over MPI gives the same numbers as one process, on 2, 3 and 8 processes. Skipped where there is
# no MPI, or under a sanitizer.
#   usage: mpi.sh BUILD_DIR
set -u
build=$1
if ! command -v mpicc >/dev/null 2>&1 || ! command -v mpirun >/dev/null 2>&1 || [ -n "${SANFLAGS:-}" ]; then
    echo "no mpicc and mpirun, or a sanitizer: not tried"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
make -s MPI=1 B="$build" "$build/gspmd-mpi" >/dev/null || { echo "0 passed, 1 failed"; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
ok() {
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $2"
    fi
}
options="--oversubscribe"
[ "$(id -u)" = 0 ] && options="$options --allow-run-as-root"
script() { # folder
    cat <<END
load models/mlp.json
mesh data=2 model=4
shard w1 [_,model]
shard x [data,_]
run outputs=$1
verify
load models/transformer_layer.hlo
verify
END
}
script "$dir/one" >"$dir/one.gspmd"
"$build/gspmd" -q -n -f "$dir/one.gspmd" >"$dir/one.txt" 2>&1
ok $? "one process: $(tail -1 "$dir/one.txt")"
for n in 2 3 8; do
    script "$dir/many$n" >"$dir/many.gspmd"
    # shellcheck disable=SC2086
    timeout 120 mpirun $options -n "$n" "$build/gspmd-mpi" -q -n -f "$dir/many.gspmd" >"$dir/many.txt" 2>&1
    ok $? "$n processes: $(tail -1 "$dir/many.txt")"
    sed "s#$dir/many$n#$dir/one#" "$dir/many.txt" | cmp -s - "$dir/one.txt"
    ok $? "$n processes say something else"
    diff -r "$dir/one" "$dir/many$n" >/dev/null
    ok $? "$n processes: other numbers"
done
# A run that fails on every process ends in all of them, with the same status.
# shellcheck disable=SC2086
timeout 60 mpirun $options -n 2 "$build/gspmd-mpi" -q -n -c 'load models/mlp.json; mesh a=4; shard nothing [a]' >/dev/null 2>&1
[ $? = 2 ]
ok $? "a wrong name's exit status"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
