# SPDX-License-Identifier: Apache-2.0
"""Branch and line coverage per module, from what the tests left in build/coverage.

The branches of an assert are left out: the untaken one is a programmer's error, which no test may
reach.
"""
import json

from common import BUILD, ROOT, call


def measure():
    """Per file: {path: (branches taken, branches, lines run, lines)}."""
    output = BUILD / "coverage" / "summary.json"
    done = call(["gcovr", "--root", ROOT, "--object-directory", BUILD / "coverage",
                 "--filter", "src/", "--exclude-unreachable-branches", "--exclude-throw-branches",
                 "--exclude-branches-by-pattern", r"\s*(static_)?assert\(.*",
                 "--json-summary", output, BUILD / "coverage"])
    if done.returncode != 0:
        raise RuntimeError("gcovr failed:\n" + done.stdout)
    return {f["filename"]: (f["branch_covered"], f["branch_total"], f["line_covered"], f["line_total"])
            for f in json.loads(output.read_text())["files"]}


def percent(part, whole):
    return f"{100 * part / whole:5.1f}%" if whole else "     -"


def row(name, counts):
    taken, branches, run, lines = counts
    return (f"{name:28} {taken:7}/{branches:<7} {percent(taken, branches)} "
            f"{run:7}/{lines:<7} {percent(run, lines)}")


def table(with_files=True):
    files = measure()
    modules = {}
    for name, counts in files.items():
        module = "/".join(name.split("/")[:2]) + "/"
        modules[module] = [a + b for a, b in zip(modules.get(module, [0] * 4), counts)]
    rows = [f"{'':28} {'branches':>15} {'':6} {'lines':>15}"]
    for module in sorted(modules):
        rows.append(row(module, modules[module]))
        rows += [row("  " + name.split("/", 2)[2], counts)
                 for name, counts in sorted(files.items()) if with_files and name.startswith(module)]
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(with_files=False))
