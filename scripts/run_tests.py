# SPDX-License-Identifier: Apache-2.0
"""The whole test command. Each stage prints what it ran and how long it took, and on failure the
output that matters. The last line counts every test case: `N passed, N failed`.

What counts as one: a cmocka case, a meson test that is no cmocka program, a pytest case, a lint check,
a fuzz target, the simulation smoke. A stage that cannot be built is one failure.
"""
import argparse
import json
import re
import sys
import time
import traceback
import xml.etree.ElementTree as ElementTree

import coverage_table
import fuzz
import lint
from common import BUILD, CORES, ROOT, build, call, fixed_addresses, sanitizer_env

FUZZ_SMOKE_S = 30  # wall time for all targets together
FUZZ_TARGET_MIN_S, FUZZ_TARGET_MAX_S = 2, 5
# What the simulation stage runs, a case each: seeds that must hold and give the same trace twice, and
# the planted bugs, each of which must be found within so many seeds.
SIM = "build/sim/tests/sim/sim"
SIM_SMOKE = [
    ["--scenario", "tally", "--seeds", "1..250", "--repeat", "100"],
    ["--scenario", "meta", "--seeds", "1..60"],
    ["--scenario", "cluster", "--seeds", "1..300"],
    ["--scenario", "over", "--seeds", "1..40"],
    ["--scenario", "waits", "--spread", "1"],
    ["--scenario", "cluster", "--seeds", "1..500", "--hunt", "fence-forgotten"],
    ["--scenario", "cluster", "--seeds", "1..500", "--hunt", "rot-believed"],
    ["--scenario", "cluster", "--seeds", "1..500", "--hunt", "index-forgotten"],
    ["--scenario", "tally", "--seeds", "1..500", "--hunt", "ack-before-sync"],
    ["--scenario", "tally", "--seeds", "1..500", "--hunt", "reply-mismatch"],
]


class Count:
    """What a stage found."""

    def __init__(self, passed=0, failed=0, skipped=0, note=""):
        self.passed, self.failed, self.skipped, self.note = passed, failed, skipped, note
        self.reports = []

    def fail(self, report):
        self.failed += 1
        self.reports.append(report)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.reports += other.reports


def built_or_failed(config, verb="build"):
    """None when the configuration builds, else the count that says so."""
    failure = build(config, verb)
    if failure is None:
        return None
    count = Count()
    count.fail(f"cannot build {config}:\n{failure}")
    return count


# ---- unit tests

def count_program(entry):
    """Counts one program of meson's log: its cmocka cases if it printed any, else itself."""
    count = Count()
    output = entry.get("stdout", "") + entry.get("stderr", "")
    cases = re.findall(r"^(ok|not ok)\b(.*)$", output, re.MULTILINE)
    for verdict, rest in cases:
        if "# SKIP" in rest:  # cmocka says "not ok" to these
            count.skipped += 1
        elif verdict == "not ok":
            count.failed += 1
        else:
            count.passed += 1
    passed = entry["result"] in ("OK", "EXPECTEDFAIL")
    if entry["result"] == "SKIP":
        count.skipped += 1
    elif passed and not cases:
        count.passed = 1
    elif not passed and count.failed == 0:
        count.failed = 1  # it died, leaked or timed out outside of any case
    if count.failed:
        text = "\n".join(line for line in output.splitlines() if not line.startswith("ok "))
        count.reports.append(f"{entry['name']}: {entry['result']}\n{text}")
    return count


def meson_tests(config, *selection, under=()):
    """Runs meson's tests of a configuration that is set up; meson builds what they need. `under` is a
    command that runs another."""
    log = BUILD / config / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    done = call([*under, *fixed_addresses(), "meson", "test", "-C", BUILD / config, "--num-processes", CORES,
                 *selection], env=sanitizer_env())
    count = Count()
    programs = 0
    for line in log.read_text().splitlines() if log.exists() else []:
        programs += 1
        count.add(count_program(json.loads(line)))
    if done.returncode != 0 and count.failed == 0:
        count.fail(done.stdout)
    count.note = f"{programs} programs"
    return count


def stage_unit():
    return built_or_failed("asan") or meson_tests("asan", "--no-suite", "rados")


def stage_threads():
    return built_or_failed("tsan", "configure") or meson_tests("tsan", "--suite", "threads")


def stage_rados():
    """The tests that need a RADOS cluster, with one."""
    done = call(["./dev", "deps", "rados"])
    if done.returncode != 0:
        count = Count()
        count.fail(done.stdout)
        return count
    return built_or_failed("asan") or meson_tests(
        "asan", "--suite", "rados", under=["scripts/rados.sh", "run"])


# ---- the other stages

