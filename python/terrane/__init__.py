# SPDX-License-Identifier: Apache-2.0
"""Terrane for Python: files, data sets, PyTorch and checkpoints on a Terrane cluster.

    import terrane
    cluster = terrane.connect()                    # $TERRANE_CLUSTER, else ./cluster.ini
    with cluster.open("/runs/notes.txt", "wb") as file:
        file.write(b"text")
"""
import importlib

from ._build import build
from ._cluster import Cluster, DirEntry, Packed, Stat, connect
from ._errors import (Busy, ChecksumError, DataLost, Error, Exists, Forbidden, IsADirectory, NoSpace, NotADirectory,
                      NotFound, Stale, TimedOut, Unreachable)
from ._io import LogWriter, RawReader, RawWriter, Reader, Writer
from ._terrane import PlacementModel, crc32c, version

__version__ = version()
# what needs numpy is imported when it is used first
_LAZY = {"Batch": "_dataset", "Dataset": "_dataset", "Sample": "_dataset", "Loader": "_loader",
         "merge_states": "_loader",
         "Mix": "_sources", "Subset": "_sources"}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'terrane' has no attribute {name!r}")
    value = getattr(importlib.import_module("." + _LAZY[name], __name__), name)
    value.__module__ = "terrane"
    globals()[name] = value
    return value


__all__ = ["Batch", "Busy", "ChecksumError", "Cluster", "DataLost", "Dataset", "DirEntry", "Error", "Exists",
           "Forbidden", "IsADirectory", "Loader", "LogWriter", "Mix", "NoSpace", "NotADirectory", "NotFound", "Packed",
           "PlacementModel", "RawReader", "RawWriter", "Reader", "Sample", "Stale", "Stat", "Subset", "TimedOut",
           "Unreachable", "Writer", "build", "connect", "crc32c", "merge_states", "version"]

for _class in __all__:  # in messages and pickles the classes have their public names
    if isinstance(globals().get(_class), type):
        globals()[_class].__module__ = "terrane"
del _class
