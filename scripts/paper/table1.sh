#!/bin/sh
# Table 1 of the GSPMD paper, the three attempts to shard a dense layer: our memory and step times beside the printed ones.
#   usage: table1.sh GSPMD [MEASURED.tsv]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
measured=${2:-}
if [ -z "$measured" ]; then
    measured=$(mktemp)
    trap 'rm -f "$measured"' EXIT
    # shellcheck disable=SC2046
    sh "$here/measure.sh" "$1" "" $(awk -F'\t' '$2 == 1 {print $1}' "$here/rows.tsv") >"$measured"
fi
awk -v table=1 -f "$here/table.awk" "$here/rows.tsv" "$measured"
