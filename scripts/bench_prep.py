# SPDX-License-Identifier: Apache-2.0
"""Preprocessing near the data: ./dev bench prep [--files N] [--epochs N] [--rate RATE]

Makes two sets of real JPEG files whose sizes follow published data sets, measures the operations on them beside
Pillow, and prints what an epoch costs under each policy (terrane prep plan). The setup is that of the MLEC
dissertation, section 5.3: AlexNet, 48 client cores, 500 Mbit/s, 25 disks of 200 Mbit/s of which 16 hold data.

Then it reads the same files in epochs of terrane.torch.ImageLoader from a cluster of processes in a network namespace,
over a link of RATE whose every byte is counted (prep_wire.py); it needs root, `ip` and `tc` for that.
"""
import argparse
import io
import json
import math
import random
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TERRANE = ROOT / "build" / "terrane"
DATA = ROOT / "build" / "bench" / "prep"
# 10th to 90th percentile of the bytes of OpenImages files; median and spread of ImageNet's
OPENIMAGES = [98, 134, 170, 210, 255, 310, 380, 470, 620]
SETS = {"openimages": [(1024, 768), (1024, 683), (768, 1024)], "imagenet": [(500, 375), (375, 500), (500, 333)]}
EPOCH = 40000
SETUP = ["--client-cores", "48", "--accelerator-ms", "0.4", "--nodes", "5", "--disk-bandwidth", "3.2Gbit"]


def target_bytes(name, rng):
    """The size of a file, drawn from the published shape."""
    if name == "imagenet":
        return 1000 * math.exp(rng.gauss(math.log(110), 0.45))
    points = [60, *OPENIMAGES, 900]
    at = rng.random() * 10
    low = int(at)
    return 1000 * points[low] * (points[low + 1] / points[low]) ** (at - low)


def photo(size, detail, rng):
    """Patches of colour at every scale, finer ones weaker, as in photographs; detail from 0 to 1 strengthens those."""
    from PIL import Image
    width, height = size
    image = Image.new("RGB", size, (128, 128, 128))
    cells = 4
    while cells <= max(size):
        rows = max(1, cells * height // width)
        layer = Image.frombytes("RGB", (cells, rows), rng.randbytes(3 * cells * rows)).resize(size, Image.BICUBIC)
        finer = (0.12 + 0.5 * detail) * (16 / cells) ** (0.4 - 0.35 * detail)
        image = Image.blend(image, layer, 0.8 if cells == 4 else min(0.9, finer))
        cells *= 2
    return image


def encode(image, quality):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, subsampling=2)
    return out.getvalue()


def make(job):
    """Makes a file of about the wanted size: more detail first, then the quality that comes closest."""
    name, number, path = job
    rng = random.Random(f"{name}/{number}")
    size = rng.choices(SETS[name], (6, 3, 1))[0]
    want = target_bytes(name, rng)
    data = b""
    for step in range(6):
        image = photo(size, step / 5, random.Random(number))
        low, high = 55, 95
        while low <= high:
            quality = (low + high) // 2
            data = encode(image, quality)
            low, high = (quality + 1, high) if len(data) < want else (low, quality - 1)
        if len(data) > 0.93 * want:
            break
    path.write_bytes(data)
    return len(data)


