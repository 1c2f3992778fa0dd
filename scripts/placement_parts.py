# SPDX-License-Identifier: Apache-2.0
"""Parts of ./dev bench placement that look into single studies: oracle decisions (figure 4 of the BYOM paper), the price
beside the threshold, flash that shrinks, accuracy, and what groups of features are worth for each category (figure 9)."""
import csv
import json
import math
import statistics
from html import escape

from placement_bench import COLOURS, DATA, each, plot, rewrite, run, show, study

SHAPES = 15  # categories


def decisions(pair, methods, quotas, name, tune=()):
    """Rows of `study --decisions`, with numbers as floats."""
    path = DATA / f"{pair[0].stem}.{name}.decisions.csv"
    study(*pair, methods, quotas, tune=tune, more=["--decisions", path])
    with open(path, newline="", encoding="utf-8") as f:
        rows = [{k: v if k == "method" else float(v or "nan") for k, v in r.items()} for r in csv.DictReader(f)]
    path.unlink()
    return rows


class Panel:
    """A plot of 380 by 330 pixels with logarithmic or linear axes."""
    WIDTH, HEIGHT = 380, 330

    def __init__(self, x, y, x_range, y_range, title, x_label, y_label, log=(False, False)):
        self.x, self.y, self.log = x, y, log
        self.range = [[math.log10(v) for v in r] if g else list(r) for r, g in zip((x_range, y_range), log)]
        self.out = [f'<rect x="{x + 66}" y="{y + 30}" width="294" height="240" fill="none" stroke="black"/>',
                    f'<text x="{x + 213}" y="{y + 20}" text-anchor="middle" font-size="13">{escape(title)}</text>',
                    f'<text x="{x + 213}" y="{y + 306}" text-anchor="middle">{escape(x_label)}</text>',
                    f'<text transform="translate({x + 12} {y + 150}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>']
        for axis, (low, high) in enumerate(self.range):
            for i in range(5):
                v = low + (high - low) * i / 4
                text = f"{10 ** v:.2g}" if log[axis] else f"{v:.3g}"
                px, py = (x + 66 + 73.5 * i, y + 286) if axis == 0 else (x + 62, y + 274 - 60 * i)
                self.out.append(f'<text x="{px:.0f}" y="{py:.0f}" font-size="10" text-anchor="{"middle" if axis == 0 else "end"}">{text}</text>')

    def at(self, *point):
        out = []
        for v, (low, high), log in zip(point, self.range, self.log):
            v = math.log10(max(v, 1e-300)) if log else v
            out.append(min(max((v - low) / ((high - low) or 1), 0), 1))
        return self.x + 66 + 294 * out[0], self.y + 270 - 240 * out[1]

    def points(self, points, colour, size=1.2):
        for p in points:
            px, py = self.at(*p)
            self.out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{size}" fill="{colour}" fill-opacity="0.6"/>')

    def line(self, points, colour):
        text = " ".join("{:.1f},{:.1f}".format(*self.at(*p)) for p in points)
        self.out.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.3"/>')


