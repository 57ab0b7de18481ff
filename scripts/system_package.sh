#!/bin/sh
# Installs one system package if that is possible without asking anybody: as root, or through sudo without a password.
# Arguments: the package's name for apt-get, dnf, apk and brew; an empty name means that there is none.
# Exit code 1: not possible; the caller then says what to do.
set -eu
apt_name=$1 dnf_name=$2 apk_name=$3 brew_name=$4

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
may() { [ "$(id -u)" = 0 ] || { command -v sudo && sudo -n true; } >/dev/null 2>&1; }
have() { command -v "$1" >/dev/null 2>&1; }
say() { echo "Installing $1 ..." >&2; }
apt_install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >&2; }

if have apt-get && [ -n "$apt_name" ] && may; then
    say "$apt_name"
    # A package list that is missing or old is the usual reason for a failure.
    apt_install "$apt_name" || { as_root apt-get update -qq >&2 && apt_install "$apt_name"; }
elif have dnf && [ -n "$dnf_name" ] && may; then
    say "$dnf_name"
    as_root dnf install -y -q "$dnf_name" >&2
elif have apk && [ -n "$apk_name" ] && may; then
    say "$apk_name"
    as_root apk add --quiet "$apk_name" >&2
elif have brew && [ -n "$brew_name" ]; then
    say "$brew_name"
    brew install --quiet "$brew_name" >&2
else
    exit 1
fi
