# SPDX-License-Identifier: Apache-2.0
"""A cluster of real processes for the tests: `terrane up` in a folder, stopped at the end and checked for leftovers."""
import json
import os
import random
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[2] / "build"
TERRANE = BUILD / "terrane"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LAST_LINES = 12  # of each log, printed with a failure

LONG = pytest.mark.skipif("TERRANE_LONG" not in os.environ,
                          reason="takes minutes and 35 GiB: TERRANE_LONG=1 ./dev test blackbox")


def run(*words, timeout=120, under=(), **options):
    """Runs `terrane` to its end; returns its output as text. `under` is a command that runs another one."""
    return subprocess.run([*under, TERRANE, *map(str, words)], capture_output=True, text=True, errors="replace",
                          timeout=timeout, check=False, stdin=subprocess.DEVNULL, **options)


def lives(pid):
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def await_true(what, condition, seconds=120):
    """Waits until the condition holds; fails after this time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not after {seconds} s"
        time.sleep(0.02)


def some_bytes(seed, size):
    return random.Random(seed).randbytes(size)


def write_tree(folder, sizes):
    """Writes {name: size} as files below a folder, with bytes that follow from the name."""
    for name, size in sizes.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(some_bytes(name, size))


def same_tree(a, b):
    names = sorted(str(p.relative_to(a)) for p in a.rglob("*"))
    assert names == sorted(str(p.relative_to(b)) for p in b.rglob("*"))
    for name in names:
        if (a / name).is_file():
            assert (a / name).read_bytes() == (b / name).read_bytes(), name


def flip(paths):
    """Flips one bit in every 4 KiB of the files."""
    chance = random.Random(5)
    for path in paths:
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), 4 * KIB):
            data[min(at + chance.randrange(4 * KIB), len(data) - 1)] ^= 1 << chance.randrange(8)
        with open(path, "r+b") as file:
            file.write(data)


class Box:
    """A cluster in a folder. Use it in a `with`; `box("ls", "/")` runs a command on it."""

    def __init__(self, folder, *shape):
        self.folder, self.shape, self.procs = Path(folder), shape, "--procs" in shape
        self.seconds = 0.0
        self.under = ()  # a command that runs the commands on the box

    def up(self, *more, **options):
        done = run("up", "--dir", self.folder, "--json", *more, **options)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        self.seconds = answer["seconds"]
        return answer

    def down(self):
        pids = self.pids().values()
        done = run("down", "--dir", self.folder)
        assert done.returncode == 0, done.stderr
        # A process that closed its files may still be ending.
        await_true("the end of all processes", lambda: not [p for p in pids if lives(p)])

    def __enter__(self):
        self.up(*self.shape)
        return self

    def __exit__(self, kind=None, *_):
        if kind is not None:
            self.tell()
        self.down()
        assert not list((self.folder / "run").glob("*.pid"))

    def tell(self):
        """Prints for a failed test which processes run, and the last lines of each log."""
        pids = self.pids()
        for log in sorted((self.folder / "log").glob("*.log")):
            state = "runs" if lives(pids.get(log.stem)) else "does not run"
            lines = log.read_text(errors="replace").splitlines()
            print(f"{log.stem} {state}", *lines[-LAST_LINES:], sep="\n  ")

    def pids(self):
        return {p.stem: int(p.read_text()) for p in (self.folder / "run").glob("*.pid")}

    def kill(self, name):
        pid = self.pids()[name]
        os.kill(pid, signal.SIGKILL)
        await_true(f"the end of {name}", lambda: not lives(pid))

    @property
    def env(self):
        return {**os.environ, "TERRANE_CLUSTER": str(self.folder / "cluster.ini")}

    def __call__(self, *words, ok=True, **options):
        done = run(*words, env=self.env, under=self.under, **options)
        if ok:
            assert done.returncode == 0, f"{words}: {done.stderr}"
        return done

    def json(self, *words, **options):
        return json.loads(self(*words, "--json", **options).stdout)

    def metrics(self, role):
        """The metrics of the process of a role, {name: value}."""
        conf = (self.folder / "conf" / f"{role}.ini").read_text()
        addr = [line.split("=")[1].strip() for line in conf.splitlines() if line.startswith("metrics")][0]
        with urllib.request.urlopen(f"http://{addr}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}

    def start(self, *words):
        """Starts a command and does not wait for it."""
        return subprocess.Popen([TERRANE, *map(str, words)], env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def chunks(self, node):
        """The paths of all chunk files on the disks of a node."""
        files = (self.folder / "disks" / f"node-{node}").glob("*/chunks/*/*")
        return sorted(p for p in files if p.is_file())
