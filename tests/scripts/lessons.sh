#!/bin/sh
# What each lesson shows, byte for byte: from another folder, locale, time zone and umask.
#   usage: lessons.sh BUILD_DIR [--record]       ends with "N passed, N failed"
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
case $1 in
/*) gspmd=$1/gspmd ;;
*) gspmd=$root/$1/gspmd ;;
esac
record=${2:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
cd "$tmp" || exit 1
umask 077
for f in "$root"/scripts/lessons/*.lesson; do
    name=$(basename "$f" .lesson)
    HOME="$tmp" LC_ALL=C.UTF-8 TZ=Asia/Kathmandu TERM=dumb "$gspmd" -n -c "lesson $name" >"$tmp/out" 2>&1
    status=$?
    if [ "$record" = --record ]; then
        cp "$tmp/out" "$root/tests/lessons/$name.out"
        chmod 644 "$root/tests/lessons/$name.out"
    elif [ $status = 0 ] && cmp -s "$tmp/out" "$root/tests/lessons/$name.out"; then
        passed=$((passed + 1))
    else
        echo "FAIL lesson $name (status $status)"
        diff "$root/tests/lessons/$name.out" "$tmp/out" | head -20
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
