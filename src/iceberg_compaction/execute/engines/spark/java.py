"""Makes sure of a Java that Spark can run on before Spark tries, because its own message is a page of shell output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST, NEWEST = 17, 21
_ADVICE = f"install a JDK {OLDEST} or {NEWEST} and let JAVA_HOME point to it"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_TIMEOUT_SECONDS = 60


def check_java(environ: Mapping[str, str] = os.environ) -> None:
    """Raises ConfigError unless JAVA_HOME, or else the PATH, has a Java that this Spark supports."""
    java = find(environ)
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise errors.SetupError(f"Spark needs Java, but {java} does not run; {_ADVICE}.") from error
    match = _VERSION.search(output)
    if match is None or not OLDEST <= int(match[1]) <= NEWEST:
        version = f"is Java {match[1]}" if match else "does not say its version"
        raise errors.SetupError(f"Spark needs Java {OLDEST} or {NEWEST}, but {java} {version}; {_ADVICE}.")


def find(environ: Mapping[str, str] = os.environ) -> str:
    """The java command that Spark would start. ConfigError: there is none."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.exists():
            raise errors.SetupError(f"Spark needs Java, but JAVA_HOME ({home}) has no bin/java; {_ADVICE}.")
        return str(java)
    command = shutil.which("java", path=environ.get("PATH"))
    if command is None:
        raise errors.SetupError(f"Spark needs Java, but JAVA_HOME is not set and there is no java command; {_ADVICE}.")
    return command
