#!/bin/sh
# Resolves the lock files from pyproject.toml: exact versions with hashes, for every supported Python and platform.
# requirements.lock has the runtime dependencies, the extras that tests need, and the development tools;
# requirements-build.lock has what builds those that come as source only (pyspark), so that even that is not left to
# chance. Needs uv; installing from the locks does not.
set -eu
cd "$(dirname "$0")/.."
if ! command -v uv >/dev/null 2>&1; then
    echo "error: make lock needs uv on the PATH: python3 -m pip install uv" >&2
    exit 1
fi
compile() {
    uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-annotate \
        --custom-compile-command "make lock" --quiet "$@"
}
compile pyproject.toml --extra spark --extra connect --extra postgres --extra redis --extra etcd --extra metrics \
    --extra otel --extra hive --extra glue --extra azure --extra statistics --extra service --group dev --output-file requirements.lock
echo setuptools | compile - --output-file requirements-build.lock
