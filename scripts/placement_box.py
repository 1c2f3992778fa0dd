# SPDX-License-Identifier: Apache-2.0
"""./dev bench placement --only box: the jobs of a generated trace as real files on a cluster in a folder.

Sizes, reads and times of the trace are scaled down (SCALE, FASTER). The cluster has emulated hard disks and flash disks of
emulated NVMe, each on a file system of its own in memory: flash fills up, and an emulated disk never waits for the disk of the
machine. The same jobs run under each policy, on three clusters at the same time, so that what else the machine does slows all
of them alike. The storage nodes measure requests, bytes and busy time of their hard disks. A disk is busy while it has a
request, so on a busy machine the busy time contains waiting for processors; the disk time by requests and bytes (those of the
emulated disk: POSITION_S, DISK_RATE) does not. Needs root, to mount file systems, and memory for all files.
"""
import csv
import heapq
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from placement_bench import DATA, ROOT, TERRANE, run, trace

SEED, JOBS = 301, 8000  # of the generated cluster, which no setting was tuned on
SCALE, FASTER = 1e-4, 60
SECONDS = 360
NODES, REPLICAS, DISKS = 4, 3, 3
KEEP_FREE = 1 << 20    # of every disk; it counts as used, so it must be small beside the flash
FLASH_SHARE = 0.1      # of the most bytes alive at one time
GRACE = 180            # seconds for which deleted files keep their space, the least that janitors allow
READ_MAX = 1 << 20
POSITION_S, DISK_RATE = 0.01265, 200e6  # src/store/drive.h: a random request, bytes a second


