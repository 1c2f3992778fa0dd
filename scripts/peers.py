# SPDX-License-Identifier: Apache-2.0
"""Other systems on this machine, for comparison: temporary MooseFS and GlusterFS, each mounted in a folder.

Both refuse addresses of 127.x, so each gets a network namespace of its own whose only interface is
"lo". Everything is below one folder, in processes that this one started and ends again, by pid.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

READY_S = 30
CLONE_NEWNET = 0x40000000
TICKS = os.sysconf("SC_CLK_TCK")


def await_true(what, condition, seconds=READY_S):
    """Waits until the condition holds, by checking it again and again."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} is not there after {seconds} s")
        time.sleep(0.05)


def cpu_seconds(pids):
    """User and system time of running processes in seconds; 0 for one that has ended."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def drop_caches():
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


class Peer:
    """A filesystem on loopback. Use it in a `with`; `mount` is its mount point."""

    name = ""
    packages = []
    address = ""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.mount = self.folder / "mnt"
        self.processes = []
        self.others = []  # pids of daemons that the processes have started
        self.spent = 0.0  # CPU seconds of clients that have ended

    # ---- defined by each kind of peer

    def start(self):
        raise NotImplementedError

    def stop(self):
        """Stops the filesystem, before its processes are ended."""

    def mounted_by(self):
        """The command that mounts it and runs as long as the mount."""
        raise NotImplementedError

    # ---- shared by all peers

    def __enter__(self):
        self.folder.mkdir(parents=True)
        self.mount.mkdir()
        try:
            self.space = self.spawn_space()
            self.start()
            self.attach()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.detach()
        self.stop()
        for pid in self.others:
            end_pid(pid)
        for process in reversed(self.processes):
            end_process(process)
        self.processes, self.others = [], []
        if not os.path.ismount(self.mount):
            shutil.rmtree(self.folder, ignore_errors=True)

    def spawn_space(self):
        """Starts a process that keeps the network namespace."""
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.processes.append(holder)
        own = os.readlink("/proc/self/ns/net")
        await_true("the namespace", lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own)
        self.space = holder.pid
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "addr", "add", f"{self.address}/32", "dev", "lo")
        return holder.pid

    def inside(self, command):
        return ["nsenter", f"--net=/proc/{self.space}/ns/net", *map(str, command)]

    def run(self, *command, check=True):
        return subprocess.run(self.inside(command), check=check, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)

    def spawn(self, log, *command):
        with open(self.folder / f"{log}.log", "ab") as out:
            process = subprocess.Popen(self.inside(command), stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=out)
        self.processes.append(process)
        return process

    def attach(self):
        self.client = None
        await_true(f"the mount of {self.name}", self.mounted)

    def mounted(self):
        """Restarts the client if it ended because the servers were not ready."""
        if self.client is not None and self.client.poll() is not None:
            self.processes.remove(self.client)
            self.client = None
        if self.client is None:
            self.client = self.spawn("mount", *self.mounted_by())
        return os.path.ismount(self.mount)

    def detach(self):
        if os.path.ismount(self.mount):
            subprocess.run(["umount", self.mount], check=False)
        client = self.__dict__.pop("client", None)
        if client is not None:
            self.spent += cpu_seconds([client.pid])
            end_process(client)
            self.processes.remove(client)

    def forget(self):
        """Empties the caches of the client, by a new mount, and of the system."""
        os.sync()
        self.detach()
        self.attach()
        drop_caches()

    def pids(self):
        return [p.pid for p in self.processes if p.pid != self.space] + self.others

    def cpu(self):
        return self.spent + cpu_seconds(self.pids())


def end_process(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def end_pid(pid):
    """Ends a daemon that is not a child process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await_true("the end", lambda: not Path(f"/proc/{pid}").exists(), 10)
            return
        os.kill(pid, signal.SIGKILL)


MFS_COMMON = "WORKING_USER = root\nWORKING_GROUP = root\nNICE_LEVEL = 0\nDISABLE_OOM_KILLER = 0\n"


