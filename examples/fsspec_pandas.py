#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Works with tables on a cluster through fsspec and pandas: a program needs no import of terrane, only paths that begin with
terrane://.

    export TERRANE_CLUSTER=/tmp/box/cluster.ini      # see README.md, "A cluster in a folder"
    PYTHONPATH=build/python python3 examples/fsspec_pandas.py [--folder terrane://tables]
"""
import argparse

import fsspec
import pandas


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="terrane://tables", help="folder for the tables (default: %(default)s)")
    folder = parser.parse_args().folder
    runs = pandas.DataFrame({"run": ["a", "a", "b", "b"], "step": [100, 200, 100, 200], "loss": [2.5, 1.5, 2.0, 1.0]})
    for name, rows in runs.groupby("run"):
        rows.to_csv(f"{folder}/{name}.csv", index=False)  # visible, complete and durable when it returns
    fs, path = fsspec.core.url_to_fs(folder)
    tables = [pandas.read_csv(f"terrane://{found}") for found in fs.glob(f"{path}/*.csv")]
    best = pandas.concat(tables).groupby("run")["loss"].min()
    print(best.to_string())
    with fs.transaction:  # both files become visible at the end, or none
        with fs.open(f"{path}/best.txt", "w") as file:
            file.write(best.to_string())
        fs.pipe(f"{path}/count.txt", str(len(tables)).encode())
    first, last = fs.cat_ranges([f"{path}/a.csv", f"{path}/b.csv"], [0, -8], [13, None])  # one call for both
    print(first.decode(), "...", last.decode().strip())
    fs.rm(path, recursive=True)
    return 0 if best["a"] == 1.5 and best["b"] == 1.0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