def page(path, panels, legend, across):
    down = -(-len(panels) // across)
    width, height = across * Panel.WIDTH + 10, down * Panel.HEIGHT + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for p in panels:
        out += p.out
    for i, (name, colour) in enumerate(legend):
        out.append(f'<rect x="{60 + 170 * i}" y="{height - 22}" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{78 + 170 * i}" y="{height - 12}">{escape(name)}</text>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n", encoding="utf-8")


def part_oracle(report, pairs):
    """Figure 4: which jobs the oracle puts on flash, by density and savings; and by worth, which ours ranks by."""
    quotas = ["0.01", "0.1", "0.5"]
    rows = decisions(pairs[0], ["oracle-tco"], quotas, "oracle")
    gain = [r for r in rows if r["saved_usd"] > 0 and r["density"] > 0]
    saved = sorted(r["saved_usd"] for r in gain)
    dense = sorted(r["density"] for r in gain)
    panels, table = [], []
    for i, q in enumerate(quotas):
        part = [r for r in gain if r["quota"] == float(q)]
        p = Panel(i * Panel.WIDTH, 0, (dense[0], dense[-1]), (saved[len(saved) // 200], saved[-1]),
                  f"oracle-tco, quota {q}", "density", "saved, USD", log=(True, True))
        for share, colour in ((0, "#bbbbbb"), (1, "#d55e00")):
            p.points([(r["density"], r["saved_usd"]) for r in part[::4] if (r["share"] > 0.5) == share], colour)
        panels.append(p)
        line = [q]
        for key in ("density", "worth"):
            on = sum(r["share"] > 0.5 for r in part)
            cut = sorted((r[key] for r in part), reverse=True)[max(on - 1, 0)]
            same = sum((r["share"] > 0.5) == (r[key] >= cut) for r in part if (r["share"] > 0.5) or r[key] >= cut)
            line.append(f"{same / max(sum((r['share'] > 0.5) or r[key] >= cut for r in part), 1):.2f}")
        table.append([*line, sum(r["share"] > 0.5 for r in part), len(part)])
    page(DATA / "oracle.svg", panels, [("on disk", "#bbbbbb"), ("on flash", "#d55e00")], 3)
    report.table("oracle decisions and two rankings, one cluster: jobs that both put on flash, as a share of those that one does",
                 ["quota", "as many best by density", "as many best by worth", "on flash", "jobs that gain"], table)


def part_price(report, pairs):
    """The price of flash of the optimum beside the threshold of ours and of the paper, as categories."""
    panels, table = [], []
    for i, q in enumerate(("0.01", "0.2")):
        rows = decisions(pairs[0], ["lp-bound", "terrane", "true-worth"], [q], "price")
        p = Panel(i * Panel.WIDTH, 0, (0, 7), (-4, SHAPES), f"quota {q}", "day", "category needed")
        begin, by = rows[0]["start_s"], {}
        for k, m in enumerate(("lp-bound", "terrane", "true-worth")):
            got = [(r["start_s"], r["needed"]) for r in rows if r["method"] == m and r["needed"] == r["needed"]]
            hours = {}
            for t, v in got:
                hours.setdefault(int((t - begin) / 3600), []).append(v)
            by[m] = {h: statistics.fmean(v) for h, v in hours.items()}
            p.line([(h / 24, v) for h, v in sorted(by[m].items())], COLOURS[1 + k])
        panels.append(p)
        for m in ("terrane", "true-worth"):
            common = sorted(set(by["lp-bound"]) & set(by[m]))
            a, b = [by["lp-bound"][h] for h in common], [by[m][h] for h in common]
            table.append([q, m, f"{statistics.fmean(a):.1f}", f"{statistics.fmean(b):.1f}",
                          f"{statistics.correlation(a, b) if len(set(a)) > 1 and len(set(b)) > 1 else math.nan:.2f}"])
    page(DATA / "price.svg", panels, [("price of the optimum", COLOURS[1]), ("terrane", COLOURS[2]),
                                      ("threshold of the paper", COLOURS[3])], 2)
    report.table("category that was needed for flash, means of hours, one cluster",
                 ["quota", "method", "mean by the optimum's price", "mean", "correlation by hour"], table)


def part_halved(report, pairs):
    """Flash loses half of its capacity at noon of the third day."""
    methods, quotas = ["firstfit", "heuristic", "table", "terrane"], ["0.02", "0.1"]
    got = {h: each(lambda p, h=h: study(*p, methods, quotas, more=h), pairs) for h in ((), ("--halve-at", "60"))}
    rows = []
    for m in methods:
        rows.append([m, *(show([g[m, q]["tco_saved_pct"] for g in got[h]]) for q in quotas for h in got)])
    report.table("flash halved at noon of the third day, % TCO",
                 ["method", "2%", "2%, halved to 1%", "10%", "10%, halved to 5%"], rows)


def train(path, *words):
    return json.loads(run("train", path, "-o", path.with_suffix(".model"), "--label", "density", "--json", *words))


def part_accuracy(report, pairs):
    """Figure 9b and 9c: accuracy of the paper's 15 classes by training size; what groups of features are worth."""
    pairs, rows = pairs[:3], []
    for days in (2, 4, 7):
        def one(p, days=days):
            path = rewrite(p[0], p[0].with_suffix(f".{days}days.csv"),
                           keep=lambda r: float(r["start_s"]) >= (7 - days) * 86400)
            out = train(path)
            return out["jobs"], out["accuracy"], out["auc"]
        got = each(one, pairs)
        rows.append([days, f"{statistics.fmean(g[0] for g in got):.0f}", show([g[1] for g in got], 3)])
    report.table("top-1 accuracy of 15 classes by density (paper: 0.36)", ["days", "jobs", "accuracy"], rows)
    whole, rows, lines = [g[2] for g in got], [], []
    for group in ("history", "names", "resources", "time"):
        without = [r["auc"] for r in each(lambda p, g=group: train(p[0], "--without", g), pairs)]
        loss = []
        for c in range(SHAPES):
            both = [(a[c], b[c]) for a, b in zip(whole, without) if a[c] is not None and b[c] is not None]
            loss.append(statistics.fmean(a - b for a, b in both) if both else math.nan)
        rows.append([group, *(f"{100 * v:.1f}" for v in loss)])
        lines.append((group, [(c + 1, 100 * v, math.nan) for c, v in enumerate(loss) if v == v]))
    rows.insert(0, ["AUC with all", *(f"{statistics.fmean(a[c] for a in whole if a[c] is not None):.2f}" for c in range(SHAPES))])
    report.table("loss of AUC in points, when a group of features is left out, by category (figure 9c)",
                 ["group", *range(SHAPES)], rows)
    plot(DATA / "groups.svg", "loss of AUC without a group of features, points", "category + 1", lines)
