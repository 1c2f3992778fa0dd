#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on a data set of generated images, stops in the middle, resumes at another batch of the epoch, and
compares the weights with those of a run that was not interrupted: they are the same, bit for bit.

    export TERRANE_CLUSTER=/tmp/box/cluster.ini      # see README.md, "A cluster in a folder"
    PYTHONPATH=build/python python3 examples/train.py [--data PATH] [--checkpoint PATH] [--epochs N]

If PATH of the data set does not exist, it is built with `terrane dataset build` (--terrane names the program).
"""
import argparse
import io
import random
import subprocess
import tempfile
from pathlib import Path

import torch

import terrane
import terrane.torch

SIDE, CLASSES, IMAGES = 16, 4, 600


def generate(folder):
    """Writes images as PGM files: noise, with a bright quarter that is the class."""
    chance = random.Random(1)
    for i in range(IMAGES):
        label = i % CLASSES
        pixels = bytearray(chance.randbytes(SIDE * SIDE))
        for y in range(SIDE):
            for x in range(SIDE):
                if (x >= SIDE // 2) + 2 * (y >= SIDE // 2) != label:
                    pixels[y * SIDE + x] //= 2
        file = Path(folder) / f"quarter-{label}" / f"{i}.pgm"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"P5 %d %d 255\n" % (SIDE, SIDE) + pixels)


def build(path, program):
    with tempfile.TemporaryDirectory() as folder:
        generate(folder)
        subprocess.run([program, "dataset", "build", folder, path], check=True)


def decode(sample):
    """What the model needs of a sample: the pixels behind the header, and the label."""
    pixels = torch.frombuffer(sample.data, dtype=torch.uint8)[-SIDE * SIDE:]
    return pixels.reshape(1, SIDE, SIDE).float() / 255 - 0.3, sample.label


class Job:
    """A model, its optimizer and its place in the data set, which are saved and loaded together."""

    def __init__(self, dataset):
        torch.manual_seed(7)
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
            torch.nn.Linear(8 * (SIDE // 2 - 1) ** 2, CLASSES))
        self.optimizer = torch.optim.Adam(self.model.parameters(), 0.003)
        self.loader = terrane.torch.Loader(dataset, 32, seed=5, decode=decode, threads=2)

    def save(self, cluster, path):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                 "loader": self.loader.state_dict()}
        with cluster.open(path, "wb") as file:  # visible and durable when it is closed, else not at all
            torch.save(state, file)

    def load(self, cluster, path):
        state = torch.load(io.BytesIO(cluster.read(path)))
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])

    def train(self, epochs, stop_after=None):
        """Trains to the end of the last epoch, or for some steps. Returns the steps and the loss of the last one."""
        steps = loss = 0
        while self.loader.epoch < epochs:
            for images, labels in self.loader:
                self.optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(self.model(images), labels)
                loss.backward()
                self.optimizer.step()
                steps += 1
                if steps == stop_after:
                    return steps, loss.item()
        return steps, loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/sets/quarters", help="the data set (default: %(default)s)")
    parser.add_argument("--checkpoint", default="/sets/quarters.pt", help="the checkpoint (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="epochs to train (default: %(default)s)")
    parser.add_argument("--stop-after", type=int, default=25, help="step of the interruption (default: %(default)s)")
    parser.add_argument("--terrane", default="terrane", help="the program terrane, to build the data set")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with terrane.connect() as cluster:
        if not cluster.exists(args.data):
            build(args.data, args.terrane)
        with terrane.Dataset(args.data, cluster=cluster) as dataset:
            whole = Job(dataset)
            steps, loss = whole.train(args.epochs)
            print(f"uninterrupted: {steps} steps, loss {loss:.3f}")
            first = Job(dataset)
            first.train(args.epochs, args.stop_after)
            first.save(cluster, args.checkpoint)
            print(f"stopped after {args.stop_after} steps: {first.loader.state_dict()}")
            second = Job(dataset)
            second.load(cluster, args.checkpoint)
            steps, loss = second.train(args.epochs)
            print(f"resumed: {steps} more steps, loss {loss:.3f}")
    pairs = zip(whole.model.state_dict().values(), second.model.state_dict().values())
    same = all(torch.equal(a, b) for a, b in pairs)
    print(f"weights are {'the same' if same else 'DIFFERENT'}")
    return 0 if same and loss < 0.5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
