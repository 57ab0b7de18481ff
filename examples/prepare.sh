# Sourced by the examples: sets `python` and JAVA_HOME, and goes to the example's folder. EXAMPLES_PYTHON names a Python
# that has the package already; else the virtual environment of the repository is made, or used.
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${EXAMPLES_PYTHON:-}
if [ -z "$python" ]; then
    make --silent --no-print-directory -C "$root" .venv/.ready
    python="$root/.venv/bin/python"
fi
JAVA_HOME=$("$root/scripts/ensure_java.sh")
export JAVA_HOME
cd "$(dirname "$0")"
