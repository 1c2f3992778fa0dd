# SPDX-License-Identifier: Apache-2.0
"""The exceptions of this package: each is an OSError with the library's words, and has the class of Python's own
exception of that meaning as a base, so that `except FileNotFoundError` works as with local files."""
import errno

from . import _terrane


class Error(OSError):
    """Any error of a call to Terrane. `errno` has the code, `strerror` the words, `filename` the object."""


class NotFound(Error, FileNotFoundError):
    """The file or directory does not exist."""


class Exists(Error, FileExistsError):
    """The name is taken."""


class IsADirectory(Error, IsADirectoryError):
    """The path names a directory."""


class NotADirectory(Error, NotADirectoryError):
    """A part of the path is not a directory."""


class Forbidden(Error, PermissionError):
    """The tenant is not allowed to do that."""


class TimedOut(Error, TimeoutError):
    """The timeout of the call passed; a change may still be executed."""


class Unreachable(Error, ConnectionError):
    """No metadata server answers."""


class ChecksumError(Error):
    """The bytes do not have the checksum that they were stored with."""


class DataLost(Error):
    """Too few chunks are left or reachable to read the bytes."""


class Stale(Error):
    """Another writer took over the log, or the file belongs to the parent process."""


class NoSpace(Error):
    """The cluster is full, has too few disks, or the quota is used up."""


class Busy(Error, BlockingIOError):
    """The object is in use, or the budget of reconstruction is used up: try again later."""


_CLASSES = {
    errno.ENOENT: NotFound,
    errno.EEXIST: Exists,
    errno.EISDIR: IsADirectory,
    errno.ENOTDIR: NotADirectory,
    errno.EACCES: Forbidden,
    errno.EPERM: Forbidden,
    errno.ETIME: TimedOut,
    errno.EHOSTUNREACH: Unreachable,
    errno.ECONNREFUSED: Unreachable,
    errno.ETIMEDOUT: Unreachable,
    errno.EBADMSG: ChecksumError,
    errno.ENODATA: DataLost,
    errno.ESTALE: Stale,
    errno.ENOSPC: NoSpace,
    errno.EDQUOT: NoSpace,
    errno.EBUSY: Busy,
    errno.EAGAIN: Busy,
}


def make(code, text, name=None):
    """The exception of an error code of the library."""
    kind = _CLASSES.get(code, Error)
    return kind(code, text) if name is None else kind(code, text, name)


_terrane.set_error_maker(make)
