# SPDX-License-Identifier: Apache-2.0
"""./dev bench shift: what policies of the flash cache absorb, in virtual time at the scale of the Tectonic-Shift paper.

    --figure8     three workloads under all policies, over orders, paces and launch skews
    --specs       the same with job specs that are missing, wrong or stale
    --figure9     the Synchronized workload with a write limit
    --table4      reinsertion under a write limit
    --segments    sizes of segments
    --speed       segment requests a second of the simulator, on one core
    --readers     four readers on emulated hard disks, with a warm tier of flash and without
    --engine      the engine of the cache beside rpc and fio (bench/bench_cache.c), in build/bench-cache

Without an option all but --engine and --readers. The parameters of Shift's policies are chosen on a tuning seed, for each workload and
order, by what they absorb; everything that is printed comes from other seeds. Nothing of ours is tuned by workload.
"""
import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import BUILD, CORES

TERRANE = BUILD / "terrane"
MIB = 1 << 20
BOUND = "clairvoyant"
SHIFT = ["historic", "future", "hybrid"]
PAPER = ["lru", "fifo", *SHIFT]
OTHERS = ["s3fifo", "sieve", "wtinylfu"]
ALL = [*PAPER, *OTHERS, "terrane", BOUND]
THRESHOLDS = [0, 1.1, 2.1]  # minimum admit thresholds that are tried for Shift's policies; the paper has 1.1
TUNING, HELD_OUT = [1], [101, 102, 103]

# Table 3 of the paper: the partitions of each job, flash of all nodes, readers of a job.
WORKLOADS = {
    "synchronized": {"jobs": ["123", "456", "123", "789", "123"], "flash": 1.28e12, "readers": 4},
    "pipelined": {"jobs": ["123", "23", "3"], "flash": 5e12, "readers": 5},
    "sequential": {"jobs": ["1", "1", "1", "1", "2", "3", "1", "4", "5"], "flash": 5e12, "readers": 5, "batch": 3},
}
ORDERS = ["scan", "seeded", "random"]
KNOWN = "terrane, seed known"
# (pace spread, launch skew in seconds)
PACES = [(0.05, 0), (0.2, 0), (0.05, 300)]


