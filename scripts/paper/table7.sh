#!/bin/sh
# Table 7 of the GSPMD paper, hybrid sparse and dense: our memory and step times beside the printed ones.
#   usage: table7.sh GSPMD [MEASURED.tsv]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
measured=${2:-}
if [ -z "$measured" ]; then
    measured=$(mktemp)
    trap 'rm -f "$measured"' EXIT
    # shellcheck disable=SC2046
    sh "$here/measure.sh" "$1" "" $(awk -F'\t' '$2 == 7 {print $1}' "$here/rows.tsv") >"$measured"
fi
awk -v table=7 -f "$here/table.awk" "$here/rows.tsv" "$measured"
