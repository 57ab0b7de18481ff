#!/bin/sh
# Makes or renews the virtual environment named by the first argument: the locked dependencies with the extras `spark` and `connect`,
# each checked against its hash, then the package itself in editable mode. PYTHON=... chooses the interpreter; else the
# first fit one is taken.
set -eu
cd "$(dirname "$0")/.."
venv=$1

fit() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

if ! fit "$venv/bin/python"; then
    python=
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
        if fit "$candidate"; then python=$candidate && break; fi
    done
    if [ -z "$python" ]; then
        echo "error: no Python 3.10 or newer was found (tried: ${PYTHON:-python3, python3.13 to python3.10});" \
            "install one, or name one: make PYTHON=/path/to/python3" >&2
        exit 1
    fi
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        scripts/system_package.sh python3-venv "" "" "" || {
            echo "error: $python has no venv module; install it (Debian and Ubuntu: apt-get install python3-venv)" >&2
            exit 1
        }
    fi
    echo "Making $venv with $("$python" --version) ..." >&2
    "$python" -m venv --clear "$venv"
fi

echo "Installing the locked dependencies into $venv ..." >&2
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
pip install --require-hashes -r requirements-build.lock
pip install --require-hashes --no-build-isolation --use-pep517 -r requirements.lock
pip install --no-deps --no-build-isolation -e '.[spark,connect]'
