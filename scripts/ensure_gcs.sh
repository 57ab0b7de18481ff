#!/bin/sh
# Makes sure of fake-gcs-server, which plays Google's object store in tests, and prints its program. Looks at
# FAKE_GCS_SERVER, then at the path, then in the user's cache; else builds it there with Go; else says what is skipped and
# prints nothing.
set -eu
version=v1.56.1
home="${XDG_CACHE_HOME:-$HOME/.cache}/iceberg-compaction-tools/fake-gcs-server-$version"

for name in "${FAKE_GCS_SERVER:-}" fake-gcs-server "$home/fake-gcs-server"; do
    if [ -n "$name" ] && command -v "$name"; then exit 0; fi
done
if command -v go >/dev/null 2>&1; then
    echo "Building fake-gcs-server $version into $home ..." >&2
    if GOBIN="$home" go install "github.com/fsouza/fake-gcs-server@$version" >&2; then
        echo "$home/fake-gcs-server"
        exit 0
    fi
fi
echo "There is no fake-gcs-server, and it could not be built: the tests on gs:// are skipped" \
    "(go install github.com/fsouza/fake-gcs-server@$version, or set FAKE_GCS_SERVER)" >&2