def make_set(name, count):
    folder = DATA / f"{name}-{count}"
    done = DATA / f"{folder.name}.done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        jobs = [(name, i, folder / f"{i:05}.jpg") for i in range(count)]
        begin = time.monotonic()
        with ProcessPoolExecutor() as pool:
            for n, _ in enumerate(pool.map(make, jobs, chunksize=8), 1):
                if sys.stderr.isatty() and n % 20 == 0:
                    print(f"\rmaking {name}: {n} of {count}, {time.monotonic() - begin:.0f} s", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
        done.touch()
    return folder


def terrane(*args, text=None):
    done = subprocess.run([TERRANE, "prep", *map(str, args)], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def rows_of(folder, epochs):
    """Samples of some epochs: the crops of each differ."""
    out = []
    for epoch in range(epochs):
        head, *rows = terrane("measure", "--quiet", "--epoch", epoch, folder).splitlines()
        out += rows
    return head, out


def pillow_ms(folder):
    """Means of one core's time: Pillow's decode of the whole file, and with crop and resize."""
    from PIL import Image
    decode = crop = 0
    files = sorted(folder.glob("*.jpg"))
    for path in files:
        data = path.read_bytes()
        begin = time.process_time()
        image = Image.open(io.BytesIO(data)).convert("RGB")
        middle = time.process_time()
        w, h = image.size
        image.crop((w // 7, h // 7, w // 7 + int(w * 0.72), h // 7 + int(h * 0.72))).resize((224, 224), Image.BILINEAR)
        decode += middle - begin
        crop += time.process_time() - middle
    return 1e3 * decode / len(files), 1e3 * crop / len(files)


def mean(rows, column):
    return sum(float(r.split(",")[column]) for r in rows) / len(rows)


def print_savings(rows):
    """Figure 5.1 of the dissertation: of how many samples each form is smaller than the file, and at the percentiles of those
    what it saves per second of a core."""
    samples = [[float(value) for value in row.split(",")] for row in rows]
    for form, saved in (("cut", [(raw - cut_bytes) / cut for raw, _, _, _, _, cut, cut_bytes in samples if cut_bytes < raw]),
                        ("pixels", [(raw - 150528) / (decode + crop) for raw, _, _, decode, crop, *_ in samples
                                    if raw > 150528])):
        saved.sort()
        at = [f"{saved[len(saved) * p // 100] / 1e3:.0f}" for p in (10, 25, 50, 75, 90)] if saved else ["none"]
        print(f"  {form}: {100 * len(saved) / len(samples):.0f}% of the samples shrink; MB saved per CPU second at the 10th, 25th, "
              f"50th, 75th and 90th percentile of those: {', '.join(at)}")


def print_costs(name, folder, rows):
    pillow_decode, pillow_crop = pillow_ms(folder)
    decode, crop, cut = (mean(rows, c) for c in (3, 4, 5))
    raw, cut_bytes = mean(rows, 0), mean(rows, 6)
    smallest = sum(min(float(r.split(",")[6]), 150528) for r in rows) / len(rows)
    shrink = sum(float(r.split(",")[0]) > 150528 for r in rows) / len(rows)
    saved = (raw - cut_bytes) / cut / 1e3, (raw - 150528) / (decode + crop) / 1e3
    print(f"{name}: mean of {len(rows)} samples\n"
          f"  bytes: raw {raw:.0f}, cut {cut_bytes:.0f} ({cut_bytes / raw:.2f}), pixels 150528, tensor 602112; "
          f"smaller of cut and pixels {smallest:.0f}\n"
          f"  {100 * shrink:.0f}% of the files are larger than their pixels\n"
          f"  ms of a core: decode {decode:.2f}, resize {crop:.2f}, cut {cut:.2f}; Pillow decode {pillow_decode:.2f}, "
          f"crop and resize {pillow_crop:.2f}\n"
          f"  decode and resize beside Pillow's decode, crop and resize: {(decode + crop) / (pillow_decode + pillow_crop):.2f}\n"
          f"  MB saved per CPU second: cut {saved[0]:.0f}, pixels {saved[1]:.0f}")
    print_savings(rows)


def plan(samples, bandwidth, cores):
    return json.loads(terrane("plan", "--samples", "-", "--bandwidth", bandwidth, "--storage-cores", cores, *SETUP,
                              "--json", text=samples))


def print_plans(samples):
    best = plan(samples, "500Mbit", 1000)
    print("\n  500 Mbit/s, cores without limit: traffic against no-off")
    for row in best:
        print(f"    {row['policy']:10} {row['traffic_ratio']:.3f}  ({1 / row['traffic_ratio']:.2f} times less)")
    scale = EPOCH / (samples.count("\n") - 1)
    print(f"\n  seconds of an epoch of {EPOCH} samples by storage cores\n    bandwidth  cores  " + "".join(f"{r['policy']:>11}" for r in best))
    slower = 0
    for bandwidth in ("500Mbit", "2Gbit", "10Gbit"):
        for cores in range(6):
            rows = plan(samples, bandwidth, cores)
            cells = (f"{r['epoch_s'] * scale:>11.1f}" if r["epoch_s"] < 1e9 else f"{'never':>11}" for r in rows)
            print(f"    {bandwidth:>9}  {cores:5}  " + "".join(cells))
            slower = max(slower, rows[-1]["epoch_s"] / rows[0]["epoch_s"])
    print(f"  terrane beside no-off, worst of these settings: {slower:.3f} of the time\n")


def train(rate, folders):
    """Runs epochs over a real link. A namespace of its own, so that nothing else uses the link."""
    if subprocess.run(["unshare", "-n", "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        print("epochs over a link: not measured, a network namespace needs root")
        return
    wire = Path(__file__).with_name("prep_wire.py")
    sys.stdout.flush()
    done = subprocess.run(["unshare", "-n", sys.executable, wire, "--rate", rate, *folders], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=400, help="files of each set (400)")
    parser.add_argument("--epochs", type=int, default=5, help="epochs, each with crops of its own (5)")
    parser.add_argument("--rate", default="500mbit", help="of the link, as tc takes it; none: do not train (500mbit)")
    args = parser.parse_args()
    folders = [make_set(name, args.files) for name in SETS]
    for name, folder in zip(SETS, folders):
        head, rows = rows_of(folder, args.epochs)
        print_costs(name, folder, rows)
        print_plans("\n".join([head, *rows]) + "\n")
    if args.rate != "none":
        train(args.rate, folders)


if __name__ == "__main__":
    main()
