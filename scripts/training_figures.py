# SPDX-License-Identifier: Apache-2.0
"""Figures 4.19 to 4.22 of the MLEC dissertation in virtual time: trainings in simulated clusters (terrane train --clock
virtual), so that every machine prints the same numbers.

The dissertation gives no size of a sample and no rate of the GPU. Its 52 % at 2 Gbit/s, 77 % at 3 Gbit/s and 7 % at 30 MB/s
agree on a busy GPU that takes 480 MB/s; with GPEmu's step of ResNet-18 on a V100 (66.43 ms for 64 samples) that is 498 KB a
sample, which is used here.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import svg
from common import BUILD

JOB = {"data.path": "/in", "data.sample": 498000, "model.step": "66430us", "model.batch": 64, "device.copies": "none",
       "loader.workers": 4, "virtual.piece": "256KiB", "virtual.block": "16MiB"}
SAMPLES = 2560
GBIT = 125000000
DRIVES = {"constant": {"virtual.drive": "constant", "virtual.drive_rate": 30000000}, "seeking": {"virtual.drive": "hdd"}}
# figure 4.22: the data is a twentieth of 11 GB, so times are a twentieth too
REPAIR_SCALE = 20


def train(values):
    """The JSON of a training."""
    command = [BUILD / "terrane", "train", "--clock", "virtual", "--json", "--quiet"]
    for key, value in {**JOB, "data.samples": SAMPLES, **values}.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"training failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def train_files(jobs, shape):
    """The JSON of several jobs, each given as the values of a file."""
    with tempfile.TemporaryDirectory(prefix="terrane-training-") as folder:
        files = []
        for i, values in enumerate(jobs):
            files.append(Path(folder, f"{i}.ini"))
            sections = {}
            for key, value in values.items():
                section, _, name = key.partition(".")
                sections.setdefault(section, []).append(f"{name} = {value}")
            files[-1].write_text("\n".join(line for s, lines in sections.items() for line in (f"[{s}]", *lines)))
        command = [BUILD / "terrane", "train", "--clock", "virtual", "--json", "--quiet", *files]
        for key, value in shape.items():
            command += ["--set", f"{key}={value}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"training failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def utilization(values):
    return 100 * train(values)["jobs"][0]["all"]["utilization"]


def curves(xs, shapes, points):
    """Prints a row for each x as soon as it is known. shapes: name -> values of x. Returns the series."""
    series = {name: [] for name in shapes}
    for x in xs:
        for name, shape in shapes.items():
            series[name].append((x, utilization(shape(x))))
        cells = " | ".join(f"{s[-1][1]:.1f} %" for s in series.values())
        print(f"| {x} | {cells} | {points.get(x, '')} |", flush=True)
    return list(series.items())


def head(title, first, names, last="the dissertation"):
    print(f"\n{title}\n\n| {first} | {' | '.join(names)} | {last} |\n|{'---:|' * (len(names) + 1)}---|")


def flat(width):
    """A code over the drives of one node in one rack."""
    return {"virtual.racks": 1, "virtual.disks": width, "virtual.encoding": "r1" if width == 1 else f"rs:{width - 1}+1"}


def figure_419():
    shapes = {f"{drive}, {cap or 'no cap'}": lambda w, d=drive, c=cap: {**flat(w), **DRIVES[d],
                                                                          "virtual.rack_rate": GBIT if c else 0, "data.samples": 1280}
              for drive in DRIVES for cap in ("", "1 Gbit/s")}
    head("4.19: utilization against the stripe width of a code in one rack", "width", shapes)
    told = {1: "7 %", 3: "about 20 %, nearly three times that of width 1", 5: "1 Gbit/s: a plateau beyond width 4"}
    series = curves((1, 3, 5, 9, 13), shapes, told)
    return svg.lines("4.19: one rack, drives of 30 MB/s or that seek", "stripe width (drives)", "utilization (%)", series, 100)


def levels(racks, drive, **more):
    return {"virtual.racks": racks, "virtual.encoding": f"mlec:{racks - 1}+1/4+1" if racks > 1 else "rs:4+1",
            "virtual.disks": 1 if racks > 1 else 5, **DRIVES[drive], **{f"virtual.{k}": v for k, v in more.items()}}


def figure_420a():
    shapes = {drive: lambda n, d=drive: levels(n, d, rack_rate=GBIT) for drive in DRIVES}
    head("4.20a: 4+1 in each rack, 1 Gbit/s for a rack", "racks in a stripe", shapes)
    series = curves((1, 2, 3, 4, 6), shapes, {1: "rises with the width", 6: "near 100 % when wide enough"})
    return svg.lines("4.20a: local 4+1, 1 Gbit/s for a rack", "racks in a network stripe", "utilization (%)", series, 100)


def figure_420b():
    pools = {"c/c": ({"racks": 3}, "54 %"), "c/d": ({"racks": 3, "members": 6, "local": "declustered"}, "77 %"),
             "d/c": ({"racks": 6, "disks": 2}, "near 100 %"),
             "d/d": ({"racks": 6, "members": 6, "local": "declustered"}, "near 100 %"),
             "c/c, all pools": ({"racks": 6, "disks": 2, "network": "clustered"}, "not measured"),
             "c/d, all pools": ({"racks": 6, "members": 6, "local": "declustered", "network": "clustered"}, "not measured")}
    head("4.20b: (2+1)/(2+1), 1 Gbit/s for a rack; the data in one network pool, as in the dissertation, or in all", "placement",
         DRIVES)
    drawn = []
    for name, (shape, told) in pools.items():
        cells = [utilization({"virtual.encoding": "mlec:2+1/2+1", "virtual.rack_rate": GBIT, **DRIVES[drive],
                              **{f"virtual.{k}": v for k, v in shape.items()}}) for drive in DRIVES]
        drawn.append(cells)
        print(f"| {name} | {' | '.join(f'{c:.1f} %' for c in cells)} | {told} |", flush=True)
    return svg.bars("4.20b: (2+1)/(2+1), 1 Gbit/s for a rack", "utilization (%)", list(pools),
                    [(drive, [row[i] for row in drawn]) for i, drive in enumerate(DRIVES)], 100)


def figure_421():
    shapes = {drive: lambda n, d=drive: levels(n, d, rack_rate=GBIT, between_rate=2 * GBIT) for drive in DRIVES}
    head("4.21: the same with 2 Gbit/s between the clusters", "racks in a stripe", shapes)
    series = curves((1, 2, 3, 4, 6), shapes, {3: "52 % from here on"})
    return svg.lines("4.21: 2 Gbit/s between the clusters", "racks in a network stripe", "utilization (%)", series, 100)


def figure_422():
    series = []
    names = {"r_all": "400 s", "r_min": "130 s"}
    head("4.22: c/c (2+1)/(4+1), 500 Mbit/s for a rack, two drives of a pool fail; repair may use 20 %", "repair, drives",
         ["before", "while it is repaired", "beyond tolerance for", "all rebuilt after"])
    for drive, method in ((d, m) for d in DRIVES for m in names):
        step = 0.5
        result = train({**levels(3, drive, rack_rate=GBIT // 2, fail_members=2, fail_at="10s", repair=method, round="250ms",
                                 timeline=f"{int(1000 * step)}ms", piece="64KiB", block="4MiB"), "data.samples": 1100, "train.epochs": 12})["virtual"]
        begin, fixed, whole = (result[k] / step for k in ("failed_s", "recoverable_s", "whole_s"))
        line = [n / step for n in result["timelines"][0]]
        before, during = line[4:int(begin)], line[int(begin) + 1:max(int(fixed), int(begin) + 2)]
        rates = [sum(part) / len(part) for part in (before, during)]
        took = [REPAIR_SCALE * (t - begin) * step if t else float("nan") for t in (fixed, whole)]
        print(f"| {method}, {drive} | {rates[0]:.0f} samples/s | {rates[1]:.0f} samples/s, {100 * rates[1] / rates[0]:.0f} % | "
              f"{took[0]:.0f} s | {took[1]:.0f} s | 900, 480 samples/s (53 %), {names[method]} |", flush=True)
        series.append((f"{method}, {drive}", [(REPAIR_SCALE * step * i, n) for i, n in enumerate(line)]))
    return svg.lines("4.22: trained samples while a lost pool is repaired", "s", "samples/s", series)


FIGURES = {"4.19": figure_419, "4.20a": figure_420a, "4.20b": figure_420b, "4.21": figure_421, "4.22": figure_422}
