"""Whether a file is on another machine, where more than one may have it open."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import psutil

from app import regular_file

_NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "smb2", "afpfs", "webdav", "ncpfs"),
        *("9p", "virtiofs", "vboxsf", "prl_fs", "fuse.vmhgfs-fuse"),
        *("afs", "auristorfs", "beegfs", "fhgfs", "ceph", "fuse.ceph-fuse", "coda", "gfs2", "fuse.glusterfs"),
        *("gpfs", "lustre", "ocfs2", "orangefs", "panfs", "pvfs2", "fuse.sshfs", "fuse.rclone", "osxfuse", "macfuse"),
    )
)
"""Types of file systems over a network, of clusters, and between a virtual machine and its host, by the names that
Linux and macOS have for them."""
_SHARE, _LITERAL, _LITERAL_SHARE = "\\\\", ("\\\\?\\", "\\\\.\\"), "\\\\?\\UNC\\"
"""How Windows begins the name of a share, one that is taken as it stands, and one of a share that is."""


def is_on_network(file: Path) -> bool:
    """Whether it is, as far as the system tells."""
    folder = regular_file.resolved(file).parent
    if sys.platform == "win32":
        # A letter that stands for a share is resolved to that.
        drive = folder.drive.upper()
        return drive.startswith(_LITERAL_SHARE) or (drive.startswith(_SHARE) and not drive.startswith(_LITERAL))
    with suppress(OSError, RuntimeError, psutil.Error):
        mounted = [part for part in psutil.disk_partitions(all=True) if folder.is_relative_to(part.mountpoint)]
        # Of two in one place the later one covers the other.
        return bool(mounted) and max(reversed(mounted), key=lambda part: len(part.mountpoint)).fstype in _NETWORK
    return False
