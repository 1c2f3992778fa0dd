# SPDX-License-Identifier: Apache-2.0
"""Savings of placement: ./dev bench placement [--clusters N] [--jobs N] [--only PART,...] [--tune]

Generates clusters, trains on the first week of each and replays the second one. Prints Markdown tables with 95%
confidence intervals over the clusters (Student's t), and writes them and the plots to build/bench/placement. The test
clusters have other seeds than those of --tune, which tries as many settings for each method.
"""
import argparse
import csv
import functools
import itertools
import math
import statistics
import sys

from placement_bench import DATA, each, interval, plot, rewrite, run, saved, show, study, trace
from placement_box import part_box
from placement_parts import part_accuracy, part_halved, part_oracle, part_price

TEST_SEEDS = range(101, 111)
TUNING_SEEDS = (9001, 9002, 9003)
QUOTAS = ["0.01", "0.05", "0.1", "0.2", "0.5", "1"]
ONLINE = ["firstfit", "heuristic", "lifetime", "adaptive-hash", "adaptive-ranking", "table"]
METHODS = [*ONLINE, "terrane", "oracle-tco", "oracle-tcio", "lp-bound"]
# Twelve settings for each method that has parameters; the first line of each is its default.
GRIDS = {
    "heuristic": {"heuristic-window-s": [86400, 21600, 604800], "heuristic-interval-s": [3600, 900],
                  "heuristic-by-total": [1, 0]},
    "lifetime": {"lifetime-limit-s": [900, 1800, 3600, 5400, 7200, 10800, 14400, 21600, 28800, 43200, 86400, 172800]},
    "adaptive-hash": {"window-s": [900, 3600, 14400], "interval-s": [60, 300], "high": [0.05, 0.15]},
    "adaptive-ranking": {"window-s": [900, 3600, 14400], "interval-s": [60, 300], "high": [0.05, 0.15]},
    "table": {"window-s": [900, 3600, 14400], "interval-s": [60, 300], "ratio": [1, 1.7]},
    "terrane": {"price-begin": [5, 1], "price-settle-s": [28800, 14400, 57600], "price-goal": [0.65, 0.6]},
}

# What --tune found, where it is not the default of the program. The method adaptive-hash was tried with one ratio.
TUNED = {
    "adaptive-hash": ["window-s=900", "interval-s=300", "high=0.15"],
    "adaptive-ranking": ["window-s=900", "interval-s=300", "high=0.15"],
    "table": ["window-s=14400", "interval-s=60", "ratio=1"],
}
# The heuristic as the BYOM paper describes it: keys ranked by all their savings, here those of the last day.
PAPER_HEURISTIC = "heuristic, by total"
PAPER_ONLINE = ["firstfit", PAPER_HEURISTIC, "lifetime", "adaptive-hash"]


class Report:
    def __init__(self):
        self.text = []

    def table(self, title, head, rows):
        lines = ["", f"### {title}", "", "| " + " | ".join(map(str, head)) + " |",
                 "|---" + "|---:" * (len(head) - 1) + "|"]
        lines += ["| " + " | ".join(map(str, r)) + " |" for r in rows]
        print("\n".join(lines), flush=True)
        self.text += lines