def workload(name, order="scan", pace=(0.05, 0), seed=1, segment=4 * MIB, **fields):
    """A workload file. Requests are one MiB, or a segment where that is larger, so that segments are read as a whole."""
    shape = WORKLOADS[name]
    draw = random.Random(f"{name} {pace} {seed}")
    batch = shape.get("batch", len(shape["jobs"]))
    jobs = []
    for i, partitions in enumerate(shape["jobs"]):
        before = [f"j{k}" for k in range(i // batch * batch - batch, i // batch * batch) if k >= 0]
        jobs.append({"id": f"j{i}", "partitions": [f"P{p}" for p in partitions], "order": order,
                     "readers": shape["readers"], "pace_spread": pace[0], "start_s": draw.uniform(0, pace[1]),
                     "request_bytes": max(MIB, segment), "after": before})
    return {"segment_bytes": segment, "block_bytes": 72 * MIB, "flash_bytes": shape["flash"], "seed": seed,
            "jobs": jobs, **fields}


def simulate(files, policies, nodes=1):
    """Runs all (workload, policies) side by side. Returns [{policy: its object}]."""
    def one(file):
        done = subprocess.run([TERRANE, "cachesim", "--workload", "-", "--policy", ",".join(policies), "--json",
                               "--nodes", str(nodes), "--threads", "1"], input=json.dumps(file), capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return {row["policy"]: row for row in json.loads(done.stdout)}
    with ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(one, files))


def absorbed(runs, policy):
    return [r[policy]["absorbed_bytes"] for r in runs]


def ratios(mine, others, least=1):
    """mine / others where the other one is at least `least`."""
    return [a / b for a, b in zip(mine, others) if b >= least]


def middle(values, digits=2):
    """The median, and the range if there is more than one value."""
    if not values:
        return "–"
    median = f"{statistics.median(values):.{digits}f}"
    if max(values) - min(values) < 0.5 * 10 ** -digits:
        return median
    return f"{median} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    sys.stdout.flush()


class Goals:
    """What was aimed at, and what missed it."""

    def __init__(self):
        self.lines = []

    def check(self, what, value, target):
        shown = f"{value:.3f}" if value < 1000 else "over 1000"
        self.lines.append((what, shown, f"at least {target}", "met" if value >= target else "missed"))

    def show(self):
        if self.lines:
            print("\n## Goals")
            table(["goal", "measured", "target", ""], self.lines)


def tuned(args, name, order, **fields):
    """{policy of Shift: its best minimum threshold on the tuning seed}"""
    best, sums = {}, {}
    for threshold in THRESHOLDS:
        files = [workload(name, order, PACES[0], s, args.segment, min_threshold=threshold, **fields) for s in TUNING]
        runs = simulate(files, SHIFT, args.nodes)
        for policy in SHIFT:
            sums[policy, threshold] = sum(absorbed(runs, policy))
    for policy in SHIFT:
        best[policy] = max(THRESHOLDS, key=lambda t, p=policy: sums[p, t])
    return best


def with_tuned(args, files, policies, thresholds):
    """Simulates all policies on all files, Shift's with their own thresholds."""
    runs = simulate(files, [p for p in policies if p not in SHIFT], args.nodes)
    for threshold in sorted(set(thresholds.values())):
        mine = [p for p in SHIFT if p in policies and thresholds[p] == threshold]
        if mine:
            more = simulate([{**f, "min_threshold": threshold} for f in files], mine, args.nodes)
            for run, new in zip(runs, more):
                run.update(new)
    return runs


def figure8_group(args, goals, name, order):
    thresholds = tuned(args, name, order)
    places = [(pace, seed) for pace in PACES[:args.paces] for seed in HELD_OUT[:args.seeds]]
    runs = with_tuned(args, [workload(name, order, *place, args.segment) for place in places], ALL, thresholds)
    ours = ["terrane"]
    if order == "random":  # the same gets, from jobs that gave the seed of their order
        seeded = simulate([workload(name, "seeded", *place, args.segment) for place in places], ["terrane"], args.nodes)
        for run, known in zip(runs, seeded):
            run[KNOWN] = known["terrane"]
        ours.append(KNOWN)
    lru, bound = absorbed(runs, "lru"), absorbed(runs, BOUND)
    least = 1e-3 * runs[0]["lru"]["requested_bytes"]  # an LRU that absorbs less is no yardstick
    best = [max(r[p]["absorbed_bytes"] for p in PAPER) for r in runs]
    rows = []
    for p in [*PAPER, *OTHERS, *ours, BOUND]:
        mine = absorbed(runs, p)
        rows.append((p, middle(ratios(mine, lru, least)), middle(ratios(mine, bound)),
                     middle([r[p]["flash_written_bytes"] / max(r[p]["absorbed_bytes"], 1) for r in runs])))
    print(f"\n**{name}, {order}** (minimum thresholds: " + ", ".join(f"{p} {t:g}" for p, t in thresholds.items()) + ")")
    table(["policy", "times LRU", "of the bound", "written / absorbed"], rows)
    for p in ours:
        mine = absorbed(runs, p)
        what = f"{name}, {order}: {p}"
        goals.check(f"{what}, of the bound, median", statistics.median(a / b for a, b in zip(mine, bound)),
                    0.75 if order == "random" and p != KNOWN else 0.9)
        goals.check(f"{what}, beside the best of the paper's, lowest",
                    min(a / max(b, 1) for a, b in zip(mine, best)), 0.99)


def figure8(args, goals):
    print("\n## Figure 8: bytes absorbed\n\nMedian and range over "
          f"{args.paces} pairs of pace spread and launch skew and {args.seeds} held-out seeds each.")
    for order in args.orders.split(","):
        for name in WORKLOADS:
            figure8_group(args, goals, name, order)


def damaged(name, kind, seed, args):
    """A workload whose specs are not what the jobs do."""
    file = workload(name, "scan", PACES[0], seed, args.segment)
    draw = random.Random(seed)
    for i, job in enumerate(file["jobs"]):
        if kind == "missing":
            job["registered"] = False
        elif kind == "half missing":
            job["registered"] = i % 2 == 0
        elif kind == "wrong":
            job["spec_partitions"] = [f"Q{draw.randrange(9)}" for _ in job["partitions"]]
    if kind == "stale":  # jobs that never come, for partitions that are read
        names = sorted({p for job in file["jobs"] for p in job["partitions"]})
        file["jobs"] += [{**file["jobs"][0], "id": f"ghost{i}", "after": [], "runs": False,
                          "partitions": draw.sample(names, min(2, len(names)))} for i in range(6)]
    return file


def specs(args, goals):
    print("\n## Specs that are missing, wrong or stale: absorbed by ours and by LRU, as a share of all requests")
    rows = []
    for kind in ("missing", "half missing", "wrong", "stale"):
        row = [kind]
        for name in WORKLOADS:
            files = [damaged(name, kind, s, args) for s in HELD_OUT[:args.seeds]]
            runs = simulate(files, ["lru", "terrane"], args.nodes)
            ours, lru, asked = absorbed(runs, "terrane"), absorbed(runs, "lru"), runs[0]["lru"]["requested_bytes"]
            row += [middle([a / asked for a in ours], 3), middle([a / asked for a in lru], 3)]
            goals.check(f"specs {kind}, {name}: ours beside LRU, lowest",
                        min(a / max(b, 1) for a, b in zip(ours, lru)), 0.95)
        rows.append(row)
    table(["specs", *(f"{name}, {policy}" for name in WORKLOADS for policy in ("ours", "LRU"))], rows)


def figure9(args, goals):
    print("\n## Figure 9: Synchronized with a write limit of 100 MB/s a node, no minimum threshold; times Dynamic")
    policies = ["dynamic", "reject-first", "admit-all", *SHIFT, "terrane"]
    for order in ORDERS:
        files = [workload("synchronized", order, PACES[0], s, args.segment, write_limit_bytes_s=1e8, min_threshold=0)
                 for s in HELD_OUT[:args.seeds]]
        runs = simulate(files, policies, args.nodes)

        def times(policy, value, runs=runs):
            return middle([value(r[policy]) / max(value(r["dynamic"]), 1) for r in runs])
        print(f"\n**{order}**")
        table(["policy", "absorbed", "written to flash", "read from disks by the cache", "MB/s a node"],
              [(p, times(p, lambda x: x["absorbed_bytes"]), times(p, lambda x: x["flash_written_bytes"]),
                times(p, lambda x: x["fetched_bytes"]), middle([r[p]["node_writes_mb_s"] for r in runs], 1))
               for p in policies])
        off = max(r["terrane"]["node_writes_mb_s"] / 100 for r in runs)
        goals.check(f"figure 9, {order}: limit / writes of ours", 1 / off, 0.95)
        best = [r["terrane"]["absorbed_bytes"] / max(r[p]["absorbed_bytes"] for p in SHIFT) for r in runs]
        goals.check(f"figure 9, {order}: ours beside the best of Shift's, lowest", min(best), 0.99)


def table4(args, _goals):
    print("\n## Table 4: Hybrid with reinsertion, 1 GB/s a node, times Hybrid without")
    rows = []
    for order in ORDERS:
        def files(offset, order=order):
            return [workload("synchronized", order, PACES[0], s, args.segment, write_limit_bytes_s=1e9,
                             min_threshold=1.1, reinsert_offset=offset) for s in HELD_OUT[:args.seeds]]
        without, with_it = (simulate(files(offset), ["hybrid"], args.nodes) for offset in (None, 1.0))
        pairs = [(a["hybrid"], b["hybrid"]) for a, b in zip(with_it, without)]
        rows.append((order, middle([a["hit_share"] / b["hit_share"] for a, b in pairs]),
                     middle([a["fetched_bytes"] / b["fetched_bytes"] for a, b in pairs]),
                     middle([a["disk_read_bytes"] / b["disk_read_bytes"] for a, b in pairs]),
                     middle([b["node_writes_mb_s"] for _, b in pairs], 0),
                     middle([a["node_writes_mb_s"] for a, _ in pairs], 0)))
    table(["order", "hit rate", "fills from disk", "all reads from disk", "MB/s a node without", "with"], rows)


def segments(args, goals):
    print("\n## Sizes of segments: absorbed as a share of all requests\n\nSynchronized, scan; requests of 1 MiB, or of "
          "one segment where that is larger; the last column reads 1,000,000 bytes at once.")
    sizes = [MIB // 4, MIB, 4 * MIB]
    policies = ["lru", "hybrid", "terrane", BOUND]
    files = [workload("synchronized", "scan", PACES[0], HELD_OUT[0], s) for s in sizes]
    odd = workload("synchronized", "scan", PACES[0], HELD_OUT[0], MIB // 4)
    for job in odd["jobs"]:
        job["request_bytes"] = 1000000
    runs = simulate([*files, odd], policies, args.nodes)
    table(["policy", *(f"{s // 1024} KiB" for s in sizes), "256 KiB, 10^6 bytes"],
          [(p, *(f"{r[p]['absorbed_share']:.4f}" for r in runs)) for p in policies])
    for p in policies:
        a, b = runs[0][p]["absorbed_bytes"], runs[2][p]["absorbed_bytes"]
        goals.check(f"4 MiB beside 256 KiB, {p}", 1 - abs(b / max(a, 1) - 1), 0.99)


def speed(args, goals):
    print("\n## Speed of the simulator: million segment requests a second on one core (libCacheSim publishes 20)")
    file = workload("synchronized", "scan", PACES[0], 1, MIB // 4)
    rows = []
    for policy, target in (("lru", 5), ("hybrid", None), ("terrane", 2), (BOUND, None)):
        begin = time.monotonic()
        before = os.times()
        run = simulate([file], [policy], args.nodes)[0][policy]
        after = os.times()
        cpu = after.children_user - before.children_user + after.children_system - before.children_system
        rate = run["segment_requests"] * args.nodes / 6 / cpu / 1e6
        rows.append((policy, f"{rate:.1f}", f"{cpu:.1f}", f"{time.monotonic() - begin:.1f}"))
        if target is not None:
            goals.check(f"speed, {policy}: million segment requests a second", rate, target)
    table(["policy", "million/s of processor time", "processor seconds", "wall seconds"], rows)


READERS, FILE_MIB, ROUNDS, WARMING_MAX = 4, 16, 3, 4


class Box:
    """A cluster of three nodes whose disks are as slow as hard disks, and a cache node, in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.cluster = folder / "box" / "cluster.ini"

    def __enter__(self):
        self.run("up", "--dir", self.folder / "box", "--nodes", 3, "--disks", 1, "--encoding", "r2", "--emulate", "hdd",
                 "--cache-nodes", 1, "--cache-flash", "512MiB")
        self.without = self.folder / "box" / "without.ini"
        text = self.cluster.read_text()
        self.cluster.write_text(text + "[cache]\ntimeout = 20s\n")  # other work on this machine makes nodes slow
        self.without.write_text(text + "[cache]\nuse = false\n")
        for i in range(READERS):
            (self.folder / f"f{i}").write_bytes(random.Random(i).randbytes(FILE_MIB * MIB))
            self.run("put", "-q", "--cluster", self.cluster, self.folder / f"f{i}", f"/f{i}")
        return self

    def __exit__(self, *_):
        self.run("down", "--dir", self.folder / "box")

    @staticmethod
    def run(*words):
        done = subprocess.run([TERRANE, *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"terrane {words[0]}: {done.stderr}")

    def read(self, cluster, order):
        """All readers read all files, each in its own order. Returns the seconds, and the bytes that the disks moved."""
        before, begin = self.disk_bytes(), time.monotonic()
        readers = []
        for i in range(READERS):
            names = [f"/f{(i * order + k) % READERS}" for k in range(READERS)]
            readers.append(subprocess.Popen([TERRANE, "cat", "--cluster", str(cluster), *names],
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        sizes = []
        with ThreadPoolExecutor(READERS) as pool:
            sizes = list(pool.map(lambda r: sum(len(b) for b in iter(lambda: r.stdout.read(MIB), b"")), readers))
        for reader, size in zip(readers, sizes):
            if reader.wait() != 0 or size != READERS * FILE_MIB * MIB:
                sys.exit(f"a reader read {size} bytes: {reader.stderr.read().decode()}")
        return time.monotonic() - begin, self.disk_bytes() - before

    def disk_bytes(self):
        total = 0
        for number in range(1, 4):
            lines = (self.folder / "box" / "conf" / f"node-{number}.ini").read_text().splitlines()
            addr = next(line.split("=")[1].strip() for line in lines if line.startswith("metrics"))
            with urllib.request.urlopen(f"http://{addr}/metrics", timeout=60) as answer:
                total += sum(float(line.rpartition(" ")[2]) for line in answer.read().decode().splitlines()
                             if line.startswith("terrane_disk_bytes_total{"))
        return total


def readers(_args, goals):
    print(f"\n## {READERS} readers of {READERS * FILE_MIB} MiB each on three emulated hard disks: seconds with a warm tier "
          f"and without, in turns")
    with tempfile.TemporaryDirectory() as folder, Box(Path(folder)) as box:
        for _ in range(WARMING_MAX):
            if box.read(box.cluster, 1)[1] == 0:
                break
        rows = [(box.read(box.cluster, 1), box.read(box.without, 1)) for _ in range(ROUNDS)]
    ratio = [b[0] / a[0] for a, b in rows]
    table(["round", "with, seconds", "without, seconds", "times faster", "MiB of the disks with", "without"],
          [(i + 1, f"{a[0]:.2f}", f"{b[0]:.2f}", f"{b[0] / a[0]:.2f}", f"{a[1] / MIB:.0f}", f"{b[1] / MIB:.0f}")
           for i, (a, b) in enumerate(rows)])
    print(f"\nmedian: {statistics.median(ratio):.2f} times faster with a warm tier")
    goals.check("readers: share of disk reads that the tier absorbs", min(1 - a[1] / max(b[1], 1) for a, b in rows), 0.9)


def engine(_args, _goals):
    """It prints its own table, with its targets."""
    print(flush=True)
    command = [BUILD / "release" / "bench" / "bench_cache", BUILD / "bench-cache"]
    status = subprocess.run(command, check=False).returncode
    if status not in (0, 1):  # 1: a target was missed, as the table says
        sys.exit(status)


def main():
    parts = {"figure8": figure8, "specs": specs, "figure9": figure9, "table4": table4, "segments": segments, "speed": speed,
             "readers": readers, "engine": engine}
    parser = argparse.ArgumentParser(prog="./dev bench shift", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in parts:
        parser.add_argument(f"--{name}", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--segment", type=int, default=4 * MIB, metavar="BYTES",
                        help="size of segments and requests of the sweeps (default 4 MiB)")
    parser.add_argument("--seeds", type=int, default=2, choices=range(1, len(HELD_OUT) + 1), metavar="N",
                        help="held-out seeds (default 2)")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="nodes of six that are simulated (default 1)")
    parser.add_argument("--paces", type=int, default=len(PACES), choices=range(1, len(PACES) + 1), metavar="N",
                        help="figure 8: pairs of pace spread and launch skew (default all)")
    parser.add_argument("--orders", default="scan,random", metavar="LIST", help="figure 8: orders (default scan,random)")
    args = parser.parse_args()
    goals = Goals()
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "?")
    print(f"shift on {cpu}, {CORES} cores, Linux {platform.release()}; segments of {args.segment} bytes, "
          f"{args.nodes} of 6 nodes")
    chosen = [name for name in parts if getattr(args, name)] or [name for name in parts if name not in ("engine", "readers")]
    for name in chosen:
        begin = time.monotonic()
        parts[name](args, goals)
        print(f"\n({name}: {time.monotonic() - begin:.0f} s)", flush=True)
    goals.show()


if __name__ == "__main__":
    main()
