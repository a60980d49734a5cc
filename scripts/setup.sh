#!/bin/sh
# Installs what the build and the tests need: Debian packages, with sudo where that is needed.
# Elsewhere it prints what to install. Does nothing, and asks nothing of the network, when all is there.
set -eu

# what is looked for               package that brings it
needs='
/usr/include/readline/readline.h   libreadline-dev
/usr/include/cjson/cJSON.h         libcjson-dev
/usr/include/zlib.h                zlib1g-dev
/usr/include/cmocka.h              libcmocka-dev
libopenblas.so                     libopenblas-dev
'

# what pictures (PNG, PDF, the window, laid-out graphs) and their tests need; all else works without
wanted='
/usr/include/SDL2/SDL.h            libsdl2-dev
/usr/include/cairo/cairo.h         libcairo2-dev
/usr/bin/dot                       graphviz
/usr/bin/Xvfb                      xvfb
/usr/bin/xdotool                   xdotool
/usr/bin/xmllint                   libxml2-utils
/usr/bin/tmux                      tmux
'
# setup.sh all: also what tests of MPI and of reports in a browser need
[ "${1:-}" != all ] || wanted="$wanted
/usr/bin/mpicc                     libopenmpi-dev
/usr/bin/mpirun                    openmpi-bin
/usr/bin/chromium                  chromium
"

found() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) ldconfig -p 2>/dev/null | grep -q "$1" || /sbin/ldconfig -p 2>/dev/null | grep -q "$1" ;;
    esac
}

missing=
while read -r what package; do
    [ -n "$what" ] || continue
    found "$what" || missing="$missing $package"
done <<END
$needs
END
optional=
while read -r what package; do
    [ -n "$what" ] || continue
    found "$what" || optional="$optional $package"
done <<END
$wanted
END
[ -n "$missing$optional" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    [ -z "$optional" ] || echo "pictures as PNG and PDF, the window and graphs need (Debian's names):$optional" >&2
    [ -n "$missing" ] || exit 0
    echo "gspmd needs these libraries with their headers (Debian's names):$missing" >&2
    echo "Install them with this system's package manager, then run make again." >&2
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "run as root: apt-get install$missing$optional" >&2
        [ -n "$missing" ] || exit 0
        exit 1
    }
    as_root=sudo
fi
export DEBIAN_FRONTEND=noninteractive
install() {
    echo "installing$*" >&2
    # shellcheck disable=SC2086
    $as_root apt-get install -y -q --no-install-recommends $* >&2 && return 0
    $as_root apt-get update -q >&2
    # shellcheck disable=SC2086
    $as_root apt-get install -y -q --no-install-recommends $* >&2
}
[ -z "$missing" ] || install "$missing"
[ -z "$optional" ] || install "$optional" ||
    echo "without$optional: no PNG, no PDF, no window, no laid-out graphs, or fewer tests; all else works" >&2
