# SPDX-License-Identifier: Apache-2.0
"""The Python package: ./dev bench python [--large N] [--small N] [--index N] [--checkpoint MIB] [--processes N...]
    [--seconds S] [--dir DIR]

Data sets of samples of about 110 KB and of 4 KB, read by terrane.Loader, by PyTorch's loader on our data set, by a C program
that makes the same batched reads, from a folder of files on this file system through torchvision's pattern, and from tar
files; by one process and by four. Then opening and resuming a data set of many samples, checkpoints of four ranks, and
building. 0 leaves a part out. The full scale is --large 100000 --small 1000000 --index 1000000 --checkpoint 4096.

All in one run, on a cluster in a folder on this machine. What is read comes from the page cache unless it says "cold".
"""
import argparse
import json
import mmap
import os
import random
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TERRANE = ROOT / "build" / "terrane"
C_READER = ROOT / "build" / "release" / "bench" / "dataset_read"
BATCH = {"large": 64, "small": 256}
BYTES = {"large": 110_000, "small": 4096}
MIB = 1 << 20


# --- readers: each runs in a process of its own and prints a line of JSON

def measured(batches, seconds):
    """Takes batches, lists of the sizes of their samples, for some seconds."""
    begin = first = None
    samples = size = 0
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    begin = time.monotonic()
    for count, total in batches():
        samples, size = samples + count, size + total
        first = first or time.monotonic() - begin
        if time.monotonic() - begin >= seconds:
            break
    wall = time.monotonic() - begin
    return {"samples": samples, "bytes": size, "seconds": wall, "first": first, "before": before}


def finish(result):
    """Adds the processor time, when the workers have ended and are counted."""
    before = result.pop("before")
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    result["cpu"] = sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after))
    print(json.dumps(result))


def for_ever(make):
    while True:
        yield from make()


def read_loader(path, batch, rank, world, seconds):
    import terrane
    loader = terrane.Loader(terrane.Dataset(path), batch, seed=1, rank=rank, world=world, repeat=True)
    finish(measured(lambda: ((len(one), one.data.nbytes) for one in loader), seconds))


class Sizes:
    """Decodes nothing: what remains is the cost of the loaders."""

    def __call__(self, sample):
        return sample.data if isinstance(sample.data, bytes) else bytes(sample.data)


def sized(samples):
    return len(samples), sum(map(len, samples))


def read_torch(path, batch, rank, world, seconds, workers):
    import terrane
    import terrane.torch
    import torch
    data = terrane.torch.IterableDataset(terrane.Dataset(path), batch, seed=1, rank=rank, world=world, decode=Sizes(),
                                         collate=sized)
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers)
    result = measured(lambda: for_ever(lambda: loader), seconds)
    del loader
    finish(result)


class Folder:
    """torchvision's pattern: a list of paths, each file is opened and read when its sample is wanted."""

    def __init__(self, folder):
        self.paths = [entry.path for label in os.scandir(folder) for entry in os.scandir(label.path)]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        with open(self.paths[i], "rb") as file:
            return file.read()


def read_folder(folder, batch, rank, world, seconds, workers):
    import torch
    data = Folder(folder)
    sampler = torch.utils.data.DistributedSampler(data, world, rank, shuffle=True)
    loader = torch.utils.data.DataLoader(data, batch_size=batch, sampler=sampler, num_workers=workers, collate_fn=sized)
    result = measured(lambda: for_ever(lambda: loader), seconds)
    finish(result)


def read_tar(folder, batch, rank, world, seconds):
    """WebDataset's pattern: whole shards in sequence."""
    shards = sorted(Path(folder).iterdir())[rank::world]
    if not shards:
        sys.exit("bench python: fewer tar files than processes: give more samples")

    def samples():
        for path in shards:
            with tarfile.open(path, "r|") as tar:
                for member in tar:
                    if not member.name.endswith(".cls"):
                        yield len(tar.extractfile(member).read())

    def batches():
        some = []
        for size in samples():
            some.append(size)
            if len(some) == batch:
                yield len(some), sum(some)
                some = []
        if some:
            yield len(some), sum(some)
    finish(measured(lambda: for_ever(batches), seconds))