def stage_lint():
    results = lint.run()
    count = Count(note=f"{len(lint.sources('.c', '.h'))} files")
    for name, complaints in results:
        if complaints is None:
            count.passed += 1
        else:
            count.fail(f"{name}:\n{complaints}")
    return count


def stage_sim():
    failed = built_or_failed("sim")
    if failed:
        return failed
    count = Count(note=" ".join(SIM_SMOKE[0]))
    for arguments in SIM_SMOKE:
        done = call([SIM, *arguments])
        if done.returncode == 0:
            count.passed += 1
        else:
            count.fail(done.stdout)
    return count


def stage_fuzz():
    failed = built_or_failed("fuzz")
    if failed:
        return failed
    names = fuzz.targets()
    if not names:
        return Count(note="no fuzz target in this tree")
    seconds = FUZZ_SMOKE_S * min(CORES, len(names)) // len(names)
    seconds = min(max(seconds, FUZZ_TARGET_MIN_S), FUZZ_TARGET_MAX_S)
    count = Count(note=f"{seconds} s each")
    for passed, report in fuzz.run_all(names, seconds):
        if passed:
            count.passed += 1
        else:
            count.fail(report)
    return count


def stage_blackbox():
    folder = ROOT / "tests" / "blackbox"
    if not folder.is_dir():
        return Count(note="no black-box tests in this tree")
    failed = built_or_failed("release")
    if failed:
        return failed
    call(["./dev", "deps", "fire"])  # cases that miss something say so and are skipped
    results = BUILD / "blackbox.xml"
    results.unlink(missing_ok=True)
    done = call([sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                 "-n", CORES + 1, "--dist", "loadfile", f"--junitxml={results}", folder])
    count = Count()
    if results.exists():
        suite = ElementTree.parse(results).getroot().find("testsuite")
        total, failures, errors, skipped = (
            int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped"))
        count.failed, count.skipped = failures + errors, skipped
        count.passed = total - failures - errors - skipped
    if done.returncode != 0:
        count.failed = max(count.failed, 1)
        count.reports.append(done.stdout)
    return count


def stage_coverage():
    """Unit tests and a little simulation once more, counting branches; nothing here adds cases."""
    failed = built_or_failed("coverage")
    if failed:
        return failed
    for old in (BUILD / "coverage").rglob("*.gcda"):
        old.unlink()
    ran = meson_tests("coverage")
    simulator = BUILD / "coverage" / "tests" / "sim" / "sim"
    if simulator.exists():
        call([simulator, "--scenario", "tally", "--seeds", "1..20"])
    table = coverage_table.table()
    print(table, flush=True)
    count = Count(note=f"{ran.passed} cases run again")
    count.add(Count(failed=ran.failed))
    count.reports += ran.reports
    return count


# stage on the command line: its runs, in order
STAGES = {
    "lint": [("lint", stage_lint)],
    "unit": [("unit (asan, ubsan)", stage_unit), ("threads (tsan)", stage_threads)],
    "rados": [("rados (asan, ubsan)", stage_rados)],
    "sim": [("sim", stage_sim)],
    "fuzz": [("fuzz", stage_fuzz)],
    "blackbox": [("blackbox", stage_blackbox)],
}


def run_stage(name, stage):
    start = time.monotonic()
    try:
        count = stage()
    except Exception:  # a broken stage is a failure like any other: the count must still be printed
        count = Count()
        count.fail(traceback.format_exc())
    parts = [f"{count.passed} passed"]
    if count.failed:
        parts.append(f"{count.failed} FAILED")
    if count.skipped:
        parts.append(f"{count.skipped} skipped")
    if count.note:
        parts.append(count.note)
    print(f"{name:20} {time.monotonic() - start:6.1f} s  {', '.join(parts)}")
    for report in count.reports:
        print("\n".join("    " + line for line in report.rstrip().splitlines()))
    sys.stdout.flush()
    return count


def main():
    parser = argparse.ArgumentParser(prog="./dev test")
    parser.add_argument("--coverage", action="store_true",
                        help="then print branch and line coverage of each module")
    parser.add_argument("stage", nargs="*", help=" ".join(STAGES))
    args = parser.parse_args()
    unknown = [name for name in args.stage if name not in STAGES]
    if unknown:
        parser.error(f"no stage {unknown[0]}; there are: {' '.join(STAGES)}")
    # `--coverage` alone asks for the table, not for everything else first.
    chosen = args.stage or ([] if args.coverage else list(STAGES))
    total = Count()
    for name in STAGES:
        if name in chosen:
            for title, stage in STAGES[name]:
                total.add(run_stage(title, stage))
    if args.coverage:
        total.add(run_stage("coverage", stage_coverage))
    print(f"{total.passed} passed, {total.failed} failed")
    sys.exit(1 if total.failed else 0)


if __name__ == "__main__":
    main()
