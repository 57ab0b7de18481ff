#!/bin/sh
# Makes sure of a Prometheus, with its promtool, for the tests of deploy/monitoring, and prints its program. Looks at
# PROMETHEUS, then at the path; else installs one where it may; else says what is skipped and prints nothing.
set -eu
here=$(dirname "$0")

find_prometheus() {
    for name in "${PROMETHEUS:-}" prometheus; do
        if [ -n "$name" ] && command -v "$name"; then return 0; fi
    done
    return 1
}

if find_prometheus; then exit 0; fi
if "$here/system_package.sh" prometheus "" prometheus prometheus && find_prometheus; then exit 0; fi
echo "There is no Prometheus, and it could not be installed: the tests of dashboard and rules are skipped" \
    "(apt-get install prometheus, or set PROMETHEUS)" >&2
