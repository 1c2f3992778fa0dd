#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains two jobs at once on one data set, each in its own order, and prints how often each byte was read from disk.

    terrane up --dir /tmp/box --cache-nodes 1 --cache-flash 256MiB
    export TERRANE_CLUSTER=/tmp/box/cluster.ini
    PYTHONPATH=build/python python3 examples/train_two.py [--data PATH] [--epochs N]

Both jobs read window after window in the default order of terrane.Loader, so a cache of two windows serves them. If the data
set does not exist, it is built of generated images (--terrane names the program). Without cache nodes each job reads each
byte from the disks in each epoch.
"""
import argparse
import json
import multiprocessing
import random
import subprocess
import tempfile
from pathlib import Path

import torch

import terrane
import terrane.torch

SIDE, CELL, CLASSES, IMAGES = 128, 16, 4, 640


def generate(folder):
    """Writes images as PGM files: noise, with a bright quarter that is the class."""
    chance = random.Random(1)
    for i in range(IMAGES):
        label = i % CLASSES
        rows = [bytearray(chance.randbytes(SIDE)) for _ in range(SIDE)]
        for y, row in enumerate(rows):
            half = SIDE // 2 * (label % 2)
            if (y >= SIDE // 2) != (label >= 2):
                half = -1
            for x in range(SIDE):
                if half < 0 or not half <= x < half + SIDE // 2:
                    row[x] //= 2
        file = Path(folder) / f"quarter-{label}" / f"{i}.pgm"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"P5 %d %d 255\n" % (SIDE, SIDE) + b"".join(rows))


def decode(sample):
    """The means of the cells of an image, and its label."""
    pixels = torch.frombuffer(sample.data, dtype=torch.uint8)[-SIDE * SIDE:].reshape(1, 1, SIDE, SIDE).float() / 255 - 0.3
    return torch.nn.functional.avg_pool2d(pixels, CELL)[0], sample.label


def train(number, args, together, results):
    """A job: a process with a model and a loader of its own. Its seed is its number."""
    torch.set_num_threads(1)
    torch.manual_seed(number)
    side = SIDE // CELL
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(8 * (side - 2) ** 2, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    with terrane.connect() as cluster, terrane.Dataset(args.data, cluster=cluster) as dataset:
        loader = terrane.torch.Loader(dataset, 32, seed=number, decode=decode, threads=2, job_name=f"quarters-{number}",
                                      epochs=args.epochs)
        together.wait()
        while loader.epoch < args.epochs:
            for images, labels in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
        loader.close()
        stats = cluster.stats()
        results.put((number, loss.item(), stats["read_bytes"], stats["cache_bytes"]))


def fetched(args):
    """Bytes that the cache nodes have read from the disks so far."""
    done = subprocess.run([args.terrane, "cache", "status", "--json"], capture_output=True, text=True, check=False)
    return sum(node.get("fetched_bytes", 0) for node in json.loads(done.stdout)) if done.returncode == 0 else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/sets/large-quarters", help="the data set (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="epochs to train (default: %(default)s)")
    parser.add_argument("--terrane", default="terrane", help="the program terrane, to build the data set and ask cache nodes")
    args = parser.parse_args()
    with terrane.connect() as cluster:
        if not cluster.exists(args.data):
            with tempfile.TemporaryDirectory() as folder:
                generate(folder)
                subprocess.run([args.terrane, "dataset", "build", folder, args.data, "-q"], check=True)
        with terrane.Dataset(args.data, cluster=cluster) as dataset:
            size = int(dataset.lookup(range(len(dataset)))["size"].sum())
    before = fetched(args)
    spawn = multiprocessing.get_context("spawn")
    together, results = spawn.Barrier(2), spawn.Queue()
    jobs = [spawn.Process(target=train, args=(number, args, together, results)) for number in (1, 2)]
    for job in jobs:
        job.start()
    told = [results.get() for _ in jobs]
    for job in jobs:
        job.join()
    from_disks = fetched(args) - before
    for number, loss, read, cached in sorted(told):
        from_disks += read - cached
        print(f"job {number}: loss {loss:.3f}, read {read / 1e6:.1f} MB, of these {cached / 1e6:.1f} MB from cache nodes")
    print(f"each byte of the data set was read from disk {from_disks / size:.2f} times; "
          f"{len(told)} jobs with {args.epochs} epochs each used it {len(told) * args.epochs} times")
    return 0 if all(loss < 0.5 for _, loss, _, _ in told) else 1


if __name__ == "__main__":
    raise SystemExit(main())
