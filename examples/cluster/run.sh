#!/bin/sh
# Runs the example; README.md says what it shows.
set -eu
. "$(dirname "$0")/../prepare.sh"
exec "$python" run.py "$@"
