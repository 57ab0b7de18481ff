#!/bin/sh
# Makes sure of Azurite, Microsoft's own emulator of its object store, and prints its program. Looks at AZURITE_BLOB, then
# at the path, then in the user's cache; else installs it there with npm; else says what is skipped and prints nothing.
set -eu
version=3.37.0
home="${XDG_CACHE_HOME:-$HOME/.cache}/iceberg-compaction-tools/azurite-$version"

for name in "${AZURITE_BLOB:-}" azurite-blob "$home/node_modules/.bin/azurite-blob"; do
    if [ -n "$name" ] && command -v "$name"; then exit 0; fi
done
if command -v npm >/dev/null 2>&1; then
    echo "Installing azurite $version into $home ..." >&2
    mkdir -p "$home"
    if npm install --prefix "$home" --no-audit --no-fund --silent "azurite@$version" >&2; then
        echo "$home/node_modules/.bin/azurite-blob"
        exit 0
    fi
fi
echo "There is no azurite, and it could not be installed: the tests on abfss:// are skipped" \
    "(npm install azurite@$version, or set AZURITE_BLOB)" >&2
