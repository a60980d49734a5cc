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
/usr/bin/tmux                      tmux
libopenblas.so                     libopenblas-dev
'

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
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "gspmd needs these libraries with their headers (Debian's names):$missing" >&2
    echo "Install them with this system's package manager, then run make again." >&2
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "run as root: apt-get install$missing" >&2
        exit 1
    }
    as_root=sudo
fi
echo "installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
if ! $as_root apt-get install -y -q --no-install-recommends $missing >&2; then
    $as_root apt-get update -q >&2
    $as_root apt-get install -y -q --no-install-recommends $missing >&2
fi
