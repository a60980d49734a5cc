#!/bin/sh
# Table 8 of the GSPMD paper, 3D U-Net, spatial: our memory and step times beside the printed ones.
#   usage: table8.sh GSPMD [MEASURED.tsv]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
measured=${2:-}
if [ -z "$measured" ]; then
    measured=$(mktemp)
    trap 'rm -f "$measured"' EXIT
    # shellcheck disable=SC2046
    sh "$here/measure.sh" "$1" "" $(awk -F'\t' '$2 == 8 {print $1}' "$here/rows.tsv") >"$measured"
fi
awk -v table=8 -f "$here/table.awk" "$here/rows.tsv" "$measured"
