#!/bin/sh
# Installs one system package if that is possible without asking anybody: as root, or through sudo without a password.
# Arguments: the package's name for apt-get, dnf, apk and brew. Exit code 1: not possible; the caller then says what to do.
set -eu
apt_name=$1 dnf_name=$2 apk_name=$3 brew_name=$4

if [ "$(id -u)" = 0 ]; then
    as_root() { "$@"; }
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root() { sudo -n "$@"; }
else
    as_root() { return 1; }
fi

if command -v apt-get >/dev/null 2>&1; then
    [ -n "$apt_name" ] || exit 1
    echo "Installing $apt_name with apt-get ..." >&2
    # A stale package list is the usual reason for a failure, so it is renewed only then.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$apt_name" >&2 || {
        as_root apt-get update -qq >&2
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$apt_name" >&2
    } || exit 1
elif command -v dnf >/dev/null 2>&1; then
    [ -n "$dnf_name" ] || exit 1
    echo "Installing $dnf_name with dnf ..." >&2
    as_root dnf install -y -q "$dnf_name" >&2 || exit 1
elif command -v apk >/dev/null 2>&1; then
    [ -n "$apk_name" ] || exit 1
    echo "Installing $apk_name with apk ..." >&2
    as_root apk add --quiet "$apk_name" >&2 || exit 1
elif command -v brew >/dev/null 2>&1; then
    [ -n "$brew_name" ] || exit 1
    echo "Installing $brew_name with brew ..." >&2
    brew install --quiet "$brew_name" >&2 || exit 1
else
    exit 1
fi
