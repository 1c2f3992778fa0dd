# SPDX-License-Identifier: Apache-2.0
"""Building data sets from Python: from files, and from samples that a program makes."""
import io
import os
import tarfile
import tempfile

from . import _terrane
from ._cluster import Cluster, _path, connect

TAR_BYTES = 1 << 30
LABEL = "cls"


def build(source, path, *, cluster=None, kind=None, append=False, seed=0, shard_bytes=0, sha256=False, temp=None, **options):
    """Builds a data set at `path`, or with append its next version. Returns a dict: version, samples, bytes.

    source is the path of a folder, a tar file or a file of JSON lines, as for `terrane dataset build`; or an iterable of
    samples. A sample is a dict: its parts, bytes by name, and "__key__", and its label as the part "cls", a number or a
    name. Samples of an iterable wait in tar files in the folder temp, because they are packed in shuffled order; they need
    room there once. A build from files that was interrupted goes on when it is called again.

    options are those of `Cluster.open`: encoding, block_bytes, media.

    >>> import terrane
    >>> cluster = getfixture()
    >>> squares = ({"__key__": f"{i:04}", "txt": b"%d" % (i * i), "cls": i % 2} for i in range(50))
    >>> path = f"/doc/squares-{os.getpid()}-{len(cluster.listdir('/doc'))}"
    >>> terrane.build(squares, path, cluster=cluster)["samples"]
    50
    >>> data = terrane.Dataset(path, cluster=cluster)
    >>> number = data.keys(range(50)).index("0007")
    >>> bytes(data.read([number]).parts()[0]["txt"]), data[number].label
    (b'49', 1)
    """
    cluster = cluster if cluster is not None else connect()
    if not isinstance(cluster, Cluster):
        raise TypeError(f"cluster must be a terrane.Cluster, not {type(cluster).__name__}")
    rest = (_path(path), append, seed, shard_bytes, sha256, None if temp is None else _path(temp), options or None)
    if isinstance(source, (str, bytes, os.PathLike)):
        return _terrane.build(cluster._handle, _path(source), kind, *rest)
    if kind is not None:
        raise ValueError("kind is for sources that are files")
    with tempfile.TemporaryDirectory(prefix="terrane-build-", dir=temp) as folder:
        _spool(source, folder)
        return _terrane.build(cluster._handle, folder, "tar", *rest)


def _spool(samples, folder):
    """Writes samples to tar files."""
    tar, number, last = None, 0, None
    try:
        for count, sample in enumerate(samples):
            key, parts = _parts(sample, count)
            if key == last:
                raise ValueError(f"two samples in a row have the key {key!r}")
            if tar is None or tar.offset >= TAR_BYTES:
                if tar is not None:
                    tar.close()
                tar = tarfile.open(os.path.join(folder, f"{number:06}.tar"), "w", format=tarfile.GNU_FORMAT)
                number += 1
            for name, data in parts:
                info = tarfile.TarInfo(f"{key}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            last = key
    finally:
        if tar is not None:
            tar.close()


def _parts(sample, count):
    """The key and the parts of a sample, checked."""
    if not isinstance(sample, dict):
        raise TypeError(f"a sample must be a dict, not {type(sample).__name__}")
    key = sample.get("__key__", f"{count:012}")
    if not isinstance(key, str) or not key or "." in key.rsplit("/", 1)[-1] or "\0" in key:
        raise ValueError(f"__key__ must be a text without a dot in its last part, not {key!r}")
    parts = []
    for name, data in sample.items():
        if name == "__key__":
            continue
        if name == LABEL and isinstance(data, (int, str)):
            data = str(data).encode()
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"sample {key}: {name!r} is not a name of a part")
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"sample {key}: the part {name} must be bytes, not {type(data).__name__}")
        parts.append((name, bytes(data)))
    if not parts:
        raise ValueError(f"sample {key} has no parts")
    return key, parts
