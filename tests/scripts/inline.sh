#!/bin/sh
# Pictures in the terminal itself, under a pseudo-terminal.
#   usage: inline.sh BUILD_DIR
build=${1:?usage: inline.sh BUILD_DIR}
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v python3 >/dev/null 2>&1 || ! "$build/gspmd" -q -n -c "mesh x=2; set inline=sixel; plot mesh --inline" >/dev/null 2>&1; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
exec python3 "$here/inline.py" "$build/gspmd"
