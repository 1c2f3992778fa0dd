# SPDX-License-Identifier: Apache-2.0
"""./dev fire: the long run of tests/blackbox/test_fire.py and test_power.py, round after round, each with a seed of its own.

Stops at the first round that fails and prints its seed; the folder of its cluster is kept.
"""
import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, build, call

CASES = [ROOT / "tests" / "blackbox" / name for name in ("test_fire.py", "test_power.py")]


def run_round(seed, seconds, words, folder):
    """Runs a round. Returns (passed, the last line of its output, its output)."""
    env = {**os.environ, "TERRANE_FIRE_SEED": str(seed), "TERRANE_FIRE_SECONDS": str(seconds)}
    select = ["-k", " or ".join(words)] if words else []
    done = call([sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", folder,
                 *select, *CASES], env=env)
    summary = re.findall(r"^.*\d+ (?:passed|failed|skipped|error).* in .*$", done.stdout, re.MULTILINE)
    return done.returncode == 0, summary[-1] if summary else "nothing ran", done.stdout


def main():
    parser = argparse.ArgumentParser(prog="./dev fire", description=__doc__)
    parser.add_argument("--rounds", type=int, help="number of rounds; default 1, or as many as fit into --minutes")
    parser.add_argument("--minutes", type=float, help="begin no round after this time")
    parser.add_argument("--seconds", type=float, default=10, help="time with faults in each case")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first round")
    parser.add_argument("case", nargs="*", help="words of the cases to run, as pytest -k takes them; default all")
    args = parser.parse_args()
    failure = build("release")
    if failure is not None:
        sys.exit(failure)
    most = args.rounds or (1 if args.minutes is None else sys.maxsize)
    end = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
    folder = Path(tempfile.mkdtemp(prefix="terrane-fire-"))
    done = 0
    while done < most and time.monotonic() < end:
        passed, summary, text = run_round(args.seed + done, args.seconds, args.case, folder / "round")
        print(f"round {done + 1}, seed {args.seed + done}: {summary}", flush=True)
        if not passed:
            print(f"{text}\n{done} rounds passed, then seed {args.seed + done} failed; see {folder}")
            sys.exit(1)
        done += 1
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{done} rounds passed, 0 failed")


if __name__ == "__main__":
    main()
