#!/bin/sh
# Makes sure of a Chromium for the tests that look at the report, and prints its program. Looks at CHROMIUM, then at the
# usual names; else installs one where it may; else says what is skipped and prints nothing.
set -eu
here=$(dirname "$0")

find_browser() {
    for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable chrome; do
        if [ -n "$name" ] && command -v "$name"; then return 0; fi
    done
    return 1
}

if find_browser; then exit 0; fi
if "$here/system_package.sh" chromium chromium chromium "" && find_browser; then exit 0; fi
echo "There is no Chromium, and it could not be installed: the tests that look at the report are skipped" \
    "(apt-get install chromium, or set CHROMIUM)" >&2
