#!/bin/sh
# Answers of why-not and coverage on real dumps, tried: what they say would help or could go does.
#   tests/scripts/ask.sh BUILD_DIR
# Ends with "N passed, N failed"; without the reference material, or Python, all is skipped.
build=${1:?usage: ask.sh BUILD_DIR}
here=$(cd "$(dirname "$0")" && pwd)
shared=${GSPMD_SHARED:-$here/../../../shared}
if [ ! -d "$shared/inputs" ] || ! command -v python3 >/dev/null 2>&1; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
exec python3 "$here/ask.py" "$build/gspmd" "$shared/inputs"
