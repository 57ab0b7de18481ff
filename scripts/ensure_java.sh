#!/bin/sh
# Makes sure of a Java that Spark 4.1 runs on (17 or 21) and prints its home. Looks at JAVA_HOME, then at `java`, then
# where systems keep their JDKs; else installs one where it may; else says in one sentence what to do.
set -eu
here=$(dirname "$0")

# Asks the launcher itself: a stub such as macOS's /usr/bin/java or a chain of links tells nothing by its path.
home_if_fit() {
    told=$("$1" -XshowSettings:properties -version 2>&1) || return 1
    version=$(printf '%s\n' "$told" | sed -n 's/^ *java\.specification\.version = //p')
    home=$(printf '%s\n' "$told" | sed -n 's/^ *java\.home = //p')
    case $version in 17 | 21) [ -n "$home" ] && printf '%s\n' "$home" ;; *) return 1 ;; esac
}

find_java() {
    if [ -n "${JAVA_HOME:-}" ] && home_if_fit "$JAVA_HOME/bin/java"; then return 0; fi
    if command -v java >/dev/null 2>&1 && home_if_fit java; then return 0; fi
    for launcher in /usr/lib/jvm/*/bin/java /opt/java/*/bin/java /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java \
        /opt/homebrew/opt/openjdk@*/bin/java /usr/local/opt/openjdk@*/bin/java; do
        if [ -x "$launcher" ] && home_if_fit "$launcher"; then return 0; fi
    done
    return 1
}

if find_java; then exit 0; fi
for release in 17 21; do
    # Debian 13 has no 17 any more, Debian 12 no 21: whichever the system offers.
    if "$here/system_package.sh" "openjdk-$release-jre-headless" "java-$release-openjdk-headless" \
        "openjdk$release-jre-headless" "openjdk@$release" && find_java; then exit 0; fi
done
echo "error: Spark needs Java 17 or 21, which was not found and could not be installed;" \
    "install a JDK 17 (for example apt-get install openjdk-17-jre-headless) or set JAVA_HOME" >&2
exit 1
