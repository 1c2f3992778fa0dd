# SPDX-License-Identifier: Apache-2.0
"""Runs the libFuzzer targets of build/fuzz, or of build/smoke for `./dev test`, as many at a time as there are cores.

Each target reads its seeds from tests/fuzz/seeds/TARGET and keeps its corpus in
build/fuzz-corpus/TARGET, so that a later run starts where this one stopped. An input that fails is
kept in build/fuzz-crash; the report has the command that replays it.
"""
import argparse
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from common import BUILD, CORES, ROOT, build, call, fixed_addresses, sanitizer_env

def folder(config):
    return BUILD / config / "tests" / "fuzz"


def targets(config="fuzz"):
    return sorted(p.name[len("fuzz_"):] for p in folder(config).glob("fuzz_*")
                  if p.is_file() and p.suffix == "")


def run_target(name, seconds, config):
    """Runs a target for some seconds. Returns (passed, report)."""
    corpus = BUILD / "fuzz-corpus" / name
    seeds = ROOT / "tests" / "fuzz" / "seeds" / name
    corpus.mkdir(parents=True, exist_ok=True)
    (BUILD / "fuzz-crash").mkdir(exist_ok=True)
    program = folder(config) / f"fuzz_{name}"
    command = [*fixed_addresses(), program, f"-max_total_time={seconds}", "-timeout=10",
               "-rss_limit_mb=2048", "-malloc_limit_mb=256", "-print_final_stats=1", "-verbosity=1",
               f"-artifact_prefix=build/fuzz-crash/{name}-", corpus]
    if seeds.is_dir():
        command.append(seeds)
    began = time.monotonic()
    done = call(command, env=sanitizer_env())
    ran = f"{name}: ran {time.monotonic() - began:.0f} s, {inputs_done(done.stdout)} inputs"
    if done.returncode == 0:
        return True, ran
    found = re.search(r"Test unit written to (\S+)", done.stdout)
    report = [f"{ran}, FAILED (exit status {done.returncode})", sanitizer_report(done.stdout)]
    if found:
        report.append(f"input:  {found[1]}")
        report.append(f"replay: build/{config}/tests/fuzz/fuzz_{name} {found[1]}")
    return False, "\n".join(report)


def inputs_done(text):
    """The number of inputs that libFuzzer reports; a target that dies may not report it."""
    found = re.search(r"stat::number_of_executed_units:\s+(\d+)", text)
    return found[1] if found else "an unknown number of"


def sanitizer_report(text):
    """The output from the sanitizer's first line to its summary; without them, the end of the output."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if "ERROR:" in line or "runtime error:" in line]
    ends = [i + 1 for i, line in enumerate(lines) if line.startswith("SUMMARY:")]
    start = starts[0] if starts else max(0, len(lines) - 40)
    return "\n".join(lines[start:ends[-1] if ends else len(lines)])


def run_all(names, seconds, config="fuzz"):
    """Runs targets at the same time. Yields (passed, report) of each, in their order."""
    with ThreadPoolExecutor(CORES) as pool:
        yield from pool.map(lambda name: run_target(name, seconds, config), names)


def seconds_each(args, count):
    """The seconds for each of count targets, if as many run at a time as there are cores."""
    if args.each is not None:
        return max(1, int(args.each * 60))
    return max(1, int(args.minutes * 60 * min(CORES, count) / count))


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=5, metavar="M",
                        help="for all targets together (5)")
    length.add_argument("--each", type=float, metavar="M", help="for each target")
    parser.add_argument("--forget", action="store_true", help="delete the corpus and start from the seeds")
    parser.add_argument("target", nargs="*")
    args = parser.parse_args()
    failure = build("fuzz")
    if failure is not None:
        sys.exit(failure)
    known = targets()
    unknown = [name for name in args.target if name not in known]
    if unknown or not known:
        print(f"dev: no target {' '.join(unknown)}; there are: {' '.join(known) or 'none yet'}",
              file=sys.stderr)
        sys.exit(2)
    names = args.target or known
    if args.forget:
        for name in names:
            shutil.rmtree(BUILD / "fuzz-corpus" / name, ignore_errors=True)
    seconds = seconds_each(args, len(names))
    whole = seconds * -(-len(names) // CORES)
    print(f"fuzz: {len(names)} targets, {seconds} s each, {CORES} at a time: {whole / 60:.0f} min",
          flush=True)
    well = True
    for passed, report in run_all(names, seconds):
        print(report, flush=True)
        well = well and passed
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
