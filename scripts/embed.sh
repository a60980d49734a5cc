#!/bin/sh
# Files as C strings: what the program brings along wherever it is installed.
#   usage: embed.sh TABLE FILE... > OUT.c      one { name, text } a file, name without folder and suffix
set -eu
table=$1
shift
echo "/* Made by scripts/embed.sh. */"
echo "#include \"base/embedded.h\""
echo "const struct embedded $table[] = {"
for f in "$@"; do
    name=$(basename "$f")
    printf '{ "%s",\n' "${name%.*}"
    # one literal a line; a compiler need not take long ones, but gcc and clang do
    LC_ALL=C sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/\\t/g' -e 's/^/"/' -e 's/$/\\n"/' "$f"
    echo "},"
done
echo "};"
echo "const int n$table = $#;"
