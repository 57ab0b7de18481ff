#!/bin/sh
# Runs the unit tests on every Python that the package declares, in an environment of its own for each, with what the
# package index has today and without Spark. Looks for python3.N on the path and among pyenv's; one that is not there is
# named, and counts as a failure only if none is there. Arguments: the versions to try, instead of all. PROCESSES: how
# many test processes at once. The last lines say how each version fared.
set -u
cd "$(dirname "$0")/.."
home="${XDG_CACHE_HOME:-$HOME/.cache}/iceberg-compaction-tools"
tried=0 failed=0 outcomes=
extras=postgres,redis,etcd,metrics,otel,hive,glue,azure,statistics,service
tools="pyiceberg[pyiceberg-core] pytest pytest-xdist hypothesis packaging polars click tomli moto httpx duckdb"

find_python() {
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1."*/bin/python; do
        if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" >/dev/null 2>&1; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

run_tests() {
    PYTHONPATH=src:. "$1" -m pytest -q -p no:cacheprovider -n "${PROCESSES:-2}" \
        -m "not (interop or lab or spark or server or slow)" tests/unit \
        --ignore tests/unit/execute/test_spark_start.py --ignore tests/unit/test_canaries_spark.py \
        --ignore tests/unit/test_dependencies.py
}

note() {
    outcomes="$outcomes
Python $1: $2"
}

for version in ${*:-3.10 3.11 3.12 3.13}; do
    if ! python=$(find_python "$version"); then
        note "$version" "not here, skipped"
        continue
    fi
    tried=$((tried + 1))
    echo "Python $version: $python" >&2
    venv="$home/venv-$version"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    if ! "$venv/bin/python" -m pip --disable-pip-version-check install --quiet ".[$extras]" $tools; then
        failed=$((failed + 1))
        note "$version" "the packages cannot be installed"
    elif run_tests "$venv/bin/python"; then
        note "$version" "passed"
    else
        failed=$((failed + 1))
        note "$version" "failed"
    fi
done
echo "$outcomes" >&2
[ "$tried" -gt 0 ] && [ "$failed" -eq 0 ]
