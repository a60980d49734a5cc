#!/bin/sh
# Proves by linking that each engine layer needs only itself and the layers below it, and that the
# engine neither prints nor exits nor knows a terminal.
#   usage: check_layers.sh BUILD_DIR LAYER...
set -eu
build=$1
shift
fails=0 passes=0 objects=
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
echo 'int main(void) { return 0; }' >"$tmp/main.c"
for layer in "$@"; do
    for source in engine/"$layer"/*.c; do
        [ -e "$source" ] || continue
        object=$build/${source%.c}.o
        [ -e "$object" ] && objects="$objects $object"
    done
    # shellcheck disable=SC2086
    if ${CC:-gcc} ${SANFLAGS:-} "$tmp/main.c" $objects -o "$tmp/a.out" -lcjson -lz -ldl -lpthread -lm 2>"$tmp/err"; then
        passes=$((passes + 1))
    else
        fails=$((fails + 1))
        echo "FAIL layer $layer needs something above it:"
        grep 'undefined reference' "$tmp/err" | sed 's/.*undefined/  undefined/' | sort -u | head -5
    fi
done
# shellcheck disable=SC2086
bad=$(nm -u $objects | grep -E ' U (_?exit|_Exit|v?printf|puts|putchar|perror|stdout|stderr|readline|SDL_.*)$' | sort -u || true)
if [ -n "$bad" ]; then
    fails=$((fails + 1))
    echo "FAIL the engine prints, exits or knows a terminal:" $bad
else
    passes=$((passes + 1))
fi
echo "layers: $passes passed, $fails failed"
[ "$fails" = 0 ]
