# An SVG of ours against the printed figures, both axes logarithmic, the diagonal drawn.
#   -v what=step|memory ; first file: rows.tsv, second: what measure.sh prints
function lg(x) { return log(x) / log(10) }
function px(v) { return 60 + (lg(v) - lo) / (hi - lo) * 420 }
function py(v) { return 450 - (lg(v) - lo) / (hi - lo) * 420 }
BEGIN { FS = "\t"; split("#4477aa #66ccee #228833 #ccbb44 #ee6677 #aa3377 #888888 #000000", colour, " ") }
/^#/ { next }
NR == FNR { table[$1] = $2; printed[$1] = what == "step" ? $14 : $13; label[$1] = "table " $2 ", " $20; keeps[$1] = $21; next }
{ ours[$1] = what == "step" ? $3 : (keeps[$1] == "probabilities" ? $2 + $14 : keeps[$1] == "narrow" ? $2 - $15 : $2) / 2^30; order[++n] = $1 }
END {
    if (what == "step") { lo = lg(0.1); hi = lg(40); k = split("0.1 0.3 1 3 10 30", ticks, " ") }
    else { lo = lg(2); hi = lg(40); k = split("2 4 8 16 32", ticks, " ") }
    unit = what == "step" ? "step time, s" : "peak memory of a device, GiB"
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"500\" viewBox=\"0 0 640 500\" font-family=\"sans-serif\" font-size=\"12\">"
    printf "<title>%s: ours against the GSPMD paper</title>\n<rect width=\"640\" height=\"500\" fill=\"white\"/>\n", unit
    for (t = 1; t <= k; t++) {
        v = ticks[t]
        printf "<path d=\"M%.1f 30V450M60 %.1fH480\" stroke=\"#dddddd\"/><text x=\"%.1f\" y=\"466\" text-anchor=\"middle\">%s</text><text x=\"54\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", px(v), py(v), px(v), v, py(v) + 4, v
    }
    print "<path d=\"M60 450L480 30\" stroke=\"black\"/>"
    printf "<text x=\"270\" y=\"488\" text-anchor=\"middle\">printed: %s</text><text x=\"16\" y=\"240\" text-anchor=\"middle\" transform=\"rotate(-90 16 240)\">ours</text>\n", unit
    for (i = 1; i <= n; i++) {
        r = order[i]
        if (printed[r] == "-" || printed[r] == "") continue
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\" fill-opacity=\"0.8\"><title>%s: ours %.2f, printed %s</title></circle>\n", px(printed[r]), py(ours[r]), colour[table[r]], label[r], ours[r], printed[r]
    }
    for (t = 2; t <= 8; t++) printf "<circle cx=\"510\" cy=\"%d\" r=\"5\" fill=\"%s\"/><text x=\"522\" y=\"%d\">table %d</text>\n", 40 + 20 * t, colour[t], 44 + 20 * t, t
    print "</svg>"
}
