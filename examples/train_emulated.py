#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on an emulated accelerator from a data set of the cluster: the reads are real, the computing is not. Prints how busy the
accelerator was, which is what the storage and this machine allow.

    export TERRANE_CLUSTER=/tmp/box/cluster.ini      # see README.md, "A cluster in a folder"
    terrane dataset build SOME-FOLDER /sets/mine
    PYTHONPATH=build/python python3 examples/train_emulated.py /sets/mine --model resnet50 --precision bf16 --batch 32

Without --model every step takes --step seconds. With --checkpoint PATH the state is saved after each epoch: it comes from the device
and is really written.
"""
import argparse

import torch

import terrane
import terrane.emu
import terrane.torch
from terrane import checkpoint


def decode(sample):
    """Stands for decoding a JPEG file: a few pixels from the bytes of the sample."""
    data = torch.frombuffer(sample.data, dtype=torch.uint8)[:3 * 8 * 8]
    return torch.nn.functional.pad(data, (0, 3 * 8 * 8 - len(data))).view(3, 8, 8).float() / 255, sample.label


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a data set of the cluster")
    parser.add_argument("--model", default="", help="of a profile: terrane emu models")
    parser.add_argument("--precision", default="", help="fp32 or bf16")
    parser.add_argument("--step", type=float, default=0.02, help="seconds of a step if there is no --model")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--checkpoint", help="directory for checkpoints")
    options = parser.parse_args()

    data = terrane.Dataset(options.data)
    loader = terrane.torch.Loader(data, options.batch, decode=decode, drop_last=True)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(8 * 36, max(len(data.labels), 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    device = terrane.emu.wrap(model, optimizer, options.model, precision=options.precision,
                              step_s=0.0 if options.model else options.step)
    for epoch in range(options.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        device.synchronize()
        if options.checkpoint:
            checkpoint.save({"model": model.state_dict(), "loader": loader.state_dict()}, options.checkpoint, epoch)
        done = device.report()
        print(f"epoch {epoch}: {done['steps']} steps, {done['samples'] / done['elapsed_s']:.0f} samples/s, "
              f"utilization {100 * done['utilization']:.1f} %")
        device.restart()


if __name__ == "__main__":
    main()
