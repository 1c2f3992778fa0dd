# SPDX-License-Identifier: Apache-2.0
"""What the parts of ./dev bench placement share: runs of `terrane placement`, traces, means with intervals, plots."""
import csv
import io
import math
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import CORES

ROOT = Path(__file__).resolve().parents[1]
TERRANE = ROOT / "build" / "terrane"
DATA = ROOT / "build" / "bench" / "placement"
# Student's t, 97.5%, by degrees of freedom
T975 = [math.nan, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26]


def run(*words):
    done = subprocess.run([TERRANE, "placement", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"terrane placement {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def trace(seed, week, jobs):
    path = DATA / f"{seed}-{jobs}-week{week}.csv"
    if not path.exists():
        text = run("generate", "--cluster", seed, "--jobs", jobs, "--from-day", 7 * week)
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").rename(path)
    return path


def study(train, test, methods, quotas=("0.01",), tune=(), more=()):
    """Returns {(method, quota): row}."""
    words = ["study", "--train", train, "--test", test, "--method", ",".join(methods), "--quota", ",".join(quotas),
             "--tune", "oracle-limit-s=0", "--csv", *more]
    for t in tune:
        words += ["--tune", t]
    rows = csv.DictReader(io.StringIO(run(*words)))
    return {(r["method"], f"{float(r['quota']):g}"): {k: float(v) for k, v in r.items() if k.endswith("pct")}
            for r in rows}


def saved(*args, **options):
    """The savings in percent of the only row."""
    row, = study(*args, **options).values()
    return row["tco_saved_pct"]


def interval(values):
    """Mean and half of the 95% confidence interval."""
    n = len(values)
    half = T975[n - 1] * statistics.stdev(values) / math.sqrt(n) if 2 <= n <= len(T975) else math.nan
    return statistics.fmean(values), half


def show(values, digits=2):
    mean, half = interval(values)
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def each(fn, items):
    with ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(fn, items))



COLOURS = ["#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#999999", "#44aa99"]


def plot(path, title, x_label, series):
    """Lines with error bars: series is [(name, [(x, mean, half)])]; x is logarithmic."""
    points = [p for _, line in series for p in line]
    left, right = math.log10(min(p[0] for p in points)), math.log10(max(p[0] for p in points))
    top = max(p[1] + (p[2] if p[2] == p[2] else 0) for p in points) * 1.03
    low = min(0, *(p[1] - (p[2] if p[2] == p[2] else 0) for p in points))

    def at(x, y):
        return 60 + 480 * (math.log10(x) - left) / (right - left), 340 - 300 * (y - low) / (top - low)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="760" height="400" font-family="sans-serif" font-size="12">',
           '<rect width="760" height="400" fill="white"/>',
           f'<text x="300" y="20" text-anchor="middle" font-size="14">{title}</text>',
           f'<text x="300" y="390" text-anchor="middle">{x_label}</text>',
           '<path d="M60 40V340H540" fill="none" stroke="black"/>']
    for y in range(int(low), int(top) + 1, max(1, int(top / 6))):
        out.append(f'<text x="54" y="{at(1, y)[1] + 4:.1f}" text-anchor="end">{y}</text>')
    for x in sorted({p[0] for p in points}):
        out.append(f'<text x="{at(x, 0)[0]:.1f}" y="358" text-anchor="middle">{x:g}</text>')
    for i, (name, line) in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        path_data = " ".join(f"{'ML'[k > 0]}{at(x, y)[0]:.1f} {at(x, y)[1]:.1f}" for k, (x, y, _) in enumerate(line))
        out.append(f'<path d="{path_data}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y, half in line:
            if half == half:
                (px, a), (_, b) = at(x, y - half), at(x, y + half)
                out.append(f'<path d="M{px:.1f} {a:.1f}V{b:.1f}" stroke="{colour}" stroke-opacity="0.4"/>')
        out.append(f'<text x="560" y="{60 + 18 * i}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n")


def rewrite(path, to, keep=None, change=None):
    """Copies a trace; keep(row) says which jobs stay."""
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    out = [change(r) if change else r for r in rows if keep is None or keep(r)]
    with open(to, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(out)
    return to
