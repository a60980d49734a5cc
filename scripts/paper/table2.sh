#!/bin/sh
# Table 2 of the GSPMD paper, wide dense Transformers: our memory and step times beside the printed ones.
#   usage: table2.sh GSPMD [MEASURED.tsv]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
measured=${2:-}
if [ -z "$measured" ]; then
    measured=$(mktemp)
    trap 'rm -f "$measured"' EXIT
    # shellcheck disable=SC2046
    sh "$here/measure.sh" "$1" "" $(awk -F'\t' '$2 == 2 {print $1}' "$here/rows.tsv") >"$measured"
fi
awk -v table=2 -f "$here/table.awk" "$here/rows.tsv" "$measured"
