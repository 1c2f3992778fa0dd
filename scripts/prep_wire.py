# SPDX-License-Identifier: Apache-2.0
"""The part of ./dev bench prep that trains: a cluster of 25 disks in (4+1)/(4+1), and epochs of the loader of
terrane.torch, in a network namespace of its own whose only link has the given rate. Every byte on that link is counted,
headers of TCP and IP and metadata included. bench_prep.py starts this."""
import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TERRANE = ROOT / "build" / "terrane"
SHAPE = ["--racks", "5", "--nodes", "5", "--pools", "4+1", "--encoding", "mlec:4+1/4+1"]
SEED, SIZE, BATCH = 11, 224, 16
# name of the row, near_data, policy of the plan
WAYS = [("no-off", "off", None), ("resize-off", "pixels", None), ("cut for all", "cut", None), ("sophon", "auto", "sophon"),
        ("terrane", "auto", "terrane")]


def link_bytes():
    """Bytes on the link since the start."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])


def run(*words):
    done = subprocess.run([TERRANE, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)


def train(dataset, near_data, policy, epochs):
    """Runs epochs, the first of which measures. Returns what the others took, each: bytes on the link, seconds, traffic,
    hash of the tensors."""
    import terrane.torch
    loader = terrane.torch.ImageLoader(dataset, BATCH, near_data=near_data, size=SIZE, seed=SEED, threads=2, prefetch=2)
    if policy:
        loader._near.policy = policy
    out = []
    for epoch in range(epochs + 1):
        made, before, begun = hashlib.sha256(), link_bytes(), time.monotonic()
        for images, _ in loader:
            made.update(images.numpy().tobytes())
        taken = link_bytes() - before, time.monotonic() - begun, loader.traffic_before[-1], made.hexdigest()
        if epoch > 0:
            out.append(taken)
    return out, loader


def compare(cluster, folder, epochs):
    """Prints a row for each way. Returns whether all tensors are the same."""
    import terrane
    name = f"/sets/{folder.name}"
    run("dataset", "build", folder, name)
    same, base = True, None
    with terrane.Dataset(name, cluster=cluster) as dataset:
        print(f"  {len(dataset)} files, {dataset.info['bytes'] / len(dataset):.0f} bytes each\n"
              f"    {'policy':12} {'bytes':>12} {'of no-off':>9} {'less':>6} {'near':>6} {'seconds':>8} {'node CPU s':>10}")
        for row, near_data, policy in WAYS:
            taken, _ = train(dataset, near_data, policy, epochs)
            base = base or taken
            same = same and [t[3] for t in taken] == [t[3] for t in base]
            link, ours = (sum(t[0] for t in x) / epochs for x in (base, taken))
            near = sum(t[2].offloaded for t in taken) / sum(t[2].samples for t in taken)
            print(f"    {row:12} {ours:>12.0f} {ours / link:>9.3f} {link / ours:>6.2f} {100 * near:>5.0f}% "
                  f"{sum(t[1] for t in taken) / epochs:>8.2f} {sum(t[2].node_seconds for t in taken) / epochs:>10.2f}",
                  flush=True)
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", default="500mbit")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("folders", nargs="+", type=Path)
    args = parser.parse_args()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    import os
    sys.path.insert(0, str(ROOT / "build" / "python"))
    import terrane
    with tempfile.TemporaryDirectory() as folder:
        run("up", "--dir", f"{folder}/box", *SHAPE)
        os.environ["TERRANE_CLUSTER"] = f"{folder}/box/cluster.ini"
        subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", args.rate, "burst", "256k", "latency",
                        "400ms"], check=True)
        try:
            with terrane.connect() as cluster:
                for source in args.folders:
                    print(f"\n  {source.name}, on a link of {args.rate}")
                    same = compare(cluster, source, args.epochs)
                    print(f"    tensors of all epochs are {'the same' if same else 'DIFFERENT'}")
                    if not same:
                        sys.exit(1)
        finally:
            run("down", "--dir", f"{folder}/box")


if __name__ == "__main__":
    main()