def part_savings(report, pairs):
    """Figures 5 to 7: savings by quota."""
    def one(p):
        usual = [m for m in METHODS if m not in TUNED]
        rows = study(*p, usual, QUOTAS)
        for method, setting in TUNED.items():
            rows.update(study(*p, [method], QUOTAS, tune=setting))
        theirs = study(*p, ["heuristic"], QUOTAS, tune=["heuristic-by-total=1", "heuristic-window-s=86400"])
        rows.update({(PAPER_HEURISTIC, q): r for (_, q), r in theirs.items()})
        return rows
    results = each(one, pairs)

    def column(method, quota, key="tco_saved_pct"):
        return [r[method, quota][key] for r in results]
    for key, name in (("tco_saved_pct", "TCO"), ("tcio_saved_pct", "TCIO")):
        report.table(f"{name} saved, % of all on disk, by flash quota", ["method", *QUOTAS],
                     [[m, *(show(column(m, q, key)) for q in QUOTAS)] for m in [*METHODS, PAPER_HEURISTIC]])
    rows = []
    for q in QUOTAS:
        ours, first = column("terrane", q), column("firstfit", q)
        best = [max(r[m, q]["tco_saved_pct"] for m in ONLINE) for r in results]
        name = max(ONLINE, key=lambda m, q=q: statistics.fmean(column(m, q)))
        bound, oracle = column("lp-bound", q), column("oracle-tco", q)
        paper = [max(r[m, q]["tco_saved_pct"] for m in PAPER_ONLINE) for r in results]
        rows.append([q, show([a - b for a, b in zip(ours, first)]), f"{sum(ours) / sum(first):.2f}",
                     f"{name}: {show([a - b for a, b in zip(ours, column(name, q))])}",
                     show([a - b for a, b in zip(ours, best)]),
                     f"{statistics.fmean([a / b for a, b in zip(ours, best)]):.2f}",
                     f"{max(a / b for a, b in zip(ours, best)):.2f}",
                     f"{statistics.fmean([a / b for a, b in zip(oracle, best)]):.2f}",
                     f"{statistics.fmean([a / b for a, b in zip(ours, paper)]):.2f}",
                     f"{max(a / b for a, b in zip(ours, paper)):.2f}",
                     show([a / b for a, b in zip(ours, bound)])])
    report.table("terrane against the others: points of TCO, ratios, share of the LP bound",
                 ["quota", "points over FirstFit", "times FirstFit", "best single baseline: points over it",
                  "points over each cluster's best baseline", "ratio to it, mean", "ratio, largest",
                  "ratio of the oracle to it", "ratio to the best of the paper's baselines", "ratio, largest",
                  "share of LP bound"], rows)
    report.table("spilled, % of the disk time meant for flash", ["method", *QUOTAS],
                 [[m, *(show(column(m, q, "spilled_pct")) for q in QUOTAS)] for m in [*ONLINE, "terrane"]])
    for key, name in (("tco_saved_pct", "TCO"), ("tcio_saved_pct", "TCIO")):
        plot(DATA / f"savings_{name.lower()}.svg", f"{name} saved, %", "flash quota, share of peak occupancy",
             [(m, [(float(q), *interval(column(m, q, key))) for q in QUOTAS]) for m in METHODS])


def model_of(pair):
    path = pair[0].with_suffix(".model")
    run("train", pair[0], "-o", path)
    return path


def part_models(report, pairs):
    """Figure 8: models of other clusters; the control of shuffled labels; old models; what decides and what ranks."""
    models = each(model_of, pairs)

    def use(path, p, **options):
        return saved(p[0], p[1], ["model"], more=["--model", path], **options)
    n = len(pairs)
    own = each(lambda i: use(models[i], pairs[i]), range(n))
    rows = [["own cluster", show(own)]]
    for k in (1, 2, 3):
        rows.append([f"cluster {k} further", show(each(lambda i, k=k: use(models[(i + k) % n], pairs[i]), range(n)))])
    report.table("models of other clusters, % TCO at 1%", ["model of", "saved"], rows)
    variants = {
        "terrane: model of worth, price": ("terrane", []),
        "model of worth, threshold of the paper": ("terrane", ["control=1"]),
        "model of density, price": ("adaptive-ranking", ["control=2"]),
        "model of density, threshold of the paper": ("adaptive-ranking", []),
        "table, price": ("table", ["control=2"]),
        "adaptive-hash, price": ("adaptive-hash", ["control=2"]),
        "true worth, price": ("true-worth", ["control=2"]),
        "true worth, threshold of the paper": ("true-worth", []),
        "true density, price": ("true-density", ["control=2"]),
        "true density, threshold of the paper": ("true-density", []),
        "control: labels shuffled, price": ("terrane", ["shuffled=1"]),
        "control: labels shuffled, threshold of the paper": ("terrane", ["shuffled=1", "control=1"]),
        "without history": ("terrane", ["without=1"]),
        "without names": ("terrane", ["without=2"]),
        "without resources": ("terrane", ["without=4"]),
        "without time": ("terrane", ["without=8"]),
        "without names and history": ("terrane", ["without=3"]),
    }
    rows = []
    for name, (method, tune) in variants.items():
        got = each(lambda p, m=method, t=tune: study(*p, [m], ["0.01", "0.05", "0.2"], tune=t), pairs)
        rows.append([name, *(show([g[method, q]["tco_saved_pct"] for g in got]) for q in ("0.01", "0.05", "0.2"))])
    report.table("what ranks and what decides; loss of feature groups (figures 9c and 11); % TCO",
                 ["variant", "1%", "5%", "20%"], rows)


