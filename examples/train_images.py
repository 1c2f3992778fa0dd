#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on JPEG files twice: with all files sent as they are, and with images worked on near the data.
Prints the bytes that each epoch took from the storage nodes, and compares the weights: they are the same, bit for bit.

    export TERRANE_CLUSTER=/tmp/box/cluster.ini      # see README.md, "A cluster in a folder"
    PYTHONPATH=build/python python3 examples/train_images.py [--data PATH] [--epochs N] [--bandwidth BYTES]

If PATH does not exist, it is built of generated images with `terrane dataset build` (--terrane names the program). The
loader measures the network and moves work to the nodes only if that is the slowest part; in a cluster on one machine it
is not, so the example tells the loader that it has --bandwidth bytes per second.
"""
import argparse
import random
import subprocess
import tempfile
from pathlib import Path

import torch

import terrane
import terrane.torch

SIZE, CLASSES, IMAGES = 64, 2, 48


def generate(folder):
    """Writes JPEG files of 480×360 pixels: smooth for one class, and with noise for the other."""
    from PIL import Image
    for i in range(IMAGES):
        chance, label = random.Random(i), i % CLASSES
        tiles = Image.frombytes("RGB", (8, 6), chance.randbytes(144)).resize((480, 360), Image.BICUBIC)
        noise = Image.frombytes("RGB", (480, 360), chance.randbytes(480 * 360 * 3))
        file = Path(folder) / f"class-{label}" / f"{i}.jpg"
        file.parent.mkdir(exist_ok=True)
        Image.blend(tiles, noise, 0.1 + 0.2 * label).save(file, quality=92)


def build(path, program):
    with tempfile.TemporaryDirectory() as folder:
        generate(folder)
        subprocess.run([program, "dataset", "build", folder, path], check=True)


def train(dataset, near_data, epochs, bandwidth):
    """Trains and prints the traffic of each epoch. Returns the weights."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(4), torch.nn.Flatten(),
        torch.nn.Linear(8 * 7 ** 2, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    loader = terrane.torch.ImageLoader(dataset, 16, transform="resnet-train", near_data=near_data, size=SIZE, seed=5,
                                       threads=2, bandwidth=bandwidth)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
    for epoch in loader.traffic_before:
        print(f"near_data={near_data}: epoch {epoch.epoch} took {epoch.bytes:,} bytes for {epoch.file_bytes:,} bytes of files, "
              f"{epoch.offloaded} of {epoch.samples} images worked on near the data")
    return model.state_dict(), loader.traffic_before[-1].bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/sets/images", help="the data set (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="epochs to train (default: %(default)s)")
    parser.add_argument("--bandwidth", type=float, default=2e6,
                        help="bytes per second that the loader plans with; 0: it measures (default: %(default)s)")
    parser.add_argument("--terrane", default="terrane", help="the program terrane, to build the data set")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with terrane.connect() as cluster:
        if not cluster.exists(args.data):
            build(args.data, args.terrane)
        with terrane.Dataset(args.data, cluster=cluster) as dataset:
            far, far_bytes = train(dataset, "off", args.epochs, args.bandwidth)
            near, near_bytes = train(dataset, "auto", args.epochs, args.bandwidth)
    same = all(torch.equal(a, b) for a, b in zip(far.values(), near.values()))
    print(f"the last epoch took {far_bytes / near_bytes:.1f} times less; weights are {'the same' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
