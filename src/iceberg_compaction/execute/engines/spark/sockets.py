"""How Spark's JVM and the Python processes of a local master talk to each other: through sockets in a folder that is
this user's alone. Over TCP their small messages wait for acknowledgements of one another, 40 ms in every task."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_ENABLED, _FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
_NAME = len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
_LONGEST = 103  # bytes of a socket's path; some systems allow a few more
_conf: dict[str, str] = {}  # of this process's JVM, which remembers for good where it had its first sockets


def conf(*, fresh: bool) -> dict[str, str]:
    """What Spark must be told; nothing where temporary files have names too long for sockets, or where others have
    started the JVM."""
    if fresh:
        _conf.clear()
        folder = tempfile.mkdtemp(prefix="spark-")
        if len(os.fsencode(folder)) + _NAME <= _LONGEST:
            _conf.update({_ENABLED: "true", _FOLDER: folder})
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        else:
            os.rmdir(folder)
    return dict(_conf)
