#!/bin/sh
# The command line from outside: exit statuses, streams, pipes, requests, files, the terminal.
#   usage: cli.sh BUILD_DIR        ends with "N passed, N failed"
cd "$(dirname "$0")/../.." || exit 1
gspmd=$1/gspmd
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export HOME="$tmp/home" XDG_STATE_HOME="$tmp/state" XDG_CONFIG_HOME="$tmp/config" TERM=dumb
mkdir -p "$HOME"
. tests/scripts/checks.inc

# status N COMMAND...: the exit status is N
status() {
    want=$1
    shift
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    [ "$got" = "$want" ] || { echo "  status $got, not $want: $*"; sed 's/^/  | /' "$tmp/err"; return 1; }
}
says() { grep -qF -- "$1" "$tmp/out" || { echo "  stdout lacks: $1"; return 1; }; }
tells() { grep -qF -- "$1" "$tmp/err" || { echo "  stderr lacks: $1"; return 1; }; }
silent() { [ ! -s "$tmp/$1" ] || { echo "  $1 is not empty"; sed 's/^/  | /' "$tmp/$1"; return 1; }; }
equal() { [ "$1" = "$2" ] || { echo "  '$1', not '$2'"; return 1; }; }

# ---- statuses (language.md section 7)
check "no command" status 0 "$gspmd" -n -c ''
check "version" status 0 "$gspmd" --version
check "help" status 0 "$gspmd" --help
check "unknown option" status 2 "$gspmd" --nope
check "missing script" status 2 "$gspmd" -c
check "two models" status 2 "$gspmd" a b
check "unknown command" status 2 "$gspmd" -n -c nope
check "... on stderr" tells "no command is named 'nope'"
check "... nothing on stdout" silent out
check "wrong name" status 2 "$gspmd" -n -c 'show nope' models/mlp.json
check "wrong sharding" status 2 "$gspmd" -n -c 'mesh x=2; shard h [x,x]' models/mlp.json
check "no such model" status 3 "$gspmd" -n -c info "$tmp/none.hlo"
check "no such script" status 3 "$gspmd" -n -f "$tmp/none.gspmd"
printf 'HloModule m\nENTRY e {\n  ROOT a = f32[2] nonsense(b)\n}\n' >"$tmp/bad.hlo"
check "bad model" status 3 "$gspmd" -n -c 'echo never' "$tmp/bad.hlo"
check "... file, line, column" tells "bad.hlo:3:"
check "... ends there" silent out
check "expect fails" status 1 "$gspmd" -n -c 'mesh model=4; shard w1 [_,model]; expect no collectives' models/mlp.json
check "expect holds" status 0 "$gspmd" -n -c 'mesh model=4; shard x [model,_]; expect no collectives' models/mlp.json
check "quit N" status 7 "$gspmd" -n -c 'quit 7; echo never'
check "... ends there" silent out
check "unwritable" status 4 "$gspmd" -n -c 'export hlo /nowhere/x.hlo' models/mlp.json
[ -w /dev/full ] && check "full disk" sh -c "\"$gspmd\" -n -c 'help' >/dev/full 2>/dev/null; [ \$? = 4 ]"
printf 'HloModule m, num_partitions=2\nENTRY e {\n  a = f32[1048576,1048576,64] parameter(0), sharding={devices=[2,1,1]<=[2]}\n  ROOT b = f32[1048576,1048576,64] negate(a)\n}\n' >"$tmp/huge.hlo"
for command in run verify; do
    check "$command beyond memory" status 4 "$gspmd" -n -c $command "$tmp/huge.hlo"
    check "... and what else there is" tells "hint: a smaller dump"
done
check "a script stops at its first error" status 2 "$gspmd" -n -c 'nope; echo after'
check "... so nothing after" silent out
check "bail=off goes on" status 2 "$gspmd" -n -c 'set bail=off; nope; echo after'
check "... and says" says after

# ---- streams
check "prefix in a script" status 0 "$gspmd" -n -c 'vers'
check "... is warned of" tells "should spell it out"
check "... and answered" says "gspmd "
check "-q says nothing of edits" status 0 "$gspmd" -n -q -c 'mesh x=2; shard w1 [x,_]' models/mlp.json
check "... nothing" silent out
check "no colour into a file" sh -c "! \"$gspmd\" -n -c 'show --all' models/mlp.json | grep -q '$(printf '\033')'"
check "colour when wanted" sh -c "\"$gspmd\" -n --color=always -c 'show --all' models/mlp.json | grep -q '$(printf '\033')'"
check "a closed pipe ends quietly" sh -c "\"$gspmd\" -n -c 'set bail=off; show --all; show --all' models/mlp.json 2>'$tmp/err' | true"
check "... no word" silent err

