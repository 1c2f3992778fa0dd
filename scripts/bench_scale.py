# SPDX-License-Identifier: Apache-2.0
"""./dev bench scale: a node, a client and metadata on 1, 2, 4, 8 and 16 threads, as far as there are cores, beside as
many iperf3 streams in the same run. All data is in memory (/dev/shm). Each role is a process of its own. TLS and
credentials are off; with --tls a second column for each number of threads has the ratio of the same with both.
"""
import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers
from common import BUILD, CORES, call

TERRANE = BUILD / "terrane"
MIB, GB = 1 << 20, 1e9
READERS = 8  # client processes that read from one node
FILE = 100 * 1024  # bytes of a packed file
# key, title, digits
ROWS = [
    ("iperf3", "iperf3, as many streams, GB/s", 2),
    ("node", f"one node, {READERS} readers, GB/s", 2),
    ("node_ratio", "  over iperf3", 2),
    ("client", "one client reads rs:4+2, GB/s", 2),
    ("client_ratio", "  over its rate on one thread", 2),
    ("files", "one client reads packed files of 100 KiB, files/s", 0),
    ("range_us", "one client reads ranges of 4 KiB: µs of processor for a range beyond its bytes", 1),
    ("stats", f"stats from {READERS} clients, answered by the metadata server, stats/s", 0),
    ("write_cpu", "all processes, rs:4+2 written, processor s/GiB", 2),
    ("read_cpu", "all processes, rs:4+2 read, processor s/GiB", 2),
]
SECURED = ("node", "client", "files", "stats", "write_cpu", "read_cpu")  # rows that TLS changes


class Box:
    """A cluster of processes in memory; use it in a `with`."""

    security = "off"  # of boxes that are made from now on; on: with TLS

    def __init__(self, folder, threads, *shape):
        self.folder = Path(folder) / "box"
        self.words = ["up", "--dir", self.folder, "--procs", "--threads", threads, "--security", Box.security, *shape]

    def __enter__(self):
        done = call([TERRANE, *self.words])
        if done.returncode != 0:
            raise RuntimeError(f"terrane up failed:\n{done.stdout}")
        return self

    def __exit__(self, *_):
        call([TERRANE, "down", "--dir", self.folder])
        shutil.rmtree(self.folder, ignore_errors=True)

    def cpu(self):
        return peers.cpu_seconds([int(p.read_text()) for p in (self.folder / "run").glob("*.pid")])

    def start(self, *words):
        return subprocess.Popen([TERRANE, "bench", "-c", self.folder / "cluster.ini", "--json", *map(str, words)],
                                stdout=subprocess.PIPE, text=True)

    def bench(self, *words):
        return answers(self.start(*words))


def answers(process):
    """What a `terrane bench` printed."""
    text, found, decoder = process.communicate()[0].strip(), [], json.JSONDecoder()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, process.args))} failed")
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].lstrip()
    return found


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def iperf(streams, seconds):
    """The sum of streams in GB/s; a client and a server process for each, because iperf3 has one thread."""
    servers, clients = [], []
    try:
        for port in free_ports(streams):
            servers.append(subprocess.Popen(["iperf3", "-s", "-1", "-p", str(port), "--forceflush"],
                                            stdout=subprocess.PIPE, text=True))
            for line in servers[-1].stdout:
                if "listening" in line:
                    break
            clients.append(["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", str(seconds), "-l", "1M", "-J"])
        running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for words in clients]
        ends = [json.loads(p.communicate()[0])["end"] for p in running]
        return sum(end["sum_received"]["bits_per_second"] for end in ends) / 8 / GB
    finally:
        for server in servers:
            server.kill()
            server.communicate()