def part_hints(report, pairs):
    """Wrong hints."""
    cases = [(f"{share:.0%} random", [f"hint-wrong={share}"]) for share in (0, 0.25, 0.5, 0.75, 1)]
    cases += [("inverted", ["hint-invert=1"]), ("all the same", ["hint-constant=1"]),
              ("the largest user always claims the best class", ["hint-liar=1"])]
    cases += [(f"{name}, without trust", [*tune, "trust=0"]) for name, tune in cases]
    models, quotas, rows = each(model_of, pairs), ["0.01", "0.05", "0.2"], []
    for name, tune in cases:
        got = each(lambda pm, t=tune: study(*pm[0], ["model"], quotas, tune=t, more=["--model", pm[1]]),
                   zip(pairs, models))
        rows.append([name, *(show([g["model", q]["tco_saved_pct"] for g in got]) for q in quotas)])
    report.table("wrong hints, % TCO of terrane", ["hints", "1%", "5%", "20%"], rows)


def second(path, column):
    """The value of a column with the second most bytes written."""
    total = {}
    with open(path, newline="", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            total[r[column]] = total.get(r[column], 0) + int(r["bytes_written"])
    return sorted(total, key=total.get)[-2]


def part_new(report, pairs, jobs):
    """Figure 10: users and pipelines that were not in training; renamed pipelines; a model four weeks old."""
    pairs = pairs[:5]

    def without(p, column):
        name = second(p[1], column)
        return rewrite(p[0], p[0].with_suffix(f".without_{column}.csv"), keep=lambda r: r[column] != name), p[1]

    def renamed(p):
        return p[0], rewrite(p[1], p[1].with_suffix(".renamed.csv"),
                             change=lambda r: {**r, "s_pipeline": "renamed-" + r["s_pipeline"][::-1]})
    seeds = [p[0].name.split("-")[0] for p in pairs]
    cases = {
        "all in training": pairs,
        "without the second largest user": each(lambda p: without(p, "s_user"), pairs),
        "without the second largest pipeline": each(lambda p: without(p, "s_pipeline"), pairs),
        "all pipelines renamed": each(renamed, pairs),
        "test week five weeks later": each(lambda s: (trace(s, 0, jobs), trace(s, 5, jobs)), seeds),
        "the same week, new model": each(lambda s: (trace(s, 4, jobs), trace(s, 5, jobs)), seeds),
    }
    report.table("left out, renamed, old; % TCO of terrane, five clusters", ["training", "1%", "5%", "20%"], [
        [name, *(show([g["terrane", q]["tco_saved_pct"] for g in got]) for q in ("0.01", "0.05", "0.2"))]
        for name, got in ((n, each(lambda p: study(*p, ["terrane"], ["0.01", "0.05", "0.2"]), c))
                          for n, c in cases.items())])


def part_rates(report, pairs):
    """Sweep of the rates from half to double."""
    rows = []
    for rate in ("flash-byte-usd", "disk-byte-usd", "flash-wear-usd", "disk-device-usd", "disk-server-usd",
                 "flash-server-usd", "position-s", "dram-share"):
        for factor in ("*0.5", "*2" if rate != "dram-share" else "*1.2"):
            got = each(lambda p, r=rate, f=factor: study(*p, ["firstfit", "table", "terrane"],
                                                         more=["--rate", f"{r}={f}"]), pairs[:5])
            rows.append([f"{rate} {factor}", *(show([g[m, "0.01"]["tco_saved_pct"] for g in got])
                                               for m in ("firstfit", "table", "terrane"))])
    report.table("rates changed, % TCO at 1%, five clusters", ["rate", "firstfit", "table", "terrane"], rows)


def tune(jobs):
    """Tries the settings of GRIDS on the tuning clusters; prints the best mean over 1 to 20%."""
    pairs = [(trace(s, 0, jobs), trace(s, 1, jobs)) for s in TUNING_SEEDS]
    quotas = ["0.01", "0.05", "0.2"]
    label = {"adaptive-ranking": "density", "terrane": "worth"}
    control = {"adaptive-ranking": "control=1", "terrane": "control=2"}

    @functools.lru_cache(maxsize=None)
    def model(trained, kind, ratio):
        path = trained.with_suffix(f".{kind}-{ratio}.model")
        run("train", trained, "-o", path, "--label", kind, "--ratio", ratio)
        return path

    def one(pair, method, setting):
        if method not in label:
            return list(study(*pair, [method], quotas, tune=setting).values())
        ratio = dict(s.split("=") for s in setting).get("ratio", "1.7")
        return list(study(*pair, ["model"], quotas, tune=[*setting, control[method]],
                          more=["--model", model(pair[0], label[method], ratio)]).values())
    for method, grid in GRIDS.items():
        results = []
        for values in itertools.product(*grid.values()):
            setting = [f"{k}={v}" for k, v in zip(grid, values)]
            got = each(lambda p, s=setting, m=method: one(p, m, s), pairs)
            # The mean of logarithms, so that each quota counts alike.
            score = statistics.fmean(math.log(max(r["tco_saved_pct"], 0.01)) for g in got for r in g)
            results.append((score, setting, [statistics.fmean(g[i]["tco_saved_pct"] for g in got)
                                             for i in range(len(quotas))]))
        results.sort(reverse=True)
        for score, setting, means in results[:2] + results[-1:]:
            print(f"{method:17s} {' '.join(setting):70s} {score:.4f}  " + " ".join(f"{m:.2f}" for m in means),
                  flush=True)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench placement", description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=len(TEST_SEEDS), help="how many test clusters (10)")
    parser.add_argument("--jobs", type=int, default=12000, help="jobs a week (12000)")
    parser.add_argument("--only", default="savings,models,hints,new,accuracy,rates,oracle,price,halved", help="parts, with commas; also box, which takes 7 minutes and root")
    parser.add_argument("--tune", action="store_true", help="try settings on the tuning clusters instead")
    a = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    if a.tune:
        tune(a.jobs)
        return
    if not 2 <= a.clusters <= len(TEST_SEEDS):
        parser.error(f"--clusters: must be from 2 to {len(TEST_SEEDS)}")
    pairs = each(lambda s: (trace(s, 0, a.jobs), trace(s, 1, a.jobs)), TEST_SEEDS[:a.clusters])
    report = Report()
    parts = {"savings": part_savings, "models": part_models, "hints": part_hints,
             "new": lambda r, p: part_new(r, p, a.jobs), "accuracy": part_accuracy, "rates": part_rates,
             "oracle": part_oracle, "price": part_price, "halved": part_halved, "box": part_box}
    for name in a.only.split(","):
        if name not in parts:
            parser.error(f"--only {name}: there are {' '.join(parts)}")
        parts[name](report, pairs)
    (DATA / "report.md").write_text("\n".join(report.text) + "\n")
    print(f"\ntables and plots: {DATA}", file=sys.stderr)


if __name__ == "__main__":
    main()
