# SPDX-License-Identifier: Apache-2.0
"""Power loss for a cluster of real processes: a drive that remembers writes and flushes, and what is left of it.

    drive = Drive(folder, histories)
    with drive.running():
        ... a cluster below drive.mount; clients write histories outside of it ...
    for cut in drive.cuts(chance, count):
        with drive.after(cut):
            ... start the cluster again; cut.history_bytes says how much of each history had been written ...

The drive is a file of a FUSE filesystem (tests/tools/power_disk.c) below a loop device with ext4, so processes,
filesystem and kernel are real. After a cut the drive has all writes before the last flush, and of those after it
none, or a random part with a write torn between two sectors.
"""
import os
import shutil
import struct
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from box import BUILD, MIB, await_true

TOOL = BUILD / "release" / "tests" / "tools" / "power_disk"
RECORD = struct.Struct("<IIQ4Q")  # struct record of power_disk.c
WRITE, FLUSH = 1, 2
SECTOR = 512
DISK_BYTES = 512 * MIB
HISTORY_LEAST = 1000  # bytes of every history before the first cut


def missing():
    """Why this machine cannot run the drive, or None."""
    if os.geteuid() != 0:
        return "needs root"
    for path in ("/dev/fuse", "/dev/loop-control"):
        if not Path(path).exists():
            return f"needs {path}"
    tools = [tool for tool in ("losetup", "mkfs.ext4", "fusermount3") if shutil.which(tool) is None]
    return f"needs {', '.join(tools)}" if tools else None


def command(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout.strip()


@contextmanager
def mounted(file, folder):
    """Mounts the filesystem in a file."""
    device = command("losetup", "--find", "--show", file)
    try:
        command("mount", "-t", "ext4", "-o", "noatime,commit=300", device, folder)
        try:
            yield
        finally:
            # The kernel closes the files of a killed process after the process has ended.
            await_true(f"the end of all uses of {folder}", lambda: subprocess.run(
                ["umount", folder], capture_output=True, check=False).returncode == 0)
    finally:
        command("losetup", "--detach", device)


def end(server, fuse):
    """Ends the server of a drive. The kernel detaches a loop device, and then lets go of its file, some time after losetup
    has ended."""
    try:
        await_true("the end of all uses of the drive", lambda: subprocess.run(
            ["fusermount3", "-u", fuse], capture_output=True, check=False).returncode == 0)
        assert server.wait(timeout=60) == 0
    except BaseException:
        server.kill()
        subprocess.run(["fusermount3", "-u", "-z", fuse], capture_output=True, check=False)
        raise


@dataclass
class Request:
    """A write or a flush in the log of the drive; `at` is where the bytes of a write are."""
    kind: int
    length: int
    offset: int
    history_bytes: tuple
    at: int


@dataclass
class Cut:
    """Power is lost before request `index` arrives. `kept` of the writes since the last flush are on the drive."""
    index: int
    kept: list
    history_bytes: tuple

    def __str__(self):
        return f"cut before request {self.index}, {len(self.kept)} writes kept since the flush"


class Drive:
    def __init__(self, folder, histories):
        self.folder, self.histories = Path(folder), [Path(h) for h in histories]
        self.mount, self.log = self.folder / "mnt", self.folder / "log"
        self.base, self.applied = self.folder / "base", 0  # the drive with all requests before this one
        self.requests = []

    @contextmanager
    def running(self):
        """Serves the drive, with an empty filesystem below `mount`; then reads its log."""
        fuse, backing = self.folder / "fuse", self.folder / "backing"
        for folder in (self.mount, fuse):
            folder.mkdir(parents=True)
        with subprocess.Popen([TOOL, fuse, str(DISK_BYTES), backing, self.log, *self.histories],
                              stdin=subprocess.DEVNULL) as server:
            try:
                disk = fuse / "disk"
                await_true("the drive", lambda: server.poll() is not None or disk.exists(), 60)
                command("mkfs.ext4", "-q", "-F", "-E", "nodiscard", disk)
                with mounted(disk, self.mount):
                    yield self
            finally:
                end(server, fuse)
        backing.unlink()
        self.requests = list(self.read_log())
        with open(self.base, "xb") as base:
            base.truncate(DISK_BYTES)

    def read_log(self):
        size, at = self.log.stat().st_size, 0
        with open(self.log, "rb") as log:
            while at < size:
                kind, length, offset, *history = RECORD.unpack(log.read(RECORD.size))
                at += RECORD.size
                yield Request(kind, length, offset, tuple(history[:len(self.histories)]), at)
                at += length
                log.seek(at)

    def cuts(self, chance, count):
        """Draws moments at which power is lost, in order. Most are just after a client was told something, with nothing
        kept that was not flushed: a missing flush shows there."""
        first = next(i for i, r in enumerate(self.requests) if min(r.history_bytes) >= HISTORY_LEAST)
        told = [i for i in range(first + 1, len(self.requests))
                if self.requests[i].history_bytes != self.requests[i - 1].history_bytes]
        assert told, "no client was told anything"
        drawn = {chance.choice(told) if chance.random() < 0.7 else chance.randrange(first, len(self.requests))
                 for _ in range(count)}
        for index in sorted(drawn):
            yield Cut(index, self.draw_kept(chance, index), self.requests[index].history_bytes)

    def unflushed(self, index):
        """The indices of the writes since the last flush before a request."""
        start = index
        while start > 0 and self.requests[start - 1].kind != FLUSH:
            start -= 1
        return [i for i in range(start, index)]

    def draw_kept(self, chance, index):
        """Draws [(request, bytes of it)] of the writes since the last flush."""
        writes = self.unflushed(index)
        if chance.random() < 0.5:
            return []
        share = chance.random()
        kept = [(i, self.requests[i].length) for i in writes if chance.random() < share]
        if kept and chance.random() < 0.3:
            torn = chance.randrange(len(kept))
            i, length = kept[torn]
            kept[torn] = (i, chance.randrange(length // SECTOR + 1) * SECTOR)
        return kept

    def write(self, target, log, index, length):
        request = self.requests[index]
        log.seek(request.at)
        target.seek(request.offset)
        target.write(log.read(length))

    @contextmanager
    def after(self, cut):
        """Mounts what the drive has after the cut. Cuts come in order."""
        flushed = cut.index - len(self.unflushed(cut.index))
        assert self.applied <= flushed
        image = self.folder / "image"
        with open(self.log, "rb") as log:
            with open(self.base, "r+b") as base:
                for i in range(self.applied, flushed):
                    if self.requests[i].kind == WRITE:
                        self.write(base, log, i, self.requests[i].length)
            self.applied = flushed
            command("cp", "--sparse=always", self.base, image)
            with open(image, "r+b") as target:
                for index, length in cut.kept:
                    self.write(target, log, index, length)
        with mounted(image, self.mount):
            yield
        image.unlink()

    def histories_at(self, cut, folder):
        """Copies of the histories as far as they had been written."""
        copies = []
        for path, length in zip(self.histories, cut.history_bytes):
            copies.append(Path(folder) / path.name)
            with open(path, "rb") as file:
                copies[-1].write_bytes(file.read(length))
        return copies
