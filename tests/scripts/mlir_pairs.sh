#!/bin/sh
# The same program as HLO and as StableHLO text: instructions, shardings and bytes must agree.
#   tests/scripts/mlir_pairs.sh BUILD_DIR [PATTERN]
# Ends with "N passed, N failed"; without the reference material all is skipped.
build=${1:?usage: mlir_pairs.sh BUILD_DIR [PATTERN]}
here=$(cd "$(dirname "$0")" && pwd)
shared=${GSPMD_SHARED:-$here/../../../shared}
if [ ! -d "$shared/inputs" ]; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
# The product needs no Python; this comparison of two JSON answers does.
if ! command -v python3 >/dev/null 2>&1; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
exec python3 "$here/mlir_pairs.py" "$build/gspmd" "$shared/inputs" "${2:-*}"