def measure_node(folder, threads, size):
    """The rate in GB/s at which READERS clients, each with a file of its own, read from one node of 8 disks."""
    with Box(folder, threads, "--racks", 1, "--nodes", 1, "--disks", 8, "--encoding", "r1") as box:
        for i in range(READERS):
            box.bench("write", f"/f{i}", "--size", size // READERS)
        since = time.monotonic()
        readers = [box.start("read", f"/f{i}", "--threads", 1, "--depth", 8) for i in range(READERS)]
        read = sum(answers(reader)[0]["bytes"] for reader in readers)
        return read / (time.monotonic() - since) / GB


def pss_bytes(pid):
    """Memory of a process; what processes share is divided among them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"process {pid} has no Pss")


def measure_design(folder, processes, threads, size):
    """The same 8 disks, served by this many node processes of this many threads: READERS clients of as many threads
    write a file each, then read it.
    """
    gib = size / (1 << 30)
    shape = ["--racks", 1, "--nodes", processes, "--disks", 8 // processes, "--encoding", "r1"]
    with Box(folder, threads, *shape) as box:
        before = box.cpu()
        for i in range(READERS):
            box.bench("write", f"/f{i}", "--size", size // READERS)
        between = box.cpu()
        since = time.monotonic()
        words = ["--threads", processes * threads, "--depth", 8]
        read = [answers(r)[0] for r in [box.start("read", f"/f{i}", *words) for i in range(READERS)]]
        seconds = time.monotonic() - since
        pids = [int(p.read_text()) for p in (box.folder / "run").glob("node-*.pid")]
        return {"read": sum(r["bytes"] for r in read) / seconds / GB,
                "read_cpu": (box.cpu() - between + sum(r["client_cpu_s"] for r in read)) / gib,
                "write_cpu": (between - before) / gib,
                "memory": sum(map(pss_bytes, pids)) / MIB}


def designs(folder, arguments):
    """A table: one process of n loops against n processes of one loop, in turns; medians."""
    size, n = arguments.size * MIB, arguments.designs
    shapes = {f"one process of {n} threads": (1, n), f"{n} processes of one thread": (n, 1)}
    rounds = {title: [] for title in shapes}
    for _ in range(arguments.rounds):
        for title, (processes, threads) in shapes.items():
            rounds[title].append(measure_design(folder, processes, threads, size))
    found = [middle(r) for r in rounds.values()]
    lines = [f"| 8 disks of a machine, {READERS} readers | " + " | ".join(shapes) + " | ratio |", "|---|---:|---:|---:|"]
    for key, title in [("read", "read, GB/s"), ("read_cpu", "all processes, read, processor s/GiB"),
                       ("write_cpu", "all servers, written, processor s/GiB"),
                       ("memory", "memory of the nodes, MiB")]:
        one, several = (f[key] for f in found)
        lines.append(f"| {title} | {one:.2f} | {several:.2f} | {one / several:.2f} |")
    return "\n".join(lines)


def measure_client(folder, threads, size, files):
    """The rows of one client; the nodes have all cores."""
    gib = size / (1 << 30)
    with Box(folder, "auto", "--racks", 6, "--disks", 1) as box:
        before = box.cpu()
        write = box.bench("write", "/big", "--size", size, "--threads", threads)[0]
        between = box.cpu()
        reads = [box.bench("read", "/big", "--threads", threads, "--depth", 8)[0] for _ in range(2)]
        after = box.cpu()
        box.bench("files", "/set", "--packed", "--count", files, "--size", FILE, "--threads", threads)
        fetch = box.bench("fetch", "/set", "--packed", "--count", files, "--size", FILE, "--threads", threads)[0]
        ranges, same = box.bench("batch", "/big", "--threads", threads)
        return {"client": max(r["bytes"] / r["seconds"] for r in reads) / GB,
                "files": fetch["ops_per_s"],
                "range_us": 1e6 * (ranges["client_cpu_s"] - same["client_cpu_s"]) / ranges["ops"],
                "write_cpu": (between - before + write["client_cpu_s"]) / gib,
                "read_cpu": (after - between + sum(r["client_cpu_s"] for r in reads)) / gib / len(reads)}


def measure_stats(folder, threads, names):
    """The rate at which READERS clients stat names of one directory, each client for the first time."""
    with Box(folder, threads, "--racks", 3, "--disks", 1) as box:
        box.bench("meta", "/names", "--count", names, "--depth", 64, "--pattern", "create")
        words = ["meta", "/names", "--count", names, "--depth", 64, "--pattern", "stat", "--threads", 1]
        since = time.monotonic()
        ops = sum(answers(client)[0]["ops"] for client in [box.start(*words) for _ in range(READERS)])
        return ops / (time.monotonic() - since)


def measure(folder, threads, arguments):
    size = arguments.size * MIB
    found = {"iperf3": iperf(threads, arguments.seconds), "node": measure_node(folder, threads, size),
             **measure_client(folder, threads, size, arguments.files)}
    found["stats"] = measure_stats(folder, threads, arguments.names)
    found["node_ratio"] = found["node"] / found["iperf3"]
    print(f"{threads} threads, security {Box.security}:", *(f"{key} {found[key]:.{digits}f}" for key, _, digits in ROWS if key in found),
          file=sys.stderr, flush=True)
    return found


def middle(rounds):
    """The median of each row over the rounds."""
    return {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}


def table(results, secure):
    """The rows of each number of threads; if they were measured, beside each the ratio with TLS."""
    heads = [head for n in results for head in ([f"{n}", f"{n}, TLS over plain"] if n in secure else [f"{n}"])]
    lines = ["| threads | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for key, title, digits in ROWS:
        cells = []
        for n, r in results.items():
            cells.append(f"{r[key]:.{digits}f}")
            if n in secure:
                cells.append(f"{secure[n][key] / r[key]:.2f}" if key in SECURED else "")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench scale", description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads (default: 1 2 4 8 16, to the cores)")
    parser.add_argument("--dir", default="/dev/shm", help="where to keep data (default: /dev/shm)")
    parser.add_argument("--size", type=int, default=1024, help="MiB of the large file")
    parser.add_argument("--files", type=int, default=5000, help="number of packed files")
    parser.add_argument("--names", type=int, default=20000, help="number of names to stat")
    parser.add_argument("--seconds", type=int, default=3, help="seconds of iperf3")
    parser.add_argument("--rounds", type=int, default=1, help="rounds; the median of each row counts")
    parser.add_argument("--tls", action="store_true", help="measure all again with TLS and print the ratios")
    parser.add_argument("--designs", type=int, choices=[2, 4, 8], metavar="N",
                        help="only compare one node process of N threads with N of one thread (2, 4 or 8)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    counts = arguments.threads or [n for n in (1, 2, 4, 8, 16) if n <= CORES]
    need = 3 * (arguments.size * MIB + arguments.files * FILE)
    if shutil.disk_usage(arguments.dir).free < need:
        parser.error(f"{arguments.dir} has less than {need >> 20} MiB free: choose a smaller --size or another --dir")
    folder = Path(tempfile.mkdtemp(prefix="terrane-scale-", dir=arguments.dir))
    rounds, secure = {n: [] for n in counts}, {n: [] for n in counts if arguments.tls}
    try:
        if arguments.designs:
            print(designs(folder, arguments))
            return
        for _ in range(arguments.rounds):
            for n in counts:
                Box.security = "off"
                rounds[n].append(measure(folder, n, arguments))
                if arguments.tls:
                    Box.security = "on"
                    secure[n].append(measure(folder, n, arguments))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    results = {n: middle(found) for n, found in rounds.items()}
    secure = {n: middle(found) for n, found in secure.items()}
    for r in results.values():
        r["client_ratio"] = r["client"] / results[counts[0]]["client"]
    print(json.dumps({"plain": results, "tls": secure}, indent=2) if arguments.json else table(results, secure))


if __name__ == "__main__":
    main()
