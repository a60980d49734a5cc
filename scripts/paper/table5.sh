#!/bin/sh
# Table 5 of the GSPMD paper, pipelined Conformers: our memory and step times beside the printed ones.
#   usage: table5.sh GSPMD [MEASURED.tsv]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
measured=${2:-}
if [ -z "$measured" ]; then
    measured=$(mktemp)
    trap 'rm -f "$measured"' EXIT
    # shellcheck disable=SC2046
    sh "$here/measure.sh" "$1" "" $(awk -F'\t' '$2 == 5 {print $1}' "$here/rows.tsv") >"$measured"
fi
awk -v table=5 -f "$here/table.awk" "$here/rows.tsv" "$measured"