class MooseFS(Peer):
    """MooseFS with copies; chunk servers sync before a file is closed."""

    packages = ["moosefs-master", "moosefs-chunkserver", "moosefs-client"]
    address = "10.99.0.1"

    def __init__(self, folder, goal):
        super().__init__(folder)
        self.goal = goal
        self.name = f"MooseFS, {goal} copies"

    def start(self):
        master = self.folder / "master"
        master.mkdir()
        shutil.copy("/var/lib/mfs/metadata.mfs.empty", master / "metadata.mfs")
        (master / "exports.cfg").write_text("* / rw,alldirs,admin,maproot=0:0\n")
        (master / "topology.cfg").write_text("")
        (master / "master.cfg").write_text(
            f"{MFS_COMMON}DATA_PATH = {master}\nEXPORTS_FILENAME = {master}/exports.cfg\n"
            f"TOPOLOGY_FILENAME = {master}/topology.cfg\nMATOML_LISTEN_HOST = {self.address}\n"
            f"MATOCS_LISTEN_HOST = {self.address}\nMATOCL_LISTEN_HOST = {self.address}\n")
        self.spawn("master", "mfsmaster", "-f", "-c", master / "master.cfg", "start")
        for i in range(3):
            self.start_chunkserver(i)

    def start_chunkserver(self, i):
        at = self.folder / f"chunks{i}"
        (at / "data").mkdir(parents=True)
        (at / "disk").mkdir()
        (at / "disks.cfg").write_text(f"{at}/disk\n")
        (at / "chunks.cfg").write_text(
            f"{MFS_COMMON}DATA_PATH = {at}/data\nHDD_CONF_FILENAME = {at}/disks.cfg\n"
            f"HDD_FSYNC_BEFORE_CLOSE = 1\nBIND_HOST = {self.address}\nMASTER_HOST = {self.address}\n"
            f"MASTER_RECONNECTION_DELAY = 1\nCSSERV_LISTEN_HOST = {self.address}\n"
            f"CSSERV_LISTEN_PORT = {9501 + i}\n")
        self.spawn(f"chunks{i}", "mfschunkserver", "-f", "-c", at / "chunks.cfg", "start")

    def mounted_by(self):
        return ["mfsmount", self.mount, "-H", self.address, "-f"]

    def attach(self):
        super().attach()
        self.run("mfssetgoal", "-r", self.goal, self.mount)
        self.run("mfssettrashtime", "-r", 0, self.mount)
        await_true("a chunk server that takes a file", self.takes_a_file)

    def takes_a_file(self):
        """Returns whether a new file has the requested number of copies."""
        probe = self.mount / "probe"
        try:
            probe.write_text("probe")
            told = self.run("mfscheckfile", probe, check=False).stdout
            probe.unlink()
            return f"with {self.goal} copies" in told
        except OSError:
            return False


class GlusterFS(Peer):
    """GlusterFS with copies, or with dispersed volumes, which are erasure-coded."""

    packages = ["glusterfs-server", "glusterfs-client"]
    address = "10.99.0.2"
    kinds = {"replica 3": (["replica", "3"], 3), "dispersed 4+2": (["disperse", "6", "redundancy", "2"], 6)}

    def __init__(self, folder, kind):
        super().__init__(folder)
        self.kind = kind
        self.name = f"GlusterFS, {kind}"

    def gluster(self, *words, check=True):
        return self.run("gluster", "--mode=script", f"--log-file={self.folder}/gluster.log", *words,
                        check=check)

    def start(self):
        for name in ("work", "run"):
            (self.folder / name).mkdir()
        (self.folder / "glusterd.vol").write_text(
            "volume management\n type mgmt/glusterd\n"
            f" option working-directory {self.folder}/work\n option run-directory {self.folder}/run\n"
            " option transport-type socket\n option transport.socket.listen-port 24007\n"
            f" option transport.socket.bind-address {self.address}\n option ping-timeout 0\nend-volume\n")
        self.spawn("glusterd", "glusterd", "-N", "-f", self.folder / "glusterd.vol", "-p",
                   self.folder / "glusterd.pid", "-l", self.folder / "glusterd-own.log", "-L", "ERROR")
        await_true("glusterd", lambda: self.gluster("pool", "list", check=False).returncode == 0)
        words, count = self.kinds[self.kind]
        bricks = []
        for i in range(count):
            (self.folder / f"brick{i}").mkdir()
            bricks.append(f"{self.address}:{self.folder}/brick{i}")
        self.gluster("volume", "create", "v", *words, *bricks, "force")
        for key in ("diagnostics.brick-log-level", "diagnostics.client-log-level"):
            self.gluster("volume", "set", "v", key, "ERROR")
        self.gluster("volume", "start", "v")
        await_true("the bricks", lambda: len(self.find_daemons()) >= count)

    def find_daemons(self):
        """Finds bricks and helpers, which are not child processes, by their pid files below the folder."""
        found = set()
        for path in (self.folder / "run").rglob("*.pid"):
            with contextlib.suppress(ValueError, OSError):
                found.add(int(path.read_text()))
        self.others = sorted(found)
        return self.others

    def stop(self):
        if hasattr(self, "space") and (self.folder / "work").exists():
            self.find_daemons()
            self.gluster("volume", "stop", "v", "force", check=False)

    def mounted_by(self):
        return ["glusterfs", "-N", "-s", self.address, "--volfile-id=v", "-l",
                self.folder / "client.log", self.mount]
