"""Copies that the kernel makes by itself: bytes do not pass through this process, and file systems that can share
blocks do not even copy them."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE = 2**30
# What kernels and file systems answer that cannot do it
_REFUSALS = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSOCK, errno.EPERM)


def copy(source: int, target: int, start: int, length: int) -> int:
    """Append bytes of one open file to another. Returns how many; fewer than asked for, where it cannot go on."""
    ways: list[Callable[[int, int], int]] = []
    if hasattr(os, "copy_file_range"):
        ways.append(lambda at, count: os.copy_file_range(source, target, count, at))
    if hasattr(os, "sendfile"):
        ways.append(lambda at, count: os.sendfile(target, source, at, count))
    done = 0
    for way in ways:
        try:
            while done < length and (count := way(start + done, min(_AT_ONCE, length - done))):
                done += count
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
    return done