READERS = {
    "terrane.Loader": lambda a: read_loader(a.path, a.batch, a.rank, a.world, a.seconds),
    "DataLoader on it, 1 worker": lambda a: read_torch(a.path, a.batch, a.rank, a.world, a.seconds, 1),
    "DataLoader on a folder, 1 worker": lambda a: read_folder(a.folder, a.batch, a.rank, a.world, a.seconds, 1),
    "tar files": lambda a: read_tar(a.tars, a.batch, a.rank, a.world, a.seconds),
}


# --- the run

class Run:
    def __init__(self, args):
        self.args = args
        self.folder = Path(args.dir) if args.dir else Path(tempfile.mkdtemp(prefix="bench-python-", dir="/var/tmp"))
        self.box = self.folder / "box"
        self.env = {**os.environ, "TERRANE_CLUSTER": str(self.box / "cluster.ini"),
                    "PYTHONPATH": str(ROOT / "build" / "python"), "OMP_NUM_THREADS": "1"}

    def terrane(self, *words):
        done = subprocess.run([TERRANE, *map(str, words)], env=self.env, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"terrane {words[0]}: {done.stderr}")
        return done.stdout

    def up(self):
        self.terrane("up", "--dir", self.box, "--racks", 6, "--disks", 2)

    def down(self):
        if (self.box / "box.ini").exists():
            subprocess.run([TERRANE, "down", "--dir", self.box], env=self.env, capture_output=True, check=False)

    # --- sources and builds

    def make(self, name, count):
        """Writes a folder of files, whose sizes are spread around that of the set; returns it and its bytes."""
        folder, chance, size = self.folder / name, random.Random(name), 0
        noise = chance.randbytes(4 * MIB)
        for label in range(10):
            (folder / f"class-{label}").mkdir(parents=True)
        for i in range(count):
            length = BYTES[name] if name == "small" else round(BYTES[name] * chance.uniform(0.6, 1.4))
            begin = chance.randrange(len(noise) - length)
            (folder / f"class-{i % 10}" / f"{i:07}.bin").write_bytes(noise[begin:begin + length])
            size += length
        os.sync()
        return folder, size

    def build(self, name, folder, size):
        begin = time.monotonic()
        tar = self.folder / f"{name}.tar"
        subprocess.run(["tar", "-cf", tar, "-C", folder, "."], check=True)
        with open(tar, "rb") as file:
            os.fsync(file.fileno())
        tar_s = time.monotonic() - begin
        tar.unlink()
        begin = time.monotonic()
        self.terrane("dataset", "build", folder, f"/sets/{name}", "--quiet")
        build_s = time.monotonic() - begin
        self.terrane("dataset", "export", f"/sets/{name}", self.folder / f"{name}-tars", "--tar", "--shard",
                     max(size // 32, 65536), "--quiet")
        return [name, f"{size / MIB:.0f}", f"{size / MIB / build_s:.0f}", f"{size / MIB / tar_s:.0f}",
                f"{tar_s / build_s:.2f}"]

    # --- reading

    def start(self, reader, name, rank, world):
        seconds = self.args.seconds
        if reader == "C program":
            words = [C_READER, f"/sets/{name}", BATCH[name], 4, rank, world, seconds]
        else:
            words = [sys.executable, "-B", __file__, "--reader", reader, "--path", f"/sets/{name}", "--folder",
                     self.folder / name, "--tars", self.folder / f"{name}-tars", "--batch", BATCH[name], "--rank", rank,
                     "--world", world, "--seconds", seconds]
        return subprocess.Popen([*map(str, words)], env=self.env, text=True, stdout=subprocess.PIPE)

    def read(self, reader, name, world):
        processes = [self.start(reader, name, rank, world) for rank in range(world)]
        results = []
        for process in processes:
            out, _ = process.communicate()
            if process.returncode != 0:
                raise RuntimeError(f"{reader} failed")
            results.append(json.loads(out.splitlines()[-1]))
        samples = sum(one["samples"] for one in results)
        return {"rate": sum(one["samples"] / one["seconds"] for one in results),
                "mib": sum(one["bytes"] / one["seconds"] for one in results) / MIB,
                "cpu": 1e6 * sum(one["cpu"] for one in results) / samples}

    def readers(self, name):
        rows = []
        for world in self.args.processes:
            # The C program runs before and after terrane.Loader, which is compared with their mean: others use the machine.
            one = self.read("C program", name, world)
            results = {reader: self.read(reader, name, world) for reader in READERS}
            again = self.read("C program", name, world)
            base = {key: (one[key] + again[key]) / 2 for key in one}
            if sys.stderr.isatty():
                print(f"{name}: {world} processes done", file=sys.stderr)
            for reader, got in {"C program": base, **results}.items():
                rows.append([name, str(world), reader, f"{got['rate']:.0f}", f"{got['mib']:.0f}", f"{got['cpu']:.1f}",
                             f"{got['rate'] / base['rate']:.2f}"])
        return rows

    # --- opening and resuming

    def index(self, count):
        lines = self.folder / "lines.jsonl"
        with open(lines, "w", encoding="ascii") as file:
            for i in range(count):
                file.write(f'{{"id": {i}, "label": {i % 1000}}}\n')
        self.terrane("dataset", "build", lines, "/sets/lines", "--quiet")
        code = """
import json, time, terrane
begin = time.monotonic()
loader = terrane.Loader(terrane.Dataset("/sets/lines"), 256, seed=1)
next(iter(loader))
first = time.monotonic() - begin
state = {**loader.state_dict(), "position": len(loader.dataset) // 2 + 1}
begin = time.monotonic()
loader = terrane.Loader(terrane.Dataset("/sets/lines"), 64, rank=1, world=3)
loader.load_state_dict(state)
next(iter(loader))
print(json.dumps([first, time.monotonic() - begin]))
"""
        done = subprocess.run([sys.executable, "-c", code], env=self.env, text=True, stdout=subprocess.PIPE, check=True)
        first, resumed = json.loads(done.stdout)
        return [f"{count:,}", f"{first:.3f}", f"{resumed:.3f}"]

    # --- checkpoints

    def direct_rate(self, size):
        """MiB/s of sequential writes of 4 MiB past the page cache, with a final fsync."""
        path, piece = self.folder / "direct", mmap.mmap(-1, 4 * MIB)
        piece.write(random.Random(1).randbytes(4 * MIB))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
        begin = time.monotonic()
        for _ in range(size // (4 * MIB)):
            os.write(fd, piece)
        os.fsync(fd)
        seconds = time.monotonic() - begin
        os.close(fd)
        path.unlink()
        return size / MIB / seconds

    def drop_cache(self, folder):
        for path in folder.rglob("*"):
            if path.is_file():
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def four(self, code):
        """Runs a program as four ranks that begin together. Returns the seconds of the slowest."""
        code = CHECKPOINT + code + "\nprint(time.monotonic(), flush=True)\n"
        ranks = [subprocess.Popen([sys.executable, "-c", code, str(rank), str(self.args.checkpoint),
                                   str(self.folder)], env=self.env, text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) for rank in range(4)]
        for rank in ranks:
            rank.stdout.readline()
        begin = time.monotonic()
        for rank in ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()
        ends = [rank.stdout.readline() for rank in ranks]  # not the ends of the processes, which take long
        if any([rank.wait() for rank in ranks]):
            raise RuntimeError("a rank of the checkpoint failed")
        return max(map(float, ends)) - begin

    def checkpoints(self):
        size = self.args.checkpoint * MIB
        direct = [self.direct_rate(size)]
        saved = size / MIB / self.four("checkpoint.save(state, '/runs/a', 1, rank=rank, world=4, cluster=cluster)\n"
                                       "if rank == 0: commit()")
        files = size / MIB / self.four("file = open(f'{folder}/{rank}.pt', 'wb'); torch.save(state, file); file.flush(); "
                                       "os.fsync(file.fileno())")
        direct.append(self.direct_rate(size))
        os.sync()
        self.drop_cache(self.box)
        loaded = size / MIB / self.four("checkpoint.load('/runs/a', 1, rank=rank, world=4, cluster=cluster)")
        self.drop_cache(self.folder)
        read = size / MIB / self.four("torch.load(f'{folder}/{rank}.pt')")
        limit = sum(direct) / 2 / 1.5
        return [["written: terrane.checkpoint.save", f"{saved:.0f}", f"{saved / limit:.2f}"],
                ["written: torch.save and fsync", f"{files:.0f}", f"{files / limit:.2f}"],
                ["the disk's direct rate / 1.5", f"{limit:.0f}", "1.00"],
                ["read cold: terrane.checkpoint.load", f"{loaded:.0f}", ""],
                ["read cold: torch.load", f"{read:.0f}", ""]]

    def all(self):
        args = self.args
        self.up()
        print(f"{args.large} samples of about 110 KB, {args.small} of 4 KB; {args.seconds:g} s each; batches of "
              f"{BATCH['large']} and {BATCH['small']}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
        builds, reads = [], []
        for name, count in (("large", args.large), ("small", args.small)):
            if count == 0:
                continue
            folder, size = self.make(name, count)
            builds.append(self.build(name, folder, size))
            reads += self.readers(name)
        if reads:
            table(["set", "processes", "reader", "samples/s", "MiB/s", "CPU us/sample", "of the C program"], reads)
            table(["set", "MiB", "dataset build MiB/s", "tar and fsync MiB/s", "ratio"], builds)
        if args.index:
            table(["samples", "open and first batch s", "resume in the middle s"], [self.index(args.index)])
        if args.checkpoint:
            print(f"A checkpoint of {args.checkpoint} MiB, four ranks:\n")
            table(["", "MiB/s", "of the limit"], self.checkpoints())


CHECKPOINT = """
import os, sys, time, torch, terrane
from terrane import checkpoint
rank, mib, folder = int(sys.argv[1]), int(sys.argv[2]) // 4, sys.argv[3]
cluster = terrane.connect()
state = {str(i): torch.randn(4 << 18) for i in range(mib // 4)}
def commit():
    while True:
        try:
            return checkpoint.commit("/runs/a", 1, 4, cluster=cluster)
        except FileNotFoundError:
            time.sleep(0.01)
print("ready", flush=True)
sys.stdin.readline()
"""


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", type=int, default=2000, help="samples of about 110 KB (default: %(default)s)")
    parser.add_argument("--small", type=int, default=20000, help="samples of 4 KB (default: %(default)s)")
    parser.add_argument("--index", type=int, default=1_000_000, help="samples of the set to open (default: %(default)s)")
    parser.add_argument("--checkpoint", type=int, default=512, help="MiB of a checkpoint (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3, help="seconds of each reader (default: %(default)s)")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4], help="numbers of processes (default: 1 4)")
    parser.add_argument("--dir", help="folder for all files, on the disk to measure (default: one in /var/tmp)")
    for name in ("reader", "path", "folder", "tars"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    for name in ("batch", "rank", "world"):
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.reader:
        READERS[args.reader](args)
        return 0
    run = Run(args)
    try:
        run.all()
        return 0
    except RuntimeError as error:
        print(f"bench python: {error}", file=sys.stderr)
        return 1
    finally:
        run.down()
        shutil.rmtree(run.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
