# SPDX-License-Identifier: Apache-2.0
"""./dev bench faults: what faults cost. A cluster of processes (terrane up --procs) on this machine; every number is
from one run. Loops of kill -9 are those of tests/blackbox/test_fire.py, with their histories judged.
"""
import argparse
import json
import os
import platform
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers
from common import BUILD, CORES, ROOT

sys.path[:0] = [str(ROOT / "tests" / "blackbox"), str(ROOT / "tests" / "unit")]
# pylint: disable=wrong-import-position
from box import MIB, Box, await_true, run  # noqa: E402
from fire import Fire  # noqa: E402
from libterrane import Client, Failed  # noqa: E402
from store_reader import chunk_path, read_super  # noqa: E402

TERRANE = BUILD / "terrane"
LINKS_MAX = 60000  # names of one file, below what ext4 allows
SERVE_S = 60


class Table:
    """Prints a table like bench/table.h."""

    def __init__(self, as_json):
        self.json, self.missed = as_json, 0
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "?")
        if as_json:
            print(json.dumps({"bench": "faults", "cpu": cpu, "cores": CORES, "kernel": platform.release()}))
        else:
            print(f"faults on {cpu}, {CORES} cores, Linux {platform.release()}\n\n"
                  "| what | measured | target | ratio | |\n|---|---:|---:|---:|---|")

    def row(self, what, value, unit, target=None, less=True, note=""):
        """Prints a row. target: the value to reach; None: the row is for information only."""
        ratio = None
        if target is not None:
            ratio = 1.0 if value == target else (target / value if less else value / target)
            self.missed += ratio < 1
        if self.json:
            print(json.dumps({"what": what, "value": value, "unit": unit, "target": target, "ratio": ratio,
                              "note": note}), flush=True)
            return
        digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
        aim = "| " if target is None else \
            f"{'at most' if less else 'at least'} {target:g} {unit} | {ratio:.2f}{'' if ratio >= 1 else ' (missed)'}"
        print(f"| {what} | {value:.{digits}f} {unit} | {aim} | {note} |", flush=True)


def kill_loops(folder, table, loops):
    """Kills random processes with SIGKILL, one after the other, while three clients work."""
    with Fire(folder) as fire:
        fire.clients(3)
        start = time.monotonic()
        for _ in range(loops):
            name = fire.chance.choice([*fire.roles(), "client"])
            if name == "client":
                fire.kill_client()
            else:
                fire.restart(name)
            fire.progress(5)
        seconds = time.monotonic() - start
        try:
            counts, violations = fire.judge(), 0
        except AssertionError as wrong:
            counts, violations = {"acknowledged": 0, "unknown": 0}, len(str(wrong).splitlines())
            print(wrong, file=sys.stderr)
    table.row("kill -9 of any process: times", loops, "kills", note=f"in {seconds:.0f} s, three clients at work")
    table.row("the same: changes acknowledged", counts["acknowledged"], "changes",
              note=f"{counts['unknown']} more without an answer, each whole or not there")
    table.row("the same: violations", violations, "violations", 0)


def right_read(client, path, wanted):
    try:
        return client.read(path) == wanted
    except Failed:
        return False


def first_read(folder, table, trials):
    """Measures the time from the kill of a node to the first right read of a file that has a chunk of every block on it."""
    data = random.Random(9).randbytes(8 * MIB)
    times = {"open": [], "new": []}
    with Box(folder / "box", "--racks", 6, "--disks", 1, "--procs") as box:
        cluster = box.folder / "cluster.ini"
        known = Client(cluster)
        known.write("/f", data, block_bytes=MIB)
        assert right_read(known, "/f", data)
        for trial in range(trials):
            name = f"node-{trial % 6 + 1}"
            box.kill(name)
            start = time.monotonic()
            while not right_read(known, "/f", data):
                assert time.monotonic() < start + SERVE_S
            times["open"].append(time.monotonic() - start)
            stranger = Client(cluster)
            start = time.monotonic()
            while not right_read(stranger, "/f", data):
                assert time.monotonic() < start + SERVE_S
            times["new"].append(time.monotonic() - start)
            stranger.close()
            box.up("--procs")
            await_true("that all is online", lambda: box.json("status", ok=False)["online"])
        known.close()
    table.row("kill -9 of a node to the first right read, client at work", max(times["open"]), "s", 2,
              note=f"8 MiB, rs:4+2, worst of {trials}")
    table.row("the same, new client", max(times["new"]), "s", 2, note=f"worst of {trials}")


def bench(box, *words):
    return json.loads(box("bench", "--json", *words, timeout=600).stdout)["mib_per_s"]


def rack_down(folder, table, size, emulate):
    """Measures the throughput with one rack of six down, relative to all racks up, in turns."""
    with Box(folder / "box", "--racks", 6, "--disks", 2, "--emulate", emulate, "--procs") as box:
        box("mkdir", "/bench")
        speed = {"read": [[], []], "write": [[], []]}
        bench(box, "write", "/bench/r", "--size", f"{size}MiB", "--block", "8MiB")
        for turn in range(3):
            for down in (0, 1):
                if down:
                    box.kill("node-3")
                    await_true("that node-3 is missed",
                               lambda: box.json("status", ok=False)["node_states"]["suspect"] == 1)
                path = f"/bench/w{turn}-{down}"
                speed["read"][down].append(bench(box, "read", "/bench/r", "--depth", 8))
                speed["write"][down].append(
                    bench(box, "write", path, "--size", f"{size}MiB", "--block", "8MiB"))
                box("rm", path)
            box.up("--procs")
            await_true("that all is online", lambda: box.json("status", ok=False)["online"])
    for kind, (whole, part) in speed.items():
        table.row(f"{kind}, all racks up", sorted(whole)[1], "MiB/s", note=f"emulated {emulate} disks, rs:4+2")
        table.row(f"{kind}, one rack of six down", sorted(part)[1], "MiB/s")
        table.row("the same, of all up", 100 * sorted(part)[1] / sorted(whole)[1], "%", 70, less=False,
                  note="medians of three")


