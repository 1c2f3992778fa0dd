# SPDX-License-Identifier: Apache-2.0
"""./dev bench fs: files in a cluster on this machine, beside the bare disk and, with --peers, beside
MooseFS and GlusterFS, all in one run. Every system syncs to disk before it acknowledges. Terrane runs
each role as a process of its own (--procs), on the same disk, without emulation; like the peers without
encryption, and with --tls once more with it.
"""
import argparse
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers
from common import BUILD, call

TERRANE = BUILD / "terrane"
MIB = 1 << 20
MANY = 16  # threads that write or read a set of files on systems without a call for sets
# name, unit; DATA of them move bytes
ROWS = [
    ("sequential write", "MiB/s"),
    ("sequential read, cold", "MiB/s"),
    ("random 1 MiB reads, 4 in flight, cold", "MiB/s"),
    ("random 1 MiB reads, 16 in flight, cold", "MiB/s"),
    ("write files of 100 KiB, one by one", "files/s"),
    ("write files of 100 KiB, as a set", "files/s"),
    ("read files of 100 KiB, one by one, cold", "files/s"),
    ("read files of 100 KiB, as a set, cold", "files/s"),
    ("create empty files", "files/s"),
    ("stat, cold", "files/s"),
    ("list, cold", "files/s"),
]
DATA = 8
NAMES = [name for name, _ in ROWS[DATA:]]
# peers with the same redundancy; MooseFS has only copies, two or three
LIKE = {"Terrane, rs:4+2": "GlusterFS, dispersed 4+2", "Terrane, r3": "GlusterFS, replica 3"}


class Mounted:
    """Measures the rows in a folder, with the calls of ordinary programs."""

    def __init__(self, name, folder, scale, forget, cpu):
        self.name, self.at, self.scale = name, Path(folder) / "bench", scale
        self.forget, self.cpu_of = forget, cpu
        self.at.mkdir()
        for sub in ("small", "set", "empty"):
            (self.at / sub).mkdir()

    def cpu(self):
        return self.cpu_of()

    def fio(self, *words):
        done = subprocess.run(["fio", "--name=x", "--bs=1M", "--ioengine=psync", "--invalidate=0",
                               "--output-format=json", f"--filename={self.at}/big", *words],
                              check=True, stdout=subprocess.PIPE, text=True)
        jobs = json.loads(done.stdout[done.stdout.index("{"):])["jobs"]
        side = "write" if any(j["write"]["io_bytes"] for j in jobs) else "read"
        milliseconds = max(j["job_runtime"] for j in jobs)
        return sum(j[side]["io_bytes"] for j in jobs) / MIB / (milliseconds / 1000)

    def random_reads(self, depth):
        part = self.scale.big // depth
        return self.fio("--rw=randread", f"--size={part}", f"--offset_increment={part}",
                        f"--numjobs={depth}", "--thread")

    def each(self, names, work):
        start = time.monotonic()
        for name in names:
            work(name)
        return len(names) / (time.monotonic() - start)

    def all(self, names, work):
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(MANY) as threads:
            list(threads.map(work, names))
        return len(names) / (time.monotonic() - start)

    def write_file(self, path):
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
        if self.scale.small and os.write(fd, self.scale.bytes) != self.scale.small:
            raise OSError(f"short write to {path}")
        os.fdatasync(fd)
        os.close(fd)

    def read_file(self, path):
        fd = os.open(path, os.O_RDONLY)
        if len(os.read(fd, self.scale.small)) != self.scale.small:
            raise OSError(f"short read from {path}")
        os.close(fd)

    def create_file(self, path):
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
        os.fsync(fd)
        os.close(fd)

    def run(self, row):
        small = [self.at / "small" / f"f{i:06d}" for i in range(self.scale.files)]
        as_set = [self.at / "set" / f"f{i:06d}" for i in range(self.scale.files)]
        empty = [self.at / "empty" / f"m{i:06d}" for i in range(self.scale.files)]
        if "cold" in row:
            self.forget()
        if row == "sequential write":
            return self.fio("--rw=write", f"--size={self.scale.big}", "--end_fsync=1", "--fallocate=none")
        if row == "sequential read, cold":
            return self.fio("--rw=read", f"--size={self.scale.big}")
        if row.startswith("random"):
            return self.random_reads(16 if "16" in row else 4)
        if row.startswith("write files"):
            return self.all(as_set, self.write_file) if "as a set" in row else self.each(small, self.write_file)
        if row.startswith("read files"):
            names = as_set if "as a set" in row else small
            random.Random(7).shuffle(names)
            return self.all(names, self.read_file) if "as a set" in row else self.each(names, self.read_file)
        if row == "create empty files":
            return self.each(empty, self.create_file)
        if row == "stat, cold":
            return self.each(empty, os.stat)
        if row == "list, cold":
            start = time.monotonic()
            seen = sum(1 for e in os.scandir(self.at / "empty") if e.stat())
            assert seen == self.scale.files, f"{self.name} lists {seen} of {self.scale.files}"
            return seen / (time.monotonic() - start)
        raise ValueError(row)


