#!/bin/sh
# Memory and time of the dumps of models/paper, one line a row of rows.tsv, tabs between:
#   row peak step compute communication exposed matrix_flops all_to_all_s loop_s loop_trips parameters bytes collectives kept wide
# kept: what the attention probabilities would take if they were kept for the backward pass, not computed again;
# wide: what the widest stacks of residuals (BSH, EBCH) take. 0 outside tables 1 to 3, 6, 7.
#   usage: measure.sh GSPMD [CALIBRATION.json [ROW...]]
set -eu
gspmd=$1 calibration=${2:-}
[ $# -ge 2 ] && shift 2 || shift
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
tab=$(printf '\t')
field() { # first number behind a key in a line of JSON
    printf '%s\n' "$1" | sed -n "s/^.*\"$2\":\\([-+0-9.e]*\\)[,}].*\$/\\1/p" | head -1
}
grep -v '^#' "$here/rows.tsv" | while IFS=$tab read -r row table mesh _ _ _ stages micro rounds _; do
    case " $* " in "  " | *" $row "*) ;; *) continue ;; esac
    keep=
    case $table in 1 | 2 | 3 | 6 | 7) keep=$(gzip -dc "$root/models/paper/$row.hlo.gz" | awk '
        /rematted_computation/ && /= bf16\[[0-9,]*,1024,1024\]/ && / convert\(divide/ { printf "%s%s", s, $1; s = "," }') ;; esac
    out=$("$gspmd" -q -n --json -c "set passes=full; mesh $mesh; hardware tpu-v3${calibration:+ calibration=$calibration}; memory${keep:+ keep=$keep}; comms; cost" \
        "$root/models/paper/$row.hlo.gz")
    memory=$(printf '%s\n' "$out" | grep '^{"command":"memory"')
    cost=$(printf '%s\n' "$out" | grep '^{"command":"cost"')
    comms=$(printf '%s\n' "$out" | grep '^{"command":"comms"')
    head=$(printf '%s\n' "$cost" | sed 's/"operations".*//')
    peak=$(printf '%s\n' "$memory" | sed -n 's/.*"peak":\([0-9]*\),"at".*/\1/p')
    a2a=$(printf '%s\n' "$cost" | sed -n 's/.*{"name":"all-to-all","kernels":[0-9]*,"compute":[-+0-9.e]*,"communication":\([-+0-9.e]*\).*/\1/p' | head -1)
    # the pipelined loops turn microbatches x rounds + stages - 1 times
    turns=-1
    [ "$stages" = - ] || turns=$((micro * rounds + stages - 1))
    loops=$(printf '%s\n' "$cost" | grep -o '{"name":"while[^}]*}' | sed -n "s/.*\"trips\":$turns,.*\"seconds\":\\([-+0-9.e]*\\)}/\\1/p" |
        awk '{s += $1} END {printf "%.6g", s}')
    parameters=$("$gspmd" -q -n -c 'list parameters --all' "$root/models/paper/$row.hlo.gz" | awk '$4 ~ /^params/ {
        s = $3; sub(/^[a-z0-9]*\[/, "", s); sub(/\].*/, "", s); k = split(s, d, ","); n = 1
        for (j = 1; j <= k; j++) n *= d[j]
        sum += n } END {printf "%.0f", sum}')
    bytes=$(printf '%s\n' "$comms" | sed -n 's/.*\],"bytes":\([0-9]*\),"axes_bytes".*/\1/p')
    kinds=$(printf '%s\n' "$comms" | grep -o '"kind":"[a-z-]*"' | sort | uniq -c | awk '{gsub(/"kind":|"/, "", $2); printf "%s%s %s", s, $1, $2; s = ", "}')
    kept=$(printf '%s\n' "$memory" | grep -o '"keep":"[^"]*","bytes":[0-9]*' | awk -F: '{s += $NF} END {printf "%.0f", s}')
    wide=0
    [ -z "$keep" ] || wide=$(printf '%s\n' "$memory" | grep -o '"name":"while[^}]*"kind":"activations","shape":"[^"]*","bytes":[0-9]*' |
        awk -F'"' '{d = $0; sub(/.*"shape":"[a-z0-9]*\[/, "", d); sub(/\].*/, "", d); k = split(d, x, ","); b = $0; sub(/.*"bytes":/, "", b)
            if (x[k] + 0 > most) { most = x[k] + 0; s = 0 }
            if (x[k] + 0 == most) s += b } END {printf "%.0f", s}')
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$row" "$peak" "$(field "$head" step)" "$(field "$head" compute)" \
        "$(field "$head" communication)" "$(field "$head" exposed)" "$(field "$head" matrix_flops)" "${a2a:-0}" "${loops:-0}" "$turns" \
        "${parameters:-0}" "${bytes:-0}" "$kinds" "${kept:-0}" "${wide:-0}"
done