# ---- scripts
printf 'mesh x=2\n# a comment\nload - <<END\nHloModule m\nENTRY e {\n  ROOT a = f32[4] parameter(0)\n}\nEND\nshard a [x]\nshow a\n' >"$tmp/s.gspmd"
check "-f" status 0 "$gspmd" -n -f "$tmp/s.gspmd"
check "... heredoc" says "annotated by you"
check "stdin is a script" sh -c "\"$gspmd\" -n <'$tmp/s.gspmd' | grep -q 'annotated by you'"
check "source" status 0 "$gspmd" -n -c "source $tmp/s.gspmd"
check "... runs it" says "annotated by you"
printf 'echo one\nnope\necho two\n' >"$tmp/e.gspmd"
check "an error names file and line" status 2 "$gspmd" -n -f "$tmp/e.gspmd"
check "... so" tells "e.gspmd:2:1"
check "stdin is a module" sh -c "\"$gspmd\" -n -c 'list' - <models/mlp.json | grep -q dot"
gzip -c models/transformer_layer.hlo >"$tmp/t.hlo.gz"
check "gzip" status 0 "$gspmd" -n -c 'info' "$tmp/t.hlo.gz"
check "several -c, in order" status 0 "$gspmd" -n -c 'echo a' -c 'echo b'
check "... so" equal "$(cat "$tmp/out")" "a
b"
mkdir -p "$XDG_CONFIG_HOME/gspmd"
echo 'alias hello echo from the init file' >"$XDG_CONFIG_HOME/gspmd/init.gspmd"
check "init file" status 0 "$gspmd" -c hello
check "... read" says "from the init file"
check "-n reads none" status 2 "$gspmd" -n -c hello
check "log" status 0 "$gspmd" -n -c "log $tmp/log; mesh x=2; shard w1 [_,x]; comms" models/mlp.json
"$gspmd" -n -c "mesh x=2; shard w1 [_,x]; log $tmp/late; shard x [_,_]; log off" models/mlp.json >/dev/null 2>&1
check "a log begins with what was there" grep -q '^shard w1 \[_,x\]$' "$tmp/late"
check "... and runs" status 0 "$gspmd" -n -f "$tmp/late"
check "... replays" status 0 "$gspmd" -n -f "$tmp/log"
check "... to the same" says "w1: [_,x]"

# ---- redirection
check "> FILE" status 0 "$gspmd" -n -c "show --all > $tmp/shown" models/mlp.json
check "... the answer is in it" grep -q parameter "$tmp/shown"
check "... and not on stdout" silent out
check ">> FILE" status 0 "$gspmd" -n -c "help version >> $tmp/shown"
check "... appends" sh -c "grep -q parameter '$tmp/shown' && grep -q 'which gspmd' '$tmp/shown'"
check "| CMD" sh -c "\"$gspmd\" -n -c 'list | grep -c dot' models/mlp.json | grep -qx 2"
check "> behind a comparison is none" status 1 "$gspmd" -n -c 'mesh x=2; expect bytes > 3' models/mlp.json
check "--safe writes nothing" status 2 "$gspmd" -n --safe -c "help > $tmp/unsafe"
check "--safe starts nothing" status 2 "$gspmd" -n --safe -c "help | touch $tmp/unsafe"
check "--safe exports nothing" status 2 "$gspmd" -n --safe -c "export hlo $tmp/unsafe" models/mlp.json
check "--safe draws no file" status 2 "$gspmd" -n --safe -c "plot layout w1 -o $tmp/unsafe.svg" models/mlp.json
check "... so" test ! -e "$tmp/unsafe" -a ! -e "$tmp/unsafe.svg"

# ---- files out
check "SVG" status 0 "$gspmd" -n -c "mesh x=2; shard w1 [x,_]; plot layout w1 -o $tmp/w1.svg" models/mlp.json
check "... is one" grep -q '</svg>' "$tmp/w1.svg"
check "run" status 0 "$gspmd" -n -c "mesh x=2; shard w1 [_,x]; run outputs=$tmp/many; run outputs=$tmp/one devices=1" models/mlp.json
check "... NumPy files" sh -c "head -c 6 '$tmp/many/0.npy' | tail -c 5 | grep -q NUMPY"
check "... of equal numbers" cmp -s "$tmp/many/0.npy" "$tmp/one/0.npy"
check "... of the wrong shape are refused" status 3 "$gspmd" -n -c "mesh x=2; run inputs=$tmp/many" models/attention.json
check "export, load, export" status 0 "$gspmd" -n -c "mesh x=2; shard w1 [_,x]; export hlo $tmp/1.hlo; load $tmp/1.hlo; export hlo $tmp/2.hlo" models/mlp.json
check "... is the same" cmp -s "$tmp/1.hlo" "$tmp/2.hlo"
check "the program is a module" status 0 "$gspmd" -n -c "mesh x=2; shard w1 [_,x]; export program $tmp/p.hlo; load $tmp/p.hlo; comms" models/mlp.json
check "... with its collectives" says "all-reduce"

