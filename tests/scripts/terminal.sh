#!/bin/sh
# The shell at a real terminal: 200 commands typed, kill -9 in the middle, and all of it back.
#   usage: terminal.sh BUILD_DIR        ends with "N passed, N failed"
cd "$(dirname "$0")/../.." || exit 1
gspmd=$1/gspmd
command -v tmux >/dev/null 2>&1 || {
    echo "no tmux here"
    echo "0 passed, 0 failed, 5 skipped"
    exit 0
}
tmp=$(mktemp -d)
tm() { tmux -L "gspmd-$$" -f /dev/null "$@"; }
trap 'tm kill-server 2>/dev/null; rm -rf "$tmp"' EXIT
export HOME="$tmp/home" XDG_STATE_HOME="$tmp/state" XDG_CONFIG_HOME="$tmp/config" TERM=xterm
unset TMUX
mkdir -p "$HOME"
. tests/scripts/checks.inc

# The screen, or a file, comes to hold a text: asked for again until then, for at most half a minute.
shown() {
    n=0
    while ! tm capture-pane -p -J 2>/dev/null | grep -qF -- "$1"; do
        n=$((n + 1))
        [ $n -lt 300 ] || return 1
        sleep 0.1
    done
}
written() {
    n=0
    while ! [ -s "$1" ]; do
        n=$((n + 1))
        [ $n -lt 300 ] || return 1
        sleep 0.1
    done
}

# 200 commands: edits of every kind, questions between them.
commands() {
    awk 'BEGIN {
        n = split("shard w1 [_,model]|shard w2 [model,_]|shard x [data,_]|shard h [data,model]|show|unshard w1|" \
                  "undo|redo|save a|why h|shard w1 [data,model]|comms|restore a|constrain h [_,model]|set uneven=warn|" \
                  "undo|shard y [data,_]|conflicts|unshard x|set uneven=pad", c, "|")
        print "load models/mlp.json"; print "mesh data=2 model=4"
        for (k = 0; k < 198; k++) print c[k % n + 1]
    }'
}
commands >"$tmp/all"
head -117 "$tmp/all" >"$tmp/first"
tail -n +118 "$tmp/all" >"$tmp/rest"

type_in() { # file of commands, the sign that ends them
    while IFS= read -r line; do
        tm send-keys -l "$line"
        tm send-keys Enter
    done <"$1"
    tm send-keys -l "echo $2" && tm send-keys Enter
}
strategies_of() { # files of commands...
    cat "$@" >"$tmp/script"
    printf 'strategies > "%s"\n' "$tmp/want" >>"$tmp/script"
    HOME="$tmp/other" XDG_STATE_HOME="$tmp/other" "$gspmd" -n -f "$tmp/script" >/dev/null 2>&1
}

# Until the shell has ended, ten seconds at most.
gone() {
    n=0
    while tm has-session 2>/dev/null && [ $n -lt 100 ]; do
        n=$((n + 1))
        sleep 0.1
    done
}

first_half() {
    tm new-session -d -x 100 -y 30 "exec $gspmd -n" && shown "gspmd>" || return 1
    tm send-keys -l "set pager=off" && tm send-keys Enter
    type_in "$tmp/first" "half-is-typed"
    n=0
    until tm capture-pane -p -J | grep -q '^half-is-typed'; do
        n=$((n + 1))
        [ $n -lt 300 ] || return 1
        sleep 0.1
    done
    kill -9 "$(tm display-message -p '#{pane_pid}')"
    gone
}
check "half of 200 commands, then kill -9" first_half
[ "$(find "$tmp/state/gspmd/journal" -type f 2>/dev/null | wc -l)" = 1 ]
check "a journal is left" [ $? = 0 ]

second_start() {
    tm new-session -d -x 100 -y 30 "exec $gspmd -n" && shown "recover brings it back" || return 1
    tm send-keys -l "recover" && tm send-keys Enter && shown "recovered:" || return 1
    tm send-keys -l "strategies > \"$tmp/got\"" && tm send-keys Enter && written "$tmp/got" || return 1
    strategies_of "$tmp/first"
    diff "$tmp/want" "$tmp/got"
}
check "the next start has all of it" second_start

to_the_end() {
    rm -f "$tmp/got"
    type_in "$tmp/rest" "all-is-typed"
    tm send-keys -l "strategies > \"$tmp/got\"" && tm send-keys Enter && written "$tmp/got" || return 1
    strategies_of "$tmp/first" "$tmp/rest"
    diff "$tmp/want" "$tmp/got" || return 1
    tm send-keys -l "quit" && tm send-keys Enter
    gone
    left=$(find "$tmp/state/gspmd/journal" -type f)
    [ -z "$left" ] || { echo "  left: $left"; cat $left; return 1; }
}
check "the other half, and no journal after quit" to_the_end

# A session that only looked at a module leaves nothing to bring back.
only_loaded() {
    tm new-session -d -x 100 -y 30 "exec $gspmd -n models/mlp.json" && at_prompt models/mlp.json || return 1
    tm send-keys -l "info" && tm send-keys Enter && shown "opcodes" || return 1
    kill -9 "$(tm display-message -p '#{pane_pid}')"
    gone
    [ "$(find "$tmp/state/gspmd/journal" -type f 2>/dev/null | wc -l)" = 0 ]
}

# On a narrow terminal lines are broken between words, not where the screen ends: tmux joins the latter
# again, so that a line longer than the screen is one that the shell left too long.
# Each command is typed at a prompt that waits: what is typed ahead the terminal itself would echo into lines.
at_prompt() { # a line that must have been shown
    n=0
    until tm capture-pane -p -J | grep -q "^$1" &&
        tm capture-pane -p -J | sed '/^ *$/d' | tail -1 | grep -q '^gspmd mlp[^>]*> *$'; do
        n=$((n + 1))
        [ $n -lt 300 ] || return 1
        sleep 0.1
    done
}
check "no journal of a session without edits" only_loaded
narrow() {
    tm new-session -d -x 64 -y 50 "exec $gspmd -n models/mlp.json" && at_prompt models/mlp.json || return 1
    tm set-option -g history-limit 2000
    k=0
    for line in "set pager=off; mesh data=2 model=4; shard w1 [_,model]" "show --all" comms "why h" memory cost "blame y" \
        program "help shard" "explain remat" set; do
        k=$((k + 1))
        tm send-keys -l "$line; echo mark-$k" && tm send-keys Enter
        at_prompt "mark-$k" || return 1
    done
    tm capture-pane -p -J -S - | grep -v '^gspmd mlp' | sed 's/ *$//' >"$tmp/screen"
    tm send-keys -l "quit" && tm send-keys Enter
    grep -q '^ *contracting$\|^ .*dimension' "$tmp/screen" && ! grep -n '.\{65\}' "$tmp/screen"
}
check "no line is wider than a narrow terminal" narrow
summary
