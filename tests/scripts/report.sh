#!/bin/sh
# Reports: the same bytes wherever they are made, nothing from a network, valid, and working in a browser.
#   usage: report.sh BUILD_DIR        ends with "N passed, N failed"
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
case $1 in
/*) gspmd=$1/gspmd ;;
*) gspmd=$root/$1/gspmd ;;
esac
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
. tests/scripts/checks.inc
has() { grep -qF -- "$2" "$1" || { echo "  $1 lacks: $2"; return 1; }; }
lacks() { ! grep -qE -- "$2" "$1" || { grep -noE -- "$2" "$1" | head -3; return 1; }; }
script='mesh data=2 model=4; shard x [data,_]; save dp; shard w1 [_,model]; shard w2 [model,_]'
make_in() { # folder, file
    mkdir -p "$1/models"
    cp models/mlp.json "$1/models/"
    (cd "$1" && HOME="$1" "$gspmd" -n -q -c "$script; report $2 --against=dp" models/mlp.json)
}

for form in html md; do
    check "$form" make_in "$tmp/a" "r.$form"
    mkdir -p "$tmp/b/deeper"
    (umask 077 && LC_ALL=C TZ=Asia/Kathmandu make_in "$tmp/b/deeper" "r.$form")
    check "... the same bytes" cmp "$tmp/a/r.$form" "$tmp/b/deeper/r.$form"
    check "... threads change nothing" sh -c "cd '$tmp/a' && '$gspmd' -n -q -c 'set threads=7; $script; report t.$form --against=dp' models/mlp.json && cmp t.$form r.$form"
    for words in "Who holds what" "all-reduce" "shard w1 [_,model]" "Against dp"; do
        check "... has '$words'" has "$tmp/a/r.$form" "$words"
    done
done
check "nothing from a network" lacks "$tmp/a/r.html" '(src|href)="(https?:)?//|url\([^#]|@import'
check "links lead somewhere" sh -c "for id in \$(grep -o 'href=\"#[a-z]*\"' '$tmp/a/r.html' | sed 's/.*#//; s/\"//'); do grep -q \"id=\\\"\$id\\\"\" '$tmp/a/r.html' || exit 1; done"
check "the script makes it again" sh -c "sed -n '/^## Make it again/,\$p' '$tmp/a/r.md' | sed -n '/^load/,/^report/p' | sed 's/^load .*/load models\\/mlp.json/; s/report FILE/report again.md/' >'$tmp/a/again.gspmd' && cd '$tmp/a' && '$gspmd' -n -q -f again.gspmd && '$gspmd' -n -q -c '$script; report plain.md' models/mlp.json && cmp again.md plain.md"
check "wrong form" sh -c "! '$gspmd' -n -c 'report r.doc' models/mlp.json 2>/dev/null"
check "--safe" sh -c "! '$gspmd' -n --safe -c 'report $tmp/no.md' models/mlp.json 2>/dev/null && [ ! -e '$tmp/no.md' ]"
if command -v xmllint >/dev/null 2>&1; then
    # libxml2 knows HTML 4's tags only
    check "HTML is well-formed" sh -c "! xmllint --html --noout '$tmp/a/r.html' 2>&1 | grep 'error :' | grep -v 'Tag [a-z]* invalid'"
else
    skipped=$((skipped + 1))
fi

# A browser: tables sort by a click, rows filter, and all is there without scripts.
browser=$(command -v chromium || command -v google-chrome || true)
dom() { timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/profile" --dump-dom "file://$1" 2>/dev/null; }
if [ -n "$browser" ]; then
    cat >"$tmp/probe" <<'END'
<script>
(function(){
var out=[];
document.querySelectorAll('table').forEach(function(t){
  var heads=Array.from(t.querySelectorAll('thead th')), k=heads.findIndex(function(h){return h.textContent.trim()==='bytes'});
  if(k<0||t.tBodies[0].rows.length<3)return;
  var read=function(){return Array.from(t.tBodies[0].rows).map(function(r){return parseFloat(r.cells[k].textContent.replace(/,/g,''))})};
  heads[k].querySelector('button').click();
  var up=read(), sorted=up.slice().sort(function(a,b){return a-b});
  heads[k].querySelector('button').click();
  var down=read();
  out.push(JSON.stringify(up)===JSON.stringify(sorted)&&JSON.stringify(down)===JSON.stringify(sorted.reverse())?'sorts':'does not sort');
});
var f=document.querySelector('input.filter');
if(f){f.value='all-reduce-no-such';f.dispatchEvent(new Event('input'));
  var rows=Array.from(f.nextElementSibling.querySelectorAll('tbody tr'));
  out.push(rows.every(function(r){return r.hidden})?'filters':'does not filter');}
out.push('wide '+(document.documentElement.scrollWidth<=window.innerWidth?'fits':'does not fit'));
var p=document.createElement('pre');p.id='probe';p.textContent=out.join('\n');document.body.appendChild(p);
})();
</script>
END
    "$gspmd" -n -q -c 'mesh data=2 model=4; shard w1 [_,model]; shard w2 [model,_]; shard wq [_,model,_]; shard wo [model,_,_]; report '"$tmp"'/big.html' models/transformer_layer.hlo
    cat "$tmp/big.html" "$tmp/probe" >"$tmp/probed.html"
    dom "$tmp/probed.html" | sed -n '/<pre id="probe">/,$p' >"$tmp/dom"
    check "tables sort" has "$tmp/dom" "sorts"
    check "... both ways, all of them" lacks "$tmp/dom" 'does not sort'
    check "rows filter" lacks "$tmp/dom" 'does not filter'
    check "the page fits its window" has "$tmp/dom" "wide fits"
    sed '/<script>/,/<\/script>/d' "$tmp/big.html" >"$tmp/plain.html"
    dom "$tmp/plain.html" >"$tmp/dom2"
    check "without scripts all is there" sh -c "[ \$(grep -c '<td' '$tmp/dom2') = \$(grep -c '<td' '$tmp/big.html') ]"
else
    skipped=$((skipped + 5))
fi
summary