# ---- JSON and requests
check "--json" status 0 "$gspmd" -n --json -c 'mesh x=2; show; comms' models/mlp.json
check "... one object a line" sh -c "[ \$(wc -l <'$tmp/out') = 3 ]"
check "an error is an object" status 2 "$gspmd" -n --json -c 'show nope' models/mlp.json
check "... with code and exit" says '"error":{"code":"name","exit":2'
cat >"$tmp/requests" <<'END'
{"id":1,"command":"load models/mlp.json"}
{"id":"two","command":"mesh x=2"}
{"id":3,"command":"shard w9 [x,_]"}
{"id":[4],"command":"shard w1 [x,_]"}
not json
{"id":5}
{"id":6,"command":"comms"}
END
check "--serve" sh -c "\"$gspmd\" -n --serve <'$tmp/requests' >'$tmp/out' 2>'$tmp/err'"
check "... seven answers" sh -c "[ \$(wc -l <'$tmp/out') = 7 ]"
check "... with their ids" sh -c "sed 's/,\"command.*//' '$tmp/out' | tr '\n' ' ' | grep -qF '{\"id\":1 {\"id\":\"two\" {\"id\":3 {\"id\":[4] {\"id\":null {\"id\":5 {\"id\":6 '"
check "... errors in them" sh -c "sed -n 3p '$tmp/out' | grep -q '\"error\"'"
check "... and none on stderr" silent err

# ---- names of a file never control the terminal
printf 'HloModule m\nENTRY e {\n  ROOT a = f32[2] parameter(0), metadata={op_name="x\033]0;title\007\302\233"}\n}\n' >"$tmp/esc.hlo"
for c in info list 'show --all' 'where a' 'program' 'show nope' 'plot layout a'; do
    "$gspmd" -n -c "mesh x=1; $c" "$tmp/esc.hlo" >"$tmp/out" 2>&1
    check "no control characters: $c" sh -c "! LC_ALL=C grep -q '[$(printf '\001-\011\013-\037\177')]' '$tmp/out'"
done

# ---- same bytes, whatever the surroundings
"$gspmd" -n --json -c 'mesh data=2 model=4; shard w1 [_,model]; show; comms; program; why h' models/mlp.json >"$tmp/a"
(cd / && LC_ALL=C TZ=Asia/Tokyo OMP_NUM_THREADS=1 "$(cd "$OLDPWD" && realpath "$gspmd")" -n --json \
    -c 'mesh data=2 model=4; shard w1 [_,model]; show; comms; program; why h' "$OLDPWD/models/mlp.json" >"$tmp/b")
check "same bytes elsewhere" cmp -s "$tmp/a" "$tmp/b"

# ---- Ctrl-C ends a script with 130
if command -v timeout >/dev/null 2>&1; then
    yes 'show --all' | head -200000 >"$tmp/long.gspmd"
    timeout --preserve-status -s INT 1 "$gspmd" -n -f "$tmp/long.gspmd" models/mlp.json >/dev/null 2>&1
    check "Ctrl-C" equal $? 130
fi

# ---- what is generated from the table
"$gspmd" --man >"$tmp/gspmd.1"
check "the man page in assets is the table's" cmp -s "$tmp/gspmd.1" assets/gspmd.1
for shell in bash zsh fish; do
    check "completion for $shell" status 0 "$gspmd" --completion $shell
done
"$gspmd" --completion bash >"$tmp/completion"
check "... bash reads it" sh -c "! command -v bash >/dev/null || bash -n '$tmp/completion'"

