#!/bin/sh
# The pictures of README and pages, drawn by the program itself: assets/*.svg.
#   usage: pictures.sh BUILD_DIR
set -eu
cd "$(dirname "$0")/.."
"$1/gspmd" -q -n -c '
mesh data=2 model=4
shard w1 [_,model]
shard w2 [model,_]
plot layout w1 -o assets/layout.svg
plot mesh -o assets/mesh.svg
' models/transformer_layer.hlo
ls -l assets/*.svg
