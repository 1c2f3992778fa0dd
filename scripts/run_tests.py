# SPDX-License-Identifier: Apache-2.0
"""./dev test. Each stage prints what it ran, how long it took, and the relevant output of failures. The
last line counts every test case: `N passed, N failed`.

Tests wait for a large part of their time. Builds, the lint and the simulation only compute; they run in one thread
of low priority at the same time, and a stage waits only for its own build.

A case is: a cmocka case, a meson test that is no cmocka program, a pytest case, a lint check,
a fuzz target, the simulation smoke. A stage that cannot be built is one failure.
"""
import argparse
import json
import os
import re
import sys
import time
import traceback
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

import coverage_table
import fuzz
import lint
from common import BUILD, CORES, ROOT, build, call, fixed_addresses, sanitizer_env

FUZZ_SMOKE_S = 20  # wall time for all targets together
FUZZ_TARGET_MIN_S, FUZZ_TARGET_MAX_S = 2, 5
# The priority of builds, lint and simulation. Low enough to let tests go first that wait for an answer, high enough
# to get a share of a core that another program keeps busy.
BESIDE_NICE = 4
# The runs of the simulation stage, one case each: seeds that must pass and give the same trace twice, and
# planted bugs, each of which must be found within so many seeds.
SIM = "build/sim/tests/sim/sim"
SIM_SMOKE = [
    ["--scenario", "meta", "--seeds", "1..100", "--repeat", "100"],
    ["--scenario", "cluster", "--seeds", "1..300"],
    ["--scenario", "over", "--seeds", "1..40"],
    ["--scenario", "waits", "--spread", "1"],
    ["--scenario", "meta", "--seeds", "1..500", "--plants"],
    # a planted bug for I2 and for I7 to I12 each; unit tests break the other invariants
    *(["--scenario", "cluster", "--seeds", "1..500", "--hunt", bug] for bug in (
        "sync-skipped", "quota-ignored", "index-forgotten", "wrong-parity", "delete-first", "gate-leak",
        "real-clock")),
]


class Count:
    """The results of a stage."""

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


# ---- unit tests

def count_program(entry):
    """Counts a test program in meson's log: its cmocka cases if it printed any, else one case."""
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


def unit_names(config):
    """The names of the test programs that meson knows in a configuration."""
    done = call(["meson", "introspect", "--tests", BUILD / config])
    return sorted({test["name"] for test in json.loads(done.stdout)})


def meson_tests(config, *selection, under=()):
    """Runs meson's tests of a configuration that is built. `under` is a command that runs another one."""
    log = BUILD / config / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    done = call([*under, *fixed_addresses(), "meson", "test", "-C", BUILD / config, "--no-rebuild",
                 "--num-processes", CORES, *selection], env=sanitizer_env())
    count = Count()
    programs = 0
    for line in log.read_text().splitlines() if log.exists() else []:
        programs += 1
        count.add(count_program(json.loads(line)))
    if done.returncode != 0 and count.failed == 0:
        count.fail(done.stdout)
    count.note = f"{programs} programs"
    return count


def stage_unit(names=()):
    if not names:
        return meson_tests("asan", "--no-suite", "rados")
    known = unit_names("asan")
    wrong = [name for name in names if name not in known]
    if wrong:
        count = Count()
        close = [name for name in known if any(part in name for part in wrong)]
        count.fail(f"no test program {', '.join(wrong)}; there are: {' '.join(close or known)}")
        return count
    return meson_tests("asan", *names)


def stage_threads():
    return meson_tests("tsan", "--suite", "threads")


def stage_rados():
    """Runs the tests that need a RADOS cluster, in a temporary one."""
    done = call(["./dev", "deps", "rados"])
    if done.returncode != 0:
        count = Count()
        count.fail(done.stdout)
        return count
    return meson_tests("asan", "--suite", "rados", under=["scripts/rados.sh", "run"])


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
    count = Count(note=" ".join(SIM_SMOKE[0]))
    for arguments in SIM_SMOKE:
        done = call([SIM, *arguments])
        if done.returncode == 0:
            count.passed += 1
        else:
            count.fail(done.stdout)
    return count


def stage_fuzz():
    names = fuzz.targets("smoke")
    if not names:
        return Count(note="no fuzz target in this tree")
    seconds = FUZZ_SMOKE_S * min(CORES, len(names)) // len(names)
    seconds = min(max(seconds, FUZZ_TARGET_MIN_S), FUZZ_TARGET_MAX_S)
    count = Count(note=f"{seconds} s each")
    for passed, report in fuzz.run_all(names, seconds, "smoke"):
        if passed:
            count.passed += 1
        else:
            count.fail(report)
    return count


def pytest_stage(folder):
    """Runs the tests of a folder by pytest and counts their results."""
    results = BUILD / f"{folder.name}.xml"
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