class Direct(Mounted):
    """The bare disk: direct I/O with several requests in flight; only files of one size."""

    def fio(self, *words):
        return super().fio(*words, "--direct=1", "--ioengine=libaio", "--iodepth=4")

    def random_reads(self, depth):
        return Mounted.fio(self, "--rw=randread", f"--size={self.scale.big}", "--direct=1", "--ioengine=libaio",
                           f"--iodepth={depth}")

    def run(self, row):
        return super().run(row) if "files" not in row and row not in NAMES else None


class Terrane:
    """A Terrane cluster of processes; use it in a `with`."""

    def __init__(self, folder, scale, encoding, tls):
        self.name, self.folder, self.scale = f"Terrane, {encoding}{', TLS' if tls else ''}", Path(folder), scale
        self.encoding, self.security = encoding, "on" if tls else "off"
        self.client_cpu = 0.0

    def __enter__(self):
        done = call([TERRANE, "up", "--dir", self.folder, "--racks", 6, "--disks", 1,
                     "--emulate", "none", "--procs", "--security", self.security])
        if done.returncode != 0:
            raise RuntimeError(f"terrane up failed:\n{done.stdout}")
        return self

    def __exit__(self, *_):
        call([TERRANE, "down", "--dir", self.folder])
        shutil.rmtree(self.folder, ignore_errors=True)

    def cpu(self):
        pids = [int(p.read_text()) for p in (self.folder / "run").glob("*.pid")]
        return peers.cpu_seconds(pids) + self.client_cpu

    def bench(self, *words):
        done = subprocess.run([TERRANE, "bench", "-c", self.folder / "cluster.ini", "--json",
                               *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
        decoder, text, found = json.JSONDecoder(), done.stdout.strip(), []
        while text:
            value, end = decoder.raw_decode(text)
            found.append(value)
            text = text[end:].lstrip()
        self.client_cpu += sum(f["client_cpu_s"] for f in found)
        return found

    def run(self, row):
        code = ["--encoding", self.encoding]
        files = ["--count", self.scale.files, "--size", self.scale.small]
        if "cold" in row:
            peers.drop_caches()
        if row == "sequential write":
            return self.bench("write", "/big", "--size", self.scale.big, *code)[0]["mib_per_s"]
        if row == "sequential read, cold":
            return self.bench("read", "/big")[0]["mib_per_s"]
        if row.startswith("random"):
            depth = 16 if "16" in row else 4
            return self.bench("read", "/big", "--pattern", "random", "--depth", depth)[0]["mib_per_s"]
        place, packed = ("/set", ["--packed"]) if "as a set" in row else ("/small", [])
        if row.startswith("write files"):
            return self.bench("files", place, *files, *code, *packed)[0]["ops_per_s"]
        if row.startswith("read files"):
            return self.bench("fetch", place, *files, *packed)[0]["ops_per_s"]
        return self.bench("meta", "/empty", "--count", self.scale.files, "--pattern",
                          row.split()[0].rstrip(","))[0]["ops_per_s"]


class Scale:
    def __init__(self, big, files):
        self.big, self.files, self.small = big, files, 100 * 1024
        self.bytes = random.Random(7).randbytes(self.small)


def measure(system, results):
    for row, unit in ROWS:
        before = system.cpu()
        value = system.run(row)
        if value is None:
            continue
        results.append({"system": system.name, "row": row, "unit": unit, "value": value,
                        "cpu_s": system.cpu() - before})
        print(f"{system.name:26} {row:40} {value:.0f} {unit}", file=sys.stderr, flush=True)


def bare(folder, scale, results):
    at = Path(folder) / "bare"
    at.mkdir()
    measure(Mounted("bare ext4", at, scale, peers.drop_caches, lambda: 0.0), results)
    shutil.rmtree(at)
    at.mkdir()
    measure(Direct("bare, direct", at, scale, peers.drop_caches, lambda: 0.0), results)
    shutil.rmtree(at)


def neighbours(folder, scale, results):
    call(["./dev", "deps", "peers"])
    kinds = [peers.MooseFS(folder / "mfs2", 2), peers.MooseFS(folder / "mfs3", 3),
             peers.GlusterFS(folder / "gluster3", "replica 3"),
             peers.GlusterFS(folder / "gluster42", "dispersed 4+2")]
    for peer in kinds:
        with peer:
            measure(Mounted(peer.name, peer.mount, scale, peer.forget, peer.cpu), results)


def best(results):
    """The best round of each system and row."""
    found = {}
    for r in results:
        key = r["system"], r["row"]
        if key not in found or r["value"] > found[key]["value"]:
            found[key] = r
    return found


def cpu(r, scale):
    """Processor time: of rows of data, seconds per GiB; of rows of names, milliseconds per name."""
    if [name for name, _ in ROWS].index(r["row"]) >= DATA:
        return f"{1000 * r['cpu_s'] / scale.files:.2f}"
    size = scale.small * scale.files if "files" in r["row"] else scale.big
    return f"{r['cpu_s'] / (size / (1 << 30)):.1f}"


def cell(r, scale):
    if r is None:
        return "–"
    return f"{r['value']:.0f}" + ("" if r["system"].startswith("bare") else f" ({cpu(r, scale)})")


def ratio(by, ours, theirs, row):
    if (theirs, row) not in by:
        return "–"
    return f"{by[ours, row]['value'] / by[theirs, row]['value']:.2g}"


def tables(results, scale):
    """Markdown: a line for each row, a column for each system, CPU in brackets; then ours over the others."""
    by = best(results)
    systems = list(dict.fromkeys(r["system"] for r in results))
    peer_names = [s for s in systems if not s.startswith(("Terrane", "bare"))]
    lines = ["| | " + " | ".join(systems) + " |", "|---|" + "---:|" * len(systems)]
    for row, unit in ROWS:
        cells = [cell(by.get((s, row)), scale) for s in systems]
        lines.append(f"| {row}, {unit} | " + " | ".join(cells) + " |")
    heads = [("Terrane, rs:4+2, TLS", "Terrane, rs:4+2", "TLS / plain")] if "Terrane, rs:4+2, TLS" in systems else []
    for ours in (s for s in systems if s in LIKE):
        code = ours.split(", ")[1]
        heads += [(ours, "bare ext4", f"{code} / bare"), (ours, "bare, direct", f"{code} / bare, direct")]
        if peer_names:
            heads += [(ours, LIKE[ours], f"{code} / {LIKE[ours].split(', ')[1]}"), (ours, None, f"{code} / best peer")]
    lines += ["", "| ours over | " + " | ".join(head for _, _, head in heads) + " |", "|---|" + "---:|" * len(heads)]
    for row, _ in ROWS:
        cells = []
        for ours, theirs, _ in heads:
            theirs = theirs or max(peer_names, key=lambda s: by[s, row]["value"])
            cells.append(ratio(by, ours, theirs, row))
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench fs", description=__doc__)
    parser.add_argument("--dir", help="where to keep data, on the disk to be measured; else a new folder")
    parser.add_argument("--peers", action="store_true", help="also MooseFS and GlusterFS (installs them)")
    parser.add_argument("--tls", action="store_true", help="also Terrane, rs:4+2, with TLS")
    parser.add_argument("--size", type=int, default=1024, help="MiB of the large file")
    parser.add_argument("--files", type=int, default=2000, help="number of small files")
    parser.add_argument("--rounds", type=int, default=1, help="rounds; the best one of each row counts")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    scale = Scale(arguments.size * MIB, arguments.files)
    folder = Path(tempfile.mkdtemp(prefix="terrane-bench-", dir=arguments.dir))
    results = []
    try:
        for _ in range(arguments.rounds):
            bare(folder, scale, results)
            for encoding, tls in [("rs:4+2", False), *([("rs:4+2", True)] if arguments.tls else []), ("r3", False)]:
                with Terrane(folder / "cluster", scale, encoding, tls) as cluster:
                    measure(cluster, results)
            if arguments.peers:
                neighbours(folder, scale, results)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(results, indent=2) if arguments.json else tables(results, scale))


if __name__ == "__main__":
    main()
