#!/bin/sh
# Resolves requirements.lock from pyproject.toml: runtime and development dependencies, exact versions with hashes, one
# file for every supported Python and platform. Needs uv; installing from the lock does not.
set -eu
cd "$(dirname "$0")/.."
if ! command -v uv >/dev/null 2>&1; then
    echo "make lock needs uv on the PATH: python3 -m pip install uv" >&2
    exit 1
fi
exec uv pip compile pyproject.toml --group dev --universal --python-version 3.10 --generate-hashes \
    --no-emit-index-url --no-annotate --custom-compile-command "make lock" --quiet --output-file requirements.lock "$@"
