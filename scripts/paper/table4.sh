#!/bin/sh
# Table 4 of the GSPMD paper, pipelining with in-layer sharding: our memory and step times beside the printed ones.
#   usage: table4.sh GSPMD [MEASURED.tsv]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
measured=${2:-}
if [ -z "$measured" ]; then
    measured=$(mktemp)
    trap 'rm -f "$measured"' EXIT
    # shellcheck disable=SC2046
    sh "$here/measure.sh" "$1" "" $(awk -F'\t' '$2 == 4 {print $1}' "$here/rows.tsv") >"$measured"
fi
awk -v table=4 -f "$here/table.awk" "$here/rows.tsv" "$measured"
