#!/bin/sh
# One folder for CI machines and clusters: build/portable/gspmd, linked statically where Debian has an
# archive, and beside it in lib/ the few shared libraries that have none, found by $ORIGIN.
set -eu
cd "$(dirname "$0")/.."
out=build/portable
make -s B=build/portable-objects EXTRA_CFLAGS= build/portable-objects/libgspmd.a
make -s B=build/portable-objects all >/dev/null
rm -rf "$out"
mkdir -p "$out/lib" "$out/models"

# -l for the archive when there is one, else the shared library and a copy of it in lib/
link=
for lib in readline tinfo cjson z; do
    archive=$(${CC:-gcc} -print-file-name=lib$lib.a)
    if [ -f "$archive" ]; then
        link="$link $archive"
    else
        shared=$(ldconfig -p 2>/dev/null | sed -n "s/.*lib$lib\.so[.0-9]* .*=> //p" | head -1)
        [ -n "$shared" ] || shared=$(/sbin/ldconfig -p | sed -n "s/.*lib$lib\.so[.0-9]* .*=> //p" | head -1)
        cp -L "$shared" "$out/lib/"
        link="$link -l$lib"
    fi
done
objects=$(find build/portable-objects/repl build/portable-objects/viz -name '*.o' | sort)
# shellcheck disable=SC2086
${CC:-gcc} $objects build/portable-objects/libgspmd.a -o "$out/gspmd" -Wl,-rpath,'$ORIGIN/lib' $link \
    -ldl -lpthread -lm -static-libgcc
strip "$out/gspmd"
cp models/*.json models/*.hlo "$out/models/"
cp LICENSE "$out/"
# it runs, and from another folder too
"$out/gspmd" --version
(cd / && "$OLDPWD/$out/gspmd" -q -n -c 'info' "$OLDPWD/models/mlp.json" >/dev/null)
tar -C build -czf build/gspmd-portable.tar.gz portable
echo "build/gspmd-portable.tar.gz: $(du -sh "$out" | cut -f1) unpacked; needs:" \
    $(ldd "$out/gspmd" | awk '{print $1}' | grep -v linux-vdso | tr '\n' ' ')