# ---- reviews: expectations as build servers want them
printf 'set bail=off\nmesh data=2 model=4\nshard w1 [_,model]\nexpect no all-gather\nexpect bytes(model) < 1KiB\nexpect nonsense\n' >"$tmp/e.gspmd"
check "--junit" status 1 env GITHUB_ACTIONS=true "$gspmd" -n --junit "$tmp/j.xml" -f "$tmp/e.gspmd" models/mlp.json
check "... annotations for GitHub" tells "e.gspmd,line=5,title=gspmd::expect bytes(model) < 1KiB: expected"
check "... counts" grep -q 'tests="3" failures="1" errors="1"' "$tmp/j.xml"
check "... escapes" grep -q 'name="expect bytes(model) &lt; 1KiB"' "$tmp/j.xml"
command -v xmllint >/dev/null 2>&1 && check "... is XML" xmllint --noout "$tmp/j.xml"
check "no annotations elsewhere" sh -c "! GITHUB_ACTIONS= \"$gspmd\" -n -f '$tmp/e.gspmd' models/mlp.json 2>&1 | grep -q '::error'"
check "--junit, unwritable" status 4 "$gspmd" -n --junit /nowhere/j.xml -c 'echo' models/mlp.json
check "expect unchanged --update" status 0 "$gspmd" -n -c "mesh model=4; shard w1 [_,model]; expect unchanged $tmp/u.txt --update; expect unchanged $tmp/u.txt" models/mlp.json
check "... holds" status 0 "$gspmd" -n -c "mesh model=4; shard w1 [_,model]; expect unchanged $tmp/u.txt" models/mlp.json
check "... does not hold" status 1 "$gspmd" -n -c "mesh model=4; shard w1 [model,_]; expect unchanged $tmp/u.txt" models/mlp.json
check "... says which line" tells "line 3: was 'parameter x"
check "--safe writes no snapshot" status 2 "$gspmd" -n --safe -c "expect unchanged $tmp/v.txt --update" models/mlp.json
check "a file holds no colour" sh -c "\"$gspmd\" -n -C 'mesh model=4; show --all > $tmp/plain' models/mlp.json </dev/null >/dev/null && ! grep -q '$(printf '\033')' '$tmp/plain'"

# ---- watch: the dump changes under us
cp tests/cases/data/renumbered.hlo "$tmp/w.hlo"
watches() {
    "$gspmd" -n -c 'mesh data=2 model=4; shard w2 [model,_]; save mine; watch --times=2; strategies; show w2' "$tmp/w.hlo" >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    until grep -q '^watching' "$tmp/out" || ! kill -0 $pid; do sleep 0.05; done
    echo 'HloModule broken {' >"$tmp/w.hlo"
    until grep -q 'cannot be read' "$tmp/out" || ! kill -0 $pid; do sleep 0.05; done
    sed 's/p\.70/q.1/g; s/p\.74/q.9/g; s/{devices=\[2,1,4\]<=\[8\] last_tile_dim_replicate}/{replicated}/' tests/cases/data/renumbered.hlo >"$tmp/n.hlo"
    mv "$tmp/n.hlo" "$tmp/w.hlo"
    wait $pid
}
check "watch" watches
check "... a broken file changes nothing" says "cannot be read; the one before stays"
check "... tells what differs" says "x       f32[64,128]  [data,_]      ->  replicated"
check "... keeps annotations" says "  shard w2 [model,_]"
check "... and saved strategies" says "mine"

# ---- a session in a file, there and back, and written again the same; options that it does not name are the defaults
"$gspmd" -n -q -c "load models/transformer_layer.hlo; mesh data=2 model=4 order=[4,2]T(1,0); shard x [data,_,_]; set hoist=on; \
    save \"one two\"; undo --all; mesh data=4 model=2; unshard --module; set passes=spmd; export session \"$tmp/a.gspmd\"" >"$tmp/out" 2>&1
check "a session is written" grep -q '^save "one two"$' "$tmp/a.gspmd"
check "... with its options" grep -q '^set hoist=on$' "$tmp/a.gspmd"
check "... read into a full shell" status 0 "$gspmd" -n -q -c "load models/mlp.json; mesh z=3; set hoist=on; set seed=9; \
    load session \"$tmp/a.gspmd\"; export session \"$tmp/b.gspmd\""
check "... and written again" cmp "$tmp/a.gspmd" "$tmp/b.gspmd"
check "... not with --safe" status 2 "$gspmd" -n --safe -c "load models/mlp.json; export session \"$tmp/c.gspmd\""

# ---- the page "keep the all-gather out": its script holds, and a change is caught
check "scripts/ci holds" status 0 "$gspmd" -n -q --junit "$tmp/ci.xml" -f scripts/ci/layer.gspmd models/transformer_layer.hlo
check "... with verdicts" grep -q 'tests="11" failures="0" errors="0"' "$tmp/ci.xml"
sed 's/^shard w2 .*/shard w2 [_,model]/; s/^expect unchanged.*//' scripts/ci/layer.gspmd >"$tmp/worse.gspmd"
check "... catches an all-gather" status 1 "$gspmd" -n -q -f "$tmp/worse.gspmd" models/transformer_layer.hlo
check "... by name" tells "expected no all-gather, found"

summary
[ "$failed" = 0 ]