def scaled(path):
    """Rewrites a trace for the size and the pace of the run. Returns its path."""
    to = path.with_suffix(".box.csv")
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    begin = float(rows[0]["start_s"])
    for r in rows:
        for key in ("size_bytes", "bytes_read", "bytes_written", "reads", "writes"):
            r[key] = max(int(float(r[key]) * SCALE), 1)
        for key in ("start_s", "end_s"):
            r[key] = f"{begin + (float(r[key]) - begin) / FASTER:.3f}"
    with open(to, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return to


def jobs_of(path):
    """The jobs of the first SECONDS of a scaled trace."""
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    begin = float(rows[0]["start_s"])
    return [{"start": float(r["start_s"]) - begin, "life": max(float(r["end_s"]) - float(r["start_s"]), 1),
             "size": min(int(r["size_bytes"]), 8 << 20), "reads": int(r["reads"]),
             "read": int(r["bytes_read"]) // max(int(r["reads"]), 1), "name": f"/{r['job']}",
             "features": {k: float(v) if k[0] == "n" else v for k, v in r.items() if k[:2] in ("n_", "s_") and v}}
            for r in rows if float(r["start_s"]) - begin < SECONDS]


def peak_of(jobs):
    """The most bytes that are on the cluster at one time; deleted files count until they are collected."""
    events = sorted([(j["start"], j["size"]) for j in jobs] + [(j["start"] + j["life"] + GRACE, -j["size"]) for j in jobs])
    alive = most = 0
    for _, size in events:
        alive += size
        most = max(most, alive)
    return most


class Cluster:
    """A cluster in a folder whose disks are file systems of a fixed size."""

    def __init__(self, folder, flash_bytes, disk_bytes):
        self.folder, self.mounts = folder, []
        self.remove()
        self.command("up", "--racks", NODES, "--disks", DISKS, "--flash", 1, "--encoding", f"r{REPLICAS}", "--emulate", "hdd")
        self.command("down")
        for node in range(1, NODES + 1):
            for disk in range(1, DISKS + 1):
                self.limit(self.folder / "disks" / f"node-{node}" / str(disk),
                           KEEP_FREE + (flash_bytes if disk == DISKS else disk_bytes))
            # A disk reports its room divided by the disks that share its file system: here each has one of its own.
            self.change(f"node-{node}", f"sharers = {NODES * DISKS}", "sharers = 1")
            self.change(f"node-{node}", "keep_free = 256MiB", f"keep_free = {KEEP_FREE}")
        self.change("meta", "[usage]", f"[placement]\nsettle = {28800 // FASTER}s\n[usage]")
        self.change("janitor", "grace = 5m", f"grace = {GRACE}s")
        self.change("janitor", "round = 5s", "round = 2s")
        self.command("up")

    def command(self, verb, *words):
        done = subprocess.run([TERRANE, verb, "--dir", self.folder, *map(str, words)], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            self.close()
            sys.exit(f"terrane {verb}: {done.stderr.strip()}")
        return done.stdout

    def limit(self, folder, size):
        """Puts a folder on a file system of this size."""
        save = folder.with_name("save")
        folder.rename(save)
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
        self.mounts.append(folder)
        shutil.copytree(save, folder, dirs_exist_ok=True)
        shutil.rmtree(save)

    def change(self, role, old, new):
        path = self.folder / "conf" / f"{role}.ini"
        text = path.read_text()
        assert old in text, f"{path}: {old}"
        path.write_text(text.replace(old, new))

    def remove(self):
        for folder in self.mounts or self.folder.glob("disks/node-*/*"):
            if os.path.ismount(folder):
                subprocess.run(["umount", folder], check=True)
        self.mounts = []
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self):
        subprocess.run([TERRANE, "down", "--dir", self.folder], capture_output=True, check=False)
        self.remove()

    def used(self):
        """Requests, bytes and busy seconds by media, as the storage nodes measured them."""
        total = {m: {"requests": 0.0, "bytes": 0.0, "time_seconds": 0.0} for m in ("disk", "flash")}
        for node in range(1, NODES + 1):
            text = (self.folder / "conf" / f"node-{node}.ini").read_text()
            addr = re.search(r"^metrics = (.*)$", text, re.M)[1]
            with urllib.request.urlopen(f"http://{addr}/metrics", timeout=30) as answer:
                for line in answer.read().decode().splitlines():
                    m = re.match(r'terrane_disk_(requests|bytes|time_seconds)_total\{.*?disk="(\d+)".*\} (\S+)', line)
                    if m:
                        total["flash" if int(m[2]) % 1000 == DISKS else "disk"][m[1]] += float(m[3])
        return total


class Run:
    """Runs the jobs on a cluster: each writes its file, reads it at random over its life, and removes it.

    A step of a job begins at its time, and not before the step before it has ended: on a slow machine a file is not read
    before it is written. A job whose file could not be written has no further steps.
    """

    def __init__(self, cluster, jobs, options):
        self.cluster, self.options = cluster, options
        self.queue = [(j["start"], i, j, self.steps(j)) for i, j in enumerate(jobs)]
        heapq.heapify(self.queue)
        self.lock, self.count, self.errors = threading.Lock(), Counter(), Counter()

    @staticmethod
    def steps(job):
        """The steps of a job, the last one first: times and what to do; a number is the place of a read."""
        draw = random.Random(job["name"])
        n = job["reads"]
        reads = [(job["start"] + job["life"] * (k + 1) / (n + 1), draw.random()) for k in range(n)]
        return [(job["start"] + job["life"], "remove"), *reversed(reads), (job["start"], "write")]

    def step(self, what, job):
        if what == "write":
            with self.cluster.open(job["name"], "xb", **self.options(job)) as file:
                file.write(os.urandom(job["size"]))
            with self.cluster.open(job["name"]) as file:
                return file.stat().media
        if what == "remove":
            self.cluster.remove(job["name"])
            return what
        length = min(job["read"], job["size"], READ_MAX)
        with self.cluster.open(job["name"], buffering=0) as file:
            file.seek(int(what * (job["size"] - length)))
            file.read(length)
        return "read"

    def failed(self, what, error):
        kind = f"{what}: {os.strerror(error.errno or 0)}"
        with self.lock:
            self.errors[kind] += 1
            if self.errors[kind] == 1:
                print(f"{kind}: the first one: {error}", file=sys.stderr)

    def work(self, begin):
        while True:
            with self.lock:
                if not self.queue or self.queue[0][0] > SECONDS:
                    return
                at, i, job, steps = heapq.heappop(self.queue)
            what = steps.pop()[1]
            time.sleep(max(begin + at - time.monotonic(), 0))
            try:
                done = self.step(what, job)
            except OSError as e:
                done = "failed"
                self.failed(what if isinstance(what, str) else "read", e)
            with self.lock:
                self.count[done] += 1
                if steps and (what, done) != ("write", "failed"):
                    heapq.heappush(self.queue, (steps[-1][0], i, job, steps))

    def all(self):
        begin = time.monotonic()
        with ThreadPoolExecutor(16) as pool:
            for w in [pool.submit(self.work, begin) for _ in range(16)]:
                w.result()
        for kind, times in self.errors.most_common():
            print(f"{kind}: {times} times", file=sys.stderr)
        return self.count


def run_policy(policy, jobs, room, model):
    """Runs the jobs under a policy. room: bytes of flash and of disk on each node. Returns what was used, and counts."""
    sys.path.insert(0, str(ROOT / "build" / "python"))
    import terrane  # built by ./dev build
    model = terrane.PlacementModel(model)
    options = {
        "all on disk": lambda job: {"media": "disk"},
        "firstfit": lambda job: {"media": "flash-or-disk"},
        "terrane": lambda job: {"placement_model": model, "features": job["features"], "job_id": 1},
    }[policy]
    box = Cluster(DATA / f"box-{policy.replace(' ', '-')}", *room)
    try:
        with terrane.connect(str(box.folder / "cluster.ini")) as cluster:
            before = box.used()
            count = Run(cluster, jobs, options).all()
            after = box.used()
    finally:
        box.close()
    return {m: {k: after[m][k] - before[m][k] for k in after[m]} for m in after}, count


def part_box(report, _):
    if os.geteuid() != 0:
        sys.exit("bench placement --only box: needs root, to mount file systems of a fixed size")
    past, now = (scaled(trace(SEED, week, JOBS)) for week in (0, 1))
    model = past.with_suffix(".model")
    # Times are shorter and bytes fewer: a byte-second costs as much more as it is rarer.
    run("train", past, "-o", model, "--rate", f"flash-byte-usd=*{FASTER}", "--rate", f"disk-byte-usd=*{FASTER}",
        "--rate", "dram-s=0")
    jobs = jobs_of(now)
    peak = int(peak_of(jobs) * REPLICAS)
    flash = int(peak / NODES * FLASH_SHARE)
    policies = ("all on disk", "firstfit", "terrane")
    with ThreadPoolExecutor(len(policies)) as pool:
        results = list(pool.map(lambda policy: run_policy(policy, jobs, (flash, peak), model), policies))
    rows, base = [], None
    for policy, (used, count) in zip(policies, results):
        disk = used["disk"]
        seconds = disk["requests"] * POSITION_S + disk["bytes"] / DISK_RATE
        base = base or seconds
        rows.append([policy, f"{disk['requests']:.0f}", f"{disk['bytes'] / (1 << 20):.0f}", f"{seconds:.1f}",
                     f"{100 * (1 - seconds / base):.1f}", f"{disk['time_seconds']:.1f}",
                     *(count.get(k, 0) for k in ("flash", "disk", "read", "remove", "failed"))])
    report.table(f"real files on emulated disks: {len(jobs)} jobs in {SECONDS} s, "
                 f"{flash >> 20} MiB of flash on each of {NODES} nodes",
                 ["policy", "disk requests", "MiB", "disk time, s", "saved, %", "busy, s", "files on flash", "on disk",
                  "reads", "removed", "failed"], rows)
