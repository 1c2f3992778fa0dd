# SPDX-License-Identifier: Apache-2.0
"""Terrane for Python: files, data sets, PyTorch and checkpoints on a Terrane cluster.

    import terrane
    cluster = terrane.connect()                    # $TERRANE_CLUSTER, else ./cluster.ini
    with cluster.open("/runs/notes.txt", "wb") as file:
        file.write(b"text")
"""
from ._cluster import Cluster, DirEntry, Packed, Stat, connect
from ._errors import (Busy, ChecksumError, DataLost, Error, Exists, Forbidden, IsADirectory, NoSpace, NotADirectory,
                      NotFound, Stale, TimedOut, Unreachable)
from ._io import LogWriter, RawReader, RawWriter, Reader, Writer
from ._terrane import crc32c, version

__version__ = version()
__all__ = ["Busy", "ChecksumError", "Cluster", "DataLost", "DirEntry", "Error", "Exists", "Forbidden", "IsADirectory",
           "LogWriter", "NoSpace", "NotADirectory", "NotFound", "Packed", "RawReader", "RawWriter", "Reader", "Stale",
           "Stat", "TimedOut", "Unreachable", "Writer", "connect", "crc32c", "version"]

for _class in __all__:  # in messages and pickles the classes have their public names
    if isinstance(globals()[_class], type):
        globals()[_class].__module__ = "terrane"
del _class
