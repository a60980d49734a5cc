#!/bin/sh
# The GSPMD paper's checks on models/paper (scripts/paper/checks.sh tells what each one is).
#   usage: paper.sh BUILD_DIR
exec sh "$(dirname "$0")/../../scripts/paper/checks.sh" "$1/gspmd"
