# Our figures beside the paper's, as a Markdown table. First file: rows.tsv, second: what measure.sh prints.
#   -v table=N
function diff(ours, printed) { return printed == "-" ? "" : sprintf("%+.0f %%", 100 * (ours / printed - 1)) }
function points(ours, printed) { return printed == "-" ? "" : sprintf("%+.1f", ours - printed) }
BEGIN { FS = "\t" }
/^#/ { next }
NR == FNR {
    if ($2 == table) { order[++n] = $1; devices[$1] = $4; stages[$1] = $7; formula[$1] = $10; memory[$1] = $13; step[$1] = $14
        util[$1] = $15; raw[$1] = $16; bubbles[$1] = $17; a2a[$1] = $19; label[$1] = $20; keeps[$1] = $21; mesh[$1] = $3; parameters[$1] = $12 }
    next
}
$1 in devices { dumped[$1] = $2; peak[$1] = keeps[$1] == "probabilities" ? $2 + $14 : keeps[$1] == "narrow" ? $2 - $15 : $2; s[$1] = $3; comm[$1] = $6; flops[$1] = $7; toall[$1] = $8; loop[$1] = $9; turns[$1] = $10; count[$1] = $11; bytes[$1] = $12; kinds[$1] = $13 }
END {
    if (table == 1) {
        print "| row | peak GiB | step s | sent GB a device | collectives |"
        print "| --- | --- | --- | --- | --- |"
        for (k = 1; k <= n; k++) { r = order[k]; printf "| %s | %.1f | %.2f | %.1f | %s |\n", label[r], peak[r] / 2^30, s[r], bytes[r] / 1e9, kinds[r] }
        exit
    }
    piped = table == 4 || table == 5; both = table == 2 || table == 3 || table == 6
    printf "| row | mesh | parameters / 2^30 |%s peak GiB: ours, paper | | step s: ours, paper | | %s: ours, paper | |%s%s\n", \
        both ? " as dumped, GiB |" : "", piped ? "raw utilisation %" : "utilisation %", piped ? " bubbles %: ours, paper | |" : "", table == 6 ? " all-to-all %: ours, paper | |" : ""
    printf "| --- | --- | --- |%s --- | --- | --- | --- | --- | --- |%s%s\n", both ? " --- |" : "", piped ? " --- | --- |" : "", table == 6 ? " --- | --- |" : ""
    for (k = 1; k <= n; k++) {
        r = order[k]
        if (!(r in s)) continue
        # raw: all matrix FLOPs of the program, bubbles and recomputation too; else those of the formula
        u = piped ? 100 * flops[r] / (61.5e12 * s[r]) : 100 * formula[r] / (devices[r] * 61.5e12 * s[r])
        up = piped ? raw[r] : util[r]
        printf "| %s | %s | %.3f%s |%s %.1f, %s | %s | %.2f, %s | %s | %.1f, %s | %s |", label[r], mesh[r], count[r] / 2^30, \
            parameters[r] == "-" ? "" : " (" parameters[r] ")", both ? sprintf(" %.1f |", dumped[r] / 2^30) : "", peak[r] / 2^30, memory[r], diff(peak[r] / 2^30, memory[r]), s[r], step[r], diff(s[r], step[r]), u, up, points(u, up)
        if (piped) { b = 100 * loop[r] / s[r] * (stages[r] - 1) / turns[r]; printf " %.1f, %s | %s |", b, bubbles[r], points(b, bubbles[r]) }
        if (table == 6) { b = 100 * toall[r] / s[r]; printf " %.1f, %s | %s |", b, a2a[r], points(b, a2a[r]) }
        print ""
    }
}
