# SPDX-License-Identifier: Apache-2.0
"""./dev demo: shows Terrane at work in about a minute."""
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from common import BUILD

TERRANE = BUILD / "terrane"
MIB = 1 << 20
SHARDS, SHARD_BYTES = 24, 8 * MIB     # a data set of large files
IMAGES, IMAGE_BYTES = 1500, 60 * 1024  # a data set of small files
READERS = 4
CACHED_SHARDS = 8
REPAIR_SECONDS_MAX = 90
SEED = 7
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def say(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def show(*words):
    print("  $ terrane " + " ".join(str(w) for w in words), flush=True)


class Demo:
    def __init__(self, folder):
        self.folder = folder
        self.box = folder / "cluster"
        self.second = folder / "second"
        self.env = {**os.environ, "TERRANE_CLUSTER": str(self.box / "cluster.ini")}
        self.rates = []

    def terrane(self, *words, ok=(0,), shown=True, out=subprocess.PIPE):
        if shown:
            show(*words)
        done = subprocess.run([TERRANE, *map(str, words)], env=self.env, stdout=out,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode not in ok:
            raise RuntimeError(f"terrane {words[0]} failed: {done.stderr}")
        return done

    def measured(self, what, *words):
        """Runs a transfer and records its rate."""
        answer = json.loads(self.terrane(*words, "-q", "--json").stdout)
        seconds = max(answer["seconds"], 1e-3)
        self.rates.append((what, answer["files"], answer["bytes"], seconds))
        print(f"    {answer['files']} files, {answer['bytes'] / MIB:.0f} MiB in {seconds:.1f} s, "
              f"{answer['bytes'] / MIB / seconds:.0f} MiB/s")
        return answer

    # ---- the acts

    def start(self):
        say("1. A cluster on this machine: 7 racks, each a process with two disks that are as fast as NVMe "
            "drives.")
        words = ["up", "--dir", self.box, "--racks", 7, "--disks", 2, "--emulate", "nvme", "--procs"]
        print("".join(f"    {line}\n" for line in self.terrane(*words).stdout.splitlines()[:4]), end="")

    def make_data(self):
        say(f"2. A data set: {SHARDS} shards of {SHARD_BYTES // MIB} MiB, as training on text has, and {IMAGES} "
            f"small files, as training on images has.")
        chance = random.Random(SEED)
        (self.folder / "set" / "shards").mkdir(parents=True)
        (self.folder / "set" / "images").mkdir()
        for i in range(SHARDS):
            (self.folder / "set" / "shards" / f"shard-{i:03}").write_bytes(chance.randbytes(SHARD_BYTES))
        for i in range(IMAGES):
            (self.folder / "set" / "images" / f"image-{i:05}").write_bytes(
                chance.randbytes(chance.randrange(1, 2 * IMAGE_BYTES)))
        print("  Each block of 64 MiB becomes 4 data chunks and 2 parities (rs:4+2) on disks of different racks;\n"
              "  small files share blocks. Any two racks may be lost.")
        self.measured("store", "put", self.folder / "set", "/set")

    def reader(self, number, out, errors):
        """Reads a part of the data set as a training process does, in another order in each epoch."""
        names = [f"/set/shards/shard-{i:03}" for i in range(SHARDS)]
        random.Random(SEED + number).shuffle(names)
        mine = names[number::READERS]
        done = subprocess.run([TERRANE, "get", "-q", "--json", *mine, f"{out}/"], env=self.env, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            errors.append(done.stderr)

    def epoch(self, what, trouble=None):
        out = self.folder / f"epoch-{len(self.rates)}"
        errors, start = [], time.monotonic()
        for number in range(READERS):
            (out / str(number)).mkdir(parents=True)
        threads = [threading.Thread(target=self.reader, args=(n, out / str(n), errors)) for n in range(READERS)]
        for thread in threads:
            thread.start()
        if trouble is not None:
            trouble()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - start
        if errors:
            raise RuntimeError(errors[0])
        total = self.compare(out)
        self.rates.append((what, total // SHARD_BYTES, total, seconds))
        print(f"    {READERS} readers, {total / MIB:.0f} MiB in {seconds:.1f} s, "
              f"{total / MIB / seconds:.0f} MiB/s; every byte compared")
        shutil.rmtree(out)

    def compare_with(self, out):
        """Compares the shards in a folder with those that were stored. Returns their bytes."""
        total = 0
        for path in out.iterdir():
            data = path.read_bytes()
            if data != (self.folder / "set" / "shards" / path.name).read_bytes():
                raise RuntimeError(f"{path.name} has other bytes than were stored")
            total += len(data)
        return total

    def compare(self, out):
        return sum(self.compare_with(out / str(number)) for number in range(READERS))

    def train(self):
        say(f"3. {READERS} training processes read the shards, each its own part.")
        self.epoch("read, all well")

    def harm(self):
        pid = int((self.box / "run" / "node-2.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        print(f"    kill -9 {pid}: the node of rack 2 is offline")
        flipped = 0
        for path in sorted((self.box / "disks" / "node-5").glob("*/chunks/*/*")):
            if path.is_file() and path.stat().st_size > MIB:
                with open(path, "r+b") as file:
                    file.seek(path.stat().st_size // 2)
                    byte = file.read(1)
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes([byte[0] ^ 0x10]))
                flipped += 1
        print(f"    {flipped} bits flipped in the files of the disks of rack 5")

    def suffer(self):
        say("4. They read again while a node is killed and bits flip on the disks of another node.")
        self.epoch("read, harmed", self.harm)
        print("  The chunks on the killed node and the damaged chunks were computed from the others.")

    def small_files(self):
        say("5. The small files, all of them, while the node is away.")
        self.measured("fetch small files", "get", "/set/images", self.folder / "images")
        for path in (self.folder / "images").iterdir():
            if path.read_bytes() != (self.folder / "set" / "images" / path.name).read_bytes():
                raise RuntimeError(f"{path.name} has other bytes than were stored")
        print("    every byte compared")

    def fsck(self, *words, shown=True):
        n = json.loads(self.terrane("fsck", *words, "--json", "-q", shown=shown).stdout)
        if n["lost"] + n["out_of_reach"] + n["broken_files"] != 0:
            raise RuntimeError("data was lost")
        return n

    def heal(self):
        say("6. The node does not come back. It is taken out, and all chunks are read for what else is bad.")
        self.terrane("node", "remove", 2, "--force")
        n = self.fsck("--deep")
        print(f"    {n['blocks']} blocks: {n['healthy']} healthy, {n['degraded']} degraded, {n['lost']} lost; "
              f"of their chunks {n['missing'] + n['unreachable']} are missing, {n['damaged']} damaged")
        print("  The janitor rebuilds them from the others, on other disks:")
        start, left = time.monotonic(), n["degraded"]
        while left > 0 and time.monotonic() - start < REPAIR_SECONDS_MAX:
            time.sleep(1)
            now = self.fsck(shown=False)["degraded"]
            if now < left:
                print(f"    {time.monotonic() - start:4.0f} s  {now} blocks to repair", flush=True)
            left = now
        n = self.fsck("--deep")
        print(f"    {n['blocks']} blocks: {n['healthy']} healthy, {n['degraded']} degraded, {n['lost']} lost")
        if n["degraded"] != 0:
            raise RuntimeError("fsck still finds degraded blocks")
        # The status shows the janitor's last count of blocks, which may be older than the repair.
        while self.terrane("status", shown=False, ok=(0, 1)).returncode != 0:
            if time.monotonic() - start > REPAIR_SECONDS_MAX:
                raise RuntimeError("terrane status does not report that all is well")
            time.sleep(1)
        print("".join(f"    {line}\n" for line in self.terrane("status").stdout.splitlines()[:9]), end="")

    def disk_bytes(self, box, nodes):
        """Bytes that the emulated disks of a cluster have read and written."""
        total = 0
        for number in range(1, nodes + 1):
            lines = (box / "conf" / f"node-{number}.ini").read_text().splitlines()
            addr = next(line.split("=")[1].strip() for line in lines if line.startswith("metrics"))
            with urllib.request.urlopen(f"http://{addr}/metrics", timeout=60) as answer:
                total += sum(float(line.rpartition(" ")[2]) for line in answer.read().decode().splitlines()
                             if line.startswith("terrane_disk_bytes_total{"))
        return total

    def flash(self):
        say(f"7. Another cluster: three nodes with disks as slow as hard disks, and a cache node with flash in front of\n"
            f"   them. Two training jobs read the same {CACHED_SHARDS} shards, one after the other.")
        self.terrane("up", "--dir", self.second, "--nodes", 3, "--disks", 1, "--encoding", "r2", "--emulate", "hdd",
                     "--cache-nodes", 1, "--cache-flash", "256MiB")
        with open(self.second / "cluster.ini", "a", encoding="utf-8") as file:
            file.write("[cache]\ntimeout = 10s\n")  # other work on this machine makes nodes slow
        where = ["--cluster", self.second / "cluster.ini"]
        names = [f"shard-{i:03}" for i in range(CACHED_SHARDS)]
        self.terrane("put", *where, "-q", *(self.folder / "set" / "shards" / name for name in names), "/")
        disks = []
        for job in (1, 2):
            out, before = self.folder / f"job-{job}", self.disk_bytes(self.second, 3)
            out.mkdir()
            self.measured(f"job {job}, cache node", "get", *where, *(f"/{name}" for name in names), f"{out}/")
            disks.append(self.disk_bytes(self.second, 3) - before)
            print(f"    the emulated disks moved {disks[-1] / MIB:.0f} MiB; "
                  f"{self.compare_with(out) / MIB:.0f} MiB compared")
        print(f"  The second job was served by the cache node: {(disks[0] - disks[1]) / MIB:.0f} of "
              f"{disks[0] / MIB:.0f} MiB of disk I/O saved.")
        print("".join(f"    {line}\n" for line in self.terrane("cache", "status", *where).stdout.splitlines()), end="")
        self.terrane("down", "--dir", self.second, shown=False)
        if disks[1] > 0.9 * disks[0]:
            raise RuntimeError("the cache node saved no disk I/O")

    def table(self):
        say("8. What was moved")
        print(f"    {'':22} {'files':>7} {'MiB':>7} {'seconds':>8} {'MiB/s':>7}")
        for what, files, size, seconds in self.rates:
            print(f"    {what:22} {files:7} {size / MIB:7.0f} {seconds:8.1f} {size / MIB / seconds:7.0f}")

    def train_from_python(self):
        if importlib.util.find_spec("torch") is None:
            say("9. Training from Python is left out: python3-torch is not installed (./dev deps python).")
            return
        say("9. A network trains from Python on images in the cluster, stops in the middle of an epoch, and resumes.")
        words = [BUILD.parent / "examples" / "train.py", "--terrane", TERRANE]
        print("  $ PYTHONPATH=build/python python3 examples/train.py", flush=True)
        done = subprocess.run([sys.executable, "-B", *words], env={**self.env, "PYTHONPATH": str(BUILD / "python")},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print("".join(f"    {line}\n" for line in done.stdout.splitlines()), end="")
        if done.returncode != 0:
            raise RuntimeError("the training from Python failed")

    def stop(self):
        for box in (self.box, self.second):
            if (box / "box.ini").exists():
                self.terrane("down", "--dir", box, shown=False, ok=(0, 1))

    def run(self):
        start = time.monotonic()
        for act in (self.start, self.make_data, self.train, self.suffer, self.small_files, self.heal, self.flash,
                    self.table, self.train_from_python):
            act()
        self.stop()
        say(f"No process is left, no data was lost, and all data was stored with full redundancy. {time.monotonic() - start:.0f} s.")
        print("  A cluster of your own: build/terrane up --dir DIR; build/terrane help")


def perform(demo):
    """Runs the demo in a process group of its own, in which all its commands are."""
    os.setpgid(0, 0)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*SIGNALS, signal.SIGCHLD})
    try:
        demo.run()
        return 0
    except RuntimeError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1


def main():
    # The signals wait until this process can end what it starts: it ends the group, stops the cluster, removes the folder.
    signal.pthread_sigmask(signal.SIG_BLOCK, {*SIGNALS, signal.SIGCHLD})
    folder = Path(tempfile.mkdtemp(prefix="terrane-demo-"))
    demo = Demo(folder)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = perform(demo)
        sys.stdout.flush()
        os._exit(status)
    try:
        os.setpgid(pid, pid)
    except (ProcessLookupError, PermissionError):
        pass  # the child did it
    number = signal.sigwait({*SIGNALS, signal.SIGCHLD})
    status = 128 + number
    if number == signal.SIGCHLD:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    demo.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
