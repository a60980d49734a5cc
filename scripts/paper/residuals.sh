#!/bin/sh
# What the paper's programs keep for the backward pass is not printed. Three candidates, the same for tables 2, 3
# and 6; the one that fits some rows best is tested on the others:
#   annotated      what the dump keeps: the annotated activations
#   probabilities  and the attention probabilities, which the dump computes again
#   narrow         without the widest (BSH, EBCH), which would be computed again
# Dense models (tables 2, 3) choose on table 2 and are tested on table 3; table 6 chooses on its first row.
# rows.tsv holds the choice; exit status 1: it is another one.
#   usage: residuals.sh MEASURED.tsv
set -eu
here=$(cd "$(dirname "$0")" && pwd)
awk -F'\t' '
function peak(r, c) { return c == 1 ? base[r] : c == 2 ? base[r] + kept[r] : base[r] - wide[r] }
function off(r, c) { return peak(r, c) / 2^30 / printed[r] - 1 }
function size(x) { return x < 0 ? -x : x }
function choose(from, skip,    c, k, s, best, least) { # rows of the tables in `from`, or a row
    least = 1e9
    for (c = 1; c <= 3; c++) {
        s = 0
        for (k = 1; k <= n; k++)
            if (index(from, " " table[order[k]] " ") || index(from, " " order[k] " "))
                if (order[k] != skip) s += size(log(1 + off(order[k], c)))
        if (s < least) { least = s; best = c }
    }
    return best
}
function error(from, c, skip,    k, s, m) {
    for (k = 1; k <= n; k++)
        if ((index(from, " " table[order[k]] " ") || index(from, " " order[k] " ")) && order[k] != skip) { s += size(off(order[k], c)); m++ }
    return 100 * s / m
}
BEGIN { name[1] = "annotated"; name[2] = "probabilities"; name[3] = "narrow" }
/^#/ { next }
NR == FNR { if ($13 != "-") { order[++n] = $1; table[$1] = $2; printed[$1] = $13; chosen[$1] = $21 } next }
$1 in printed { base[$1] = $2; kept[$1] = $14; wide[$1] = $15 }
END {
    for (c = 1; c <= 3; c++)
        printf "%-14s mean error: table 2 %5.1f %%, table 3 %5.1f %%, table 6 %5.1f %%\n", name[c], error(" 2 ", c), error(" 3 ", c), error(" 6 ", c)
    dense = choose(" 2 "); moe = choose(" t6_10B ")
    printf "dense: %s, chosen on table 2; tested on table 3: mean error %.1f %%\n", name[dense], error(" 3 ", dense)
    printf "experts: %s, chosen on 10B of table 6; tested on its others: mean error %.1f %%\n", name[moe], error(" 6 ", moe, "t6_10B")
    for (k = 1; k <= n; k++) {
        r = order[k]; t = table[r]
        if (t != 2 && t != 3 && t != 6) continue
        from = t == 6 ? " 6 " : " 2 3 "
        c = choose(from, r)
        e = off(r, c); sum += size(e); m++
        printf "  left out %-18s %-14s %5.1f GiB, printed %5.2f, %+4.0f %%\n", r, name[c], peak(r, c) / 2^30, printed[r], 100 * e
    }
    printf "leave-one-out error: mean %.1f %%\n", 100 * sum / m
    for (k = 1; k <= n; k++) {
        r = order[k]; t = table[r]
        c = t == 2 || t == 3 ? dense : t == 6 ? moe : 1
        if (chosen[r] != name[c]) { print "rows.tsv has " chosen[r] " for " r ", not " name[c]; wrong = 1 }
    }
    exit wrong
}' "$here/rows.tsv" "$1"
