"""Whether a file lies on a network file system, where the locks and the shared memory of SQLite do not hold between
machines: two runs would damage the file."""

from __future__ import annotations

import os
from pathlib import Path

from iceberg_compaction import errors

_MOUNTS = Path("/proc/self/mounts")
_NETWORK = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "ocfs2", "smb3", "smbfs")
)
# Of those in user space, all others may be on a network, or in an object store.
_LOCAL_FUSE = frozenset(
    ("bindfs", "encfs", "ecryptfs", "fuse-overlayfs", "gocryptfs", "lxcfs", "mergerfs", "ntfs-3g", "securefs")
)


def check_local(file: Path, mounts: str | None = None) -> None:
    """ConfigError: the file would lie on a network file system."""
    kind = network_kind(file, _mounts() if mounts is None else mounts)
    if kind is not None:
        raise errors.ConfigError(
            f"The run store {file} would lie on a network file system ({kind}), where SQLite's locks do not hold; "
            "choose a file on a local disk, or a server: --store postgresql://…, redis://… or etcd://…."
        )


def network_kind(file: Path, mounts: str) -> str | None:
    """The file system's kind if it is one of a network. `mounts`: as in /proc/self/mounts."""
    path = os.path.realpath(file)
    longest, kind = "", ""
    for line in mounts.splitlines():
        _, folder, name, *_ = line.split(" ")
        folder = folder.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        is_above = path == folder or path.startswith(folder.rstrip("/") + "/")
        if is_above and len(folder) >= len(longest):  # a later mount hides an earlier one
            longest, kind = folder, name
    base, _, program = kind.partition(".")
    if base in _NETWORK or (base == "fuse" and program not in _LOCAL_FUSE):
        return kind
    return None


def _mounts() -> str:
    try:
        return _MOUNTS.read_text(errors="replace")
    except OSError:  # another system
        return ""