def stage_blackbox():
    folder = ROOT / "tests" / "blackbox"
    if not folder.is_dir():
        return Count(note="no black-box tests in this tree")
    call(["./dev", "deps", "fire"])  # cases that miss something say so and are skipped
    return pytest_stage(folder)


def stage_python():
    """Runs the tests of the Python package; some of them use the sanitized extension."""
    call(["./dev", "deps", "python"])  # cases that miss a package say so and are skipped
    failure = build("asan")
    if failure is not None:
        count = Count()
        count.fail(f"cannot build asan:\n{failure}")
        return count
    return pytest_stage(ROOT / "tests" / "python")


def stage_coverage():
    """Runs the unit tests and some seeds once more to count branches; adds no cases."""
    for old in (BUILD / "coverage").rglob("*.gcda"):
        old.unlink()
    ran = meson_tests("coverage")
    simulator = BUILD / "coverage" / "tests" / "sim" / "sim"
    if simulator.exists():
        call([simulator, "--scenario", "meta", "--seeds", "1..20"])
    table = coverage_table.table()
    print(table, flush=True)
    count = Count(note=f"{ran.passed} cases run again")
    count.add(Count(failed=ran.failed))
    count.reports += ran.reports
    return count


# Name on the command line: title, configuration, function. Stages that wait most come first. The stage with a RADOS
# cluster comes last, after all builds and the lint, because the cluster needs the machine for itself.
STAGES = {
    "unit": ("unit (asan, ubsan)", "asan", stage_unit),
    "blackbox": ("blackbox", "release", stage_blackbox),
    "python": ("python", "release", stage_python),
    "threads": ("threads (tsan)", "tsan", stage_threads),
    "fuzz": ("fuzz", "smoke", stage_fuzz),
    "coverage": ("coverage", "coverage", stage_coverage),
    "sim": ("sim", "sim", stage_sim),
    "lint": ("lint", "asan", stage_lint),
    "rados": ("rados (asan, ubsan)", "asan", stage_rados),
}
COMPUTES = ("lint", "sim")  # these depend on no timing, so they run at the same time as the other stages


def run_stage(name, built, programs=()):
    """Runs a stage once its configuration is built; prints and returns its count."""
    title, config, stage = STAGES[name]
    count = Count()
    start = time.monotonic()
    try:
        failure = built.result()
        start = time.monotonic()
        if failure is None:
            count = stage(programs) if programs else stage()
        else:
            count.fail(f"cannot build {config}:\n{failure}")
    except Exception:  # an error in a stage counts as a failure, so that the count is still printed
        count.fail(traceback.format_exc())
    parts = [f"{count.passed} passed"]
    if count.failed:
        parts.append(f"{count.failed} FAILED")
    if count.skipped:
        parts.append(f"{count.skipped} skipped")
    if count.note:
        parts.append(count.note)
    lines = [f"{title:20} {time.monotonic() - start:6.1f} s  {', '.join(parts)}"]
    for report in count.reports:
        lines += ["    " + line for line in report.rstrip().splitlines()]
    print("\n".join(lines), flush=True)
    return count


def run_stages(names, programs):
    # The priority is the thread's own on Linux, and what it starts inherits it.
    beside = ThreadPoolExecutor(1, initializer=os.nice, initargs=(BESIDE_NICE,))
    total = Count()
    try:
        builds = {}
        for name in names:
            config = STAGES[name][1]
            if config not in builds:
                builds[config] = beside.submit(build, config)
        computed = {name: beside.submit(run_stage, name, builds[STAGES[name][1]])
                    for name in COMPUTES if name in names}
        for name in names:
            built = builds[STAGES[name][1]]
            total.add(computed[name].result() if name in computed else run_stage(name, built, programs))
    finally:
        beside.shutdown(cancel_futures=True)
    return total


def main():
    began = time.monotonic()
    parser = argparse.ArgumentParser(prog="./dev test")
    parser.add_argument("--coverage", action="store_true",
                        help="then print branch and line coverage of each module")
    parser.add_argument("stage", nargs="*", help=" ".join(STAGES) + "; `unit NAME...` runs the test programs NAME")
    args = parser.parse_args()
    programs = []
    if args.stage[:1] == ["unit"] and len(args.stage) > 1 and args.stage[1] not in STAGES:
        args.stage, programs = args.stage[:1], args.stage[1:]
    unknown = [name for name in args.stage if name not in STAGES]
    if unknown:
        parser.error(f"no stage {unknown[0]}; there are: {' '.join(STAGES)}")
    # `--coverage` alone prints the table without running the other stages.
    chosen = args.stage or ([] if args.coverage else [name for name in STAGES if name != "coverage"])
    if args.coverage:
        chosen.append("coverage")
    total = run_stages([name for name in STAGES if name in chosen], programs)
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    print(f"{total.passed} passed, {total.failed} failed")
    sys.exit(1 if total.failed else 0)


if __name__ == "__main__":
    main()
