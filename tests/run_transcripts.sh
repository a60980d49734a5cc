#!/bin/sh
# Replays every transcript: the cases, the examples of README and of the pages, those of help and man.
#   usage: run_transcripts.sh GSPMD [--record]
cd "$(dirname "$0")/.." || exit 1
gspmd=$1
shift
exec "$gspmd" --transcript "$@" tests/cases/*.test README.md models/README.md assets/attempts.md :examples
