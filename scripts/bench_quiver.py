# SPDX-License-Identifier: Apache-2.0
"""./dev bench quiver: jobs that do not care about the order, in virtual time: the experiments of the Quiver paper.

    --table3      seven jobs on one data set: hits, windows on a cold cache, misses
    --epoch       bytes that the disks send in an epoch of two to twenty jobs on a cold cache
    --figure6     twelve jobs on three data sets, caches of 100 to 700 GB: none, LRU, greedy, exact
    --figure3     progress of seven jobs: misses, windows on a cold cache, hits
    --stages      figures 4 and 5: reading, transforming and computing of 20 mini-batches of one of seven jobs
    --figure7     four jobs, and three more after 900 s: windows that are resident, throughput
    --failure     a cache node fails: the dip in throughput
    --shift       the workloads of the Tectonic-Shift paper in the order contracts
    --accuracy    real trainings of small networks with global shuffle and with windows (minutes; python3-torch)
    --plot DIR    also writes figures 3, 4, 5 and 7 as SVG files

Without an option all but the trainings. bench/quiver_tables.c has the parameters, src/analysis/cache/quiver.h the model.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import quiver_accuracy
import svg
from bench_shift import MIB, WORKLOADS, simulate, workload
from common import BUILD

TABLES = BUILD / "release" / "bench" / "quiver_tables"
ORDERS = ["random", "seeded", "window", "free"]
POLICIES = ["lru", "future", "terrane", "clairvoyant"]


def rows(name):
    done = subprocess.run([TABLES, name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def table(title, head, lines):
    print(f"\n{title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(str(cell) for cell in line) + " |")


def table3():
    lines = []
    for row in rows("table3"):
        paper = dict(zip(("hit", "miss"), row["paper"]))
        low, high = row["seconds"]
        seconds = f"{low:.0f}" if high - low < 1 else f"{low:.0f} to {high:.0f}"
        lines.append([row["workload"], row["case"], seconds, f"{row['of_hit']:.3f}",
                      f"{paper.get(row['case'], row['paper'][2]):.0f}", f"{row['store_mb_s']:.0f}"])
    table("Table 3: seven jobs, 1,000 mini-batches each, three seeds",
          ["workload", "case", "seconds", "of hit", "paper (co-op. for windows)", "store, MB/s"], lines)


def epoch():
    table("Read from the disks in an epoch of jobs on a cold cache, in sizes of the data set",
          ["workload", "contract", "jobs", "paces differ by up to", "first epoch", "second to fourth", "waits of the fastest job"],
          [[row["workload"], row["case"], row["jobs"], f"± {100 * row['spread']:.1f}%", f"{row['first']:.3f}",
            f"{row['later']:.3f}", f"{100 * row['waits']:.1f}%"] for row in rows("epoch")])


def failure():
    table("One of two cache nodes fails after 2100 s of seven ResNet50 jobs",
          ["cache", "mini-batches/s before", "worst 10 s", "mini-batches lost, in seconds of all jobs", "back after, s"],
          [[row["case"], f"{row['before']:.2f}", f"{row['worst']:.3f}", f"{row['lost_s']:.1f}", f"{row['back_s']:.0f}"]
           for row in rows("failure")])


def figure6():
    table("Figure 6: twelve jobs on 48 accelerators; speed as a share of that with hits alone",
          ["store, MB/s", "cache, GB", "policy", "of all-hit", "ImageNet, OpenImages, LibriSpeech"],
          [[f"{row['store_mb_s']:.0f}", f"{row['cache_gb']:.0f}", row["policy"], f"{row['of_hit']:.3f}", ", ".join(row["keeps"])]
           for row in rows("figure6")])


def figure7(folder):
    row = rows("figure7")[0]
    step = row["step_s"]

    def rate(begin, end):
        chosen = row["batches"][int(begin / step):int(end / step)]
        return sum(chosen) / (len(chosen) * step)
    table("Figure 7: four jobs, three more after 900 s; a cache of 20% of the data set",
          ["seconds", "mini-batches a second"],
          [[f"{begin} to {end}", f"{rate(begin, end):.2f}"] for begin, end in ((100, 800), (1000, 1700), (1700, 2400))])
    print(f"\nwindows at once: {row['windows_at_once']}; loads: {len(row['loads'])}")
    if folder:
        Path(folder, "quiver-figure7.svg").write_text(draw7(row))


def figure3(folder):
    drawn, lines = {}, []
    for row in rows("figure3"):
        points = [(round((i + 1) * row["step_s"], 1), done) for i, done in enumerate(row["done"])]
        rising = [point for i, point in enumerate(points) if i == 0 or point[1] > points[i - 1][1]]
        drawn.setdefault(row["workload"], []).append((row["case"], [(0, 0), *rising]))
        half = next(t for t, done in points if done >= 3500)
        lines.append([row["workload"], row["case"], f"{half:.0f}", f"{next(t for t, done in points if done >= 6990):.0f}"])
    table("Figure 3: seconds until seven jobs have done half of 7,000 mini-batches, and all but ten",
          ["workload", "case", "half", "all"], lines)
    for name, series in drawn.items() if folder else ():
        Path(folder, f"quiver-figure3-{name.lower()}.svg").write_text(
            svg.lines(f"{name}: seven jobs", "seconds", "mini-batches", series))


def stages(folder):
    lines = []
    for row in rows("stages"):
        begin, end = row["stages"][0][3], row["stages"][-1][4]
        busy = sum(s[4] - s[3] for s in row["stages"])
        lines.append([row["case"], f"{(end - begin) / len(row['stages']):.2f}", f"{100 * busy / (end - begin):.0f}%"])
        name = {"miss": "figure4", "hit": "figure5"}.get(row["case"], "windows")
        if folder:
            Path(folder, f"quiver-{name}.svg").write_text(gantt(row))
    table("Figures 4 and 5: 20 mini-batches of one of seven ResNet50 jobs",
          ["case", "seconds for each", "accelerators busy"], lines)


def gantt(row, width=900, height=440):
    """A bar for each mini-batch: reading, transforming, waiting for the accelerators (a line), computing."""
    stages_of = row["stages"]
    begin, end = stages_of[0][0], stages_of[-1][4]
    colours = {"I/O": "#d55e00", "transform": "#e69f00", "accelerators": "#0072b2"}

    def x(t):
        return 60 + (width - 80) * (t - begin) / (end - begin)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="60" y="16">mini-batches {row["first"]} to {row["first"] + len(stages_of) - 1}, {row["case"]}</text>']
    for i, (name, colour) in enumerate(colours.items()):
        parts.append(f'<rect x="{width - 330 + 105 * i}" y="6" width="12" height="12" fill="{colour}"/>'
                     f'<text x="{width - 314 + 105 * i}" y="16">{name}</text>')
    for i, (asked, read, transformed, begun, done) in enumerate(stages_of):
        y = 28 + 19 * i
        parts.append(f'<text x="30" y="{y + 11}">{i + 1}</text>'
                     f'<path d="M{x(transformed):.1f} {y + 7}H{x(begun):.1f}" stroke="#999"/>')
        for (a, b), colour in zip(((asked, read), (read, transformed), (begun, done)), colours.values()):
            parts.append(f'<rect x="{x(a):.1f}" y="{y}" width="{max(x(b) - x(a), 1):.1f}" height="14" fill="{colour}"/>')
    step = 10 if end - begin > 20 else 5
    parts += [f'<text x="{x(begin + t):.0f}" y="{height - 8}">{t} s</text>' for t in range(0, int(end - begin) + 1, step)]
    return "\n".join([*parts, "</svg>", ""])


def accuracy(seeds):
    lines = []
    for what, packing, order, mean, half, padding in quiver_accuracy.accuracy(seeds):
        lines.append([what, packing, order, f"{mean:.2f} ± {half:.2f}%", f"{padding:.0f}%" if padding else ""])
        print(f"{what}, {packing}, {order}: {mean:.2f}", file=sys.stderr)
    table(f"Accuracy, {seeds} seeds, mean and 95% confidence interval",
          ["what", "packed", "order", "result", "padding of what is computed"], lines)


def draw7(row, width=900, height=420):
    """Windows over time: a bar from the first byte of each window to its end, dark once it is whole."""
    end = row["step_s"] * len(row["batches"])
    count = 1 + max(load[0] for load in row["loads"])
    most = max(row["batches"]) or 1

    def x(t):
        return 60 + (width - 80) * t / end
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             '<text x="60" y="16">windows in the cache (light: being filled), and mini-batches done</text>']
    for window, begin, whole, gone in row["loads"]:
        y = 30 + 18 * window
        whole = whole or gone
        parts.append(f'<rect x="{x(begin):.1f}" y="{y}" width="{x(whole) - x(begin):.1f}" height="14" fill="#bcd"/>')
        parts.append(f'<rect x="{x(whole):.1f}" y="{y}" width="{max(x(gone) - x(whole), 0):.1f}" height="14" fill="#357"/>')
    parts += [f'<text x="20" y="{42 + 18 * window}">{window}</text>' for window in range(count)]
    base, top = height - 30, 40 + 18 * count
    line = " ".join(f"{x((i + 0.5) * row['step_s']):.1f},{base - (base - top) * n / most:.1f}"
                    for i, n in enumerate(row["batches"]))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#c33"/>')
    parts += [f'<text x="{x(t):.0f}" y="{height - 10}">{t} s</text>' for t in range(0, int(end), 500)]
    return "\n".join([*parts, "</svg>", ""])


def shift():
    lines = []
    for name in WORKLOADS:
        for order in ORDERS:
            policies = [p for p in POLICIES if order != "free" or p != "clairvoyant"]
            files = [workload(name, order, seed=seed, segment=16 * MIB, min_threshold=0) for seed in (101, 102)]
            runs = simulate(files, policies, nodes=0)
            cells = []
            for policy in POLICIES:
                if policy not in policies:
                    cells.append("")
                    continue
                share = statistics.median(r[policy]["absorbed_bytes"] / r[policy]["requested_bytes"] for r in runs)
                cells.append(f"{100 * share:.1f}%")
            lines.append([name, order, *cells])
    table("Workloads of Tectonic-Shift: absorbed of what is requested (all nodes, segments of 16 MiB)",
          ["workload", "order", *POLICIES], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("table3", "epoch", "figure6", "figure3", "stages", "figure7", "failure", "shift")
    for name in names:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--plot", metavar="DIR")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--seeds", type=int, default=5, help="of --accuracy")
    args = parser.parse_args()
    if args.accuracy:
        accuracy(args.seeds)
    chosen = [name for name in names if getattr(args, name)] or (() if args.accuracy else names)
    for name in chosen:
        if name in ("figure3", "stages", "figure7"):
            globals()[name](args.plot)
        else:
            globals()[name]()


if __name__ == "__main__":
    main()