def link_chunks(disk, count):
    """Creates names of chunks, most of them links to a few files: opening a disk reads names alone. Returns a valid one."""
    fan_bits = read_super(disk)["fan_bits"]
    source = next(p for p in disk.glob("chunks/*/*") if p.is_file())
    origin = source
    for i in range(count):
        path = chunk_path(disk, fan_bits, 1 + i // 16, i % 16)
        if i % LINKS_MAX == 0:
            shutil.copyfile(source, path)
            origin = path
        else:
            os.link(origin, path)
    os.sync()
    block, index = source.name.split(".")
    return f"{int(block, 16)}:{int(index, 16)}"


def node_restart(folder, table, count):
    with Box(folder / "box", "--racks", 3, "--disks", 1, "--procs") as box:
        (folder / "f").write_bytes(random.Random(3).randbytes(100000))
        box("put", "-q", folder / "f", "/f")
        box.kill("janitor")  # it would delete the linked chunks as orphans
        right = link_chunks(box.folder / "disks" / "node-1" / "1", count)
        box.kill("node-1")
        config = box.folder / "conf" / "node-1.ini"
        address = next(line.split("= ")[1] for line in config.read_text().splitlines() if line.startswith("listen"))
        start = time.monotonic()
        with open(box.folder / "log" / "node-1.log", "ab") as log:
            node = subprocess.Popen([TERRANE, "node", "--config", config], cwd=box.folder, stdout=log, stderr=log)
        try:
            while run("chunk", "scan", right, "--node", address, "--disk", 1001).stdout != "whole\n":
                assert time.monotonic() < start + SERVE_S and node.poll() is None
            seconds, cpu = time.monotonic() - start, peers.cpu_seconds([node.pid])
            listed = run("chunk", "list", "--node", address, "--disk", 1001, timeout=120).stdout.count("\n")
        finally:
            node.terminate()
            node.wait()
        assert listed > count, f"{listed} of {count} chunks"
        table.row(f"kill -9 of a node with {count} chunks: serving again after", seconds, "s", 5,
                  note=f"from its start to a chunk read and found whole, {cpu:.2f} s of CPU")


def await_listening(port, start):
    """Waits until the port accepts connections: a client that finds no server waits longer before each retry."""
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < start + SERVE_S
        time.sleep(0.005)


def meta_restart(folder, table, count):
    with Box(folder / "box", "--racks", 3, "--disks", 1, "--procs") as box:
        box("mkdir", "/many")
        client = Client(box.folder / "cluster.ini", timeout_ms=600000)
        start, batch = time.monotonic(), 20000
        for first in range(0, count, batch):
            client.pack("/many", {f"f{i:07}": b"x" for i in range(first, min(count, first + batch))})
        made = time.monotonic() - start
        client.close()
        assert box.json("du", "/many")["files"] == count
        port = int((box.folder / "cluster.ini").read_text().split("127.0.0.1:")[1].split()[0])
        box.kill("meta")
        start = time.monotonic()
        with open(box.folder / "log" / "meta.log", "ab") as log:
            meta = subprocess.Popen([TERRANE, "meta", "--config", box.folder / "conf" / "meta.ini"], cwd=box.folder,
                                    stdout=log, stderr=log)
        try:
            await_listening(port, start)
            while box("stat", f"/many/f{count - 1:07}", ok=False).returncode != 0:
                assert time.monotonic() < start + SERVE_S and meta.poll() is None
            seconds, cpu = time.monotonic() - start, peers.cpu_seconds([meta.pid])
        finally:
            meta.terminate()
            meta.wait()
        table.row(f"kill -9 of the metadata with {count} files: serving again after", seconds, "s", 2,
                  note=f"from its start to the stat of a file, {cpu:.2f} s of CPU; made in {made:.0f} s")


def main():
    parser = argparse.ArgumentParser(prog="./dev bench faults", description=__doc__)
    parser.add_argument("--dir", help="where to keep data, on the disk to be measured; else a new folder")
    parser.add_argument("--loops", type=int, default=100, help="of kill -9")
    parser.add_argument("--many", type=int, default=1000000, help="chunks of the node, files of the metadata")
    parser.add_argument("--size", type=int, default=256, help="MiB of the file read and written")
    parser.add_argument("--emulate", default="hdd", help="how fast disks are when a rack is down")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("part", nargs="*", help="kills read rack node meta; default all")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="terrane-faults-", dir=args.dir))
    table = Table(args.json)
    parts = {"kills": lambda at: kill_loops(at, table, args.loops),
             "read": lambda at: first_read(at, table, 12),
             "rack": lambda at: rack_down(at, table, args.size, args.emulate),
             "node": lambda at: node_restart(at, table, args.many),
             "meta": lambda at: meta_restart(at, table, args.many)}
    try:
        for name, part in parts.items():
            if not args.part or name in args.part:
                (folder / name).mkdir()
                part(folder / name)
                shutil.rmtree(folder / name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if table.missed else 0)


if __name__ == "__main__":
    main()
