# SPDX-License-Identifier: Apache-2.0
"""./dev mutate: changes one thing at a time in the sources of a module and looks whether a test fails.

A mutant is one change of one line: an operator, a condition, a constant, a call left out, two calls swapped; with --syncs,
a call that makes data durable left out; with --planted, a bug of tests/planted.txt. Each is built in a copy of the
committed tree (build/mutate, kept for the next run), then the unit tests of the module run, then seeds of the simulator;
for a sync also the tests of local files and of a loss of power. A mutant that fails a test or does not end in time is
killed, the others survive and are listed; one that does not compile does not count. tests/mutants.txt names mutants that
change no behaviour, with the reason; they do not count.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from common import BUILD, CORES, ROOT

COPY = BUILD / "mutate"
TESTS, RELEASE = COPY / "build" / "mutants", COPY / "build" / "release"
NO_PROGRAM = "the compiler"
EQUIVALENT = ROOT / "tests" / "mutants.txt"
PLANTED = COPY / "tests" / "planted.txt"
MODULES = ("store", "meta", "client", "node", "janitor", "kv")
# Patterns of the names of a module's unit tests, where they are not MODULE and MODULE_*.
UNIT_TESTS = {"rt": ("rt_*", "sim", "sim_*"), "secure": ("secure", "audit_log"), "training": ("training", "train_*")}
# Syncs of files that commands write: no cluster is needed to see them.
LOCAL_FILES = ("auth", "base", "box", "cli")
CLUSTERS = ("local files", "a loss of power")  # runs that need the release build
# What the tests of CLUSTERS use; the name of the library of clients has a version.
PROGRAMS = re.compile(r"^(src/cli/terraned?|src/client/libterrane\.so[.\d]*|tests/tools/\w+(?:\.so)?): c_LINKER", re.M)
SEEDS = 20
TIMEOUT_S = 60  # least time limit of a run of tests; more if they take long without a change

SWAPS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" && ", " || "), (" || ", " && "), (" + ", " - "), (" - ", " + "), ("true", "false"), ("false", "true"),
         ("return 0;", "return -EIO;"), ("++", "--")]
CALL = re.compile(r"^\t+(?:\(void\))?[a-z]\w*\([^;]*\);$")
SYNC = re.compile(r"\b(rt_file_sync|rt_dir_sync|rt_name_sync|name_sync|dir_fan_sync_pending|dir_fan_sync|fans_sync|fsync|fdatasync)\(((?:[^()]|\([^()]*\))*)\)")
SYNC_REQUEST = re.compile(r"io_uring_prep_fsync\(sqe,.*\);")
SYNC_OPTION = re.compile(r"(rocksdb_writeoptions_set_sync\([^,]+, )1\)")
LEFT = re.compile(r"^\s*(?:/?\*|//|#|assert\(|log_|static_assert|case |default:)")


@dataclass
class Mutant:
    path: str
    line: int  # from 0
    before: str
    after: str  # may be several lines

    def __str__(self):
        after = self.after.strip() or "(left out)"
        return f"{self.path}:{self.line + 1}: {self.before.strip()}  ->  {after}"

    def key(self):
        return f"{self.path}: {self.before.strip()} -> {self.after.strip()}"


def bodies(lines):
    """The numbers of the lines inside of functions."""
    inside = False
    for i, line in enumerate(lines):
        if line == "{":
            inside = True
        elif line == "}":
            inside = False
        elif inside:
            yield i


def mutants_of(path, lines):
    """All single changes of a file."""
    inside = list(bodies(lines))
    for i in inside:
        line = lines[i]
        if LEFT.match(line) or not line.strip():
            continue
        for before, after in SWAPS:
            for found in re.finditer(re.escape(before), line):
                if before.isalpha() and re.search(r"\w", line[found.start() - 1] + line[found.end():found.end() + 1]):
                    continue
                yield Mutant(path, i, line, line[:found.start()] + after + line[found.end():])
        if CALL.match(line):
            indent = line[:len(line) - len(line.lstrip())]
            yield Mutant(path, i, line, indent + ";")
            if i + 1 in inside and CALL.match(lines[i + 1]):
                yield Mutant(path, i, line, lines[i + 1] + "\n" + line + "\n" + indent + "#define NEXT_LEFT_OUT")


def syncs_of(path, lines):
    """The changes of a file that leave out one sync."""
    for i in bodies(lines):
        if LEFT.match(lines[i]):
            continue
        for found in SYNC.finditer(lines[i]):
            arguments = found[2].strip()
            after = f"((void)({arguments}), 0)"
            yield Mutant(path, i, lines[i], lines[i][:found.start()] + after + lines[i][found.end():])
        if SYNC_REQUEST.search(lines[i]):
            yield Mutant(path, i, lines[i], SYNC_REQUEST.sub("io_uring_prep_nop(sqe);", lines[i]))
        if SYNC_OPTION.search(lines[i]):
            yield Mutant(path, i, lines[i], SYNC_OPTION.sub(r"\g<1>0)", lines[i]))


def apply(mutant, lines):
    """The text of the file with the change."""
    changed = list(lines)
    if mutant.after.endswith("#define NEXT_LEFT_OUT"):
        changed[mutant.line:mutant.line + 2] = mutant.after.split("\n")[:2]
    else:
        changed[mutant.line] = mutant.after
    return "\n".join(changed)


def run(command, timeout, folder=COPY):
    """Returns the exit status, or None after the timeout, when the command and its children are killed."""
    with subprocess.Popen(list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None


def must(command, folder=COPY, env=None):
    compiler = "ccache gcc" if shutil.which("ccache") else "gcc"
    done = subprocess.run(list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", check=False, env={**os.environ, "CC": compiler, "LDFLAGS": "", **(env or {})})
    if done.returncode != 0:
        sys.exit(f"mutate: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Judge:
    """Builds mutants and runs tests on them, cheapest first."""

    def __init__(self, syncs, seeds):
        self.syncs, self.seeds = syncs, seeds
        self.limits = {}  # time limit of each run of tests, from its time without a change
        head = must(["git", "rev-parse", "HEAD"], ROOT).strip()
        if (COPY / ".git").exists():
            must(["git", "checkout", "--force", "--detach", head])
        else:
            must(["git", "worktree", "prune"], ROOT)
            must(["git", "worktree", "add", "--detach", COPY, head], ROOT)
        # The options of ./dev, so that the compiler cache has all files but the changed one.
        if not TESTS.exists():
            must(["meson", "setup", "-Db_sanitize=address,undefined", "-Doptimization=1", "-Dplanted_bugs=true", TESTS],
                 env={"CFLAGS": "-g1"})
        if syncs and not RELEASE.exists():
            must(["meson", "setup", "-Dtests=false", RELEASE], env={"CFLAGS": ""})
        link = COPY / "build" / "terrane"
        if syncs and not link.is_symlink():
            link.symlink_to(RELEASE / "src" / "cli" / "terrane")

    def names(self, module):
        """The unit tests of a module."""
        patterns = UNIT_TESTS.get(module, (module, f"{module}_*"))
        files = {p for pattern in patterns for p in (COPY / "tests" / "unit").glob(f"test_{pattern}.c")}
        return sorted(p.stem[len("test_"):] for p in files if not p.stem.endswith("_rados"))

    def build(self, module):
        """Builds what the runs of a module need."""
        targets = [f"tests/unit/test_{name}" for name in self.names(module)]
        if self.seeds and module not in LOCAL_FILES:
            targets.append("tests/sim/sim")
        return run(["ninja", "-C", TESTS, "-j", CORES, *targets], 1800) == 0 if targets else True

    def build_release(self):
        targets = PROGRAMS.findall(must(["ninja", "-C", RELEASE, "-t", "targets", "all"]))
        return run(["ninja", "-C", RELEASE, "-j", CORES, *targets], 1800) == 0

    def runs(self, module):
        """The runs of tests of a module, cheapest first: (name, command)."""
        names = self.names(module)
        if names:
            yield "unit tests", ["meson", "test", "-C", TESTS, "--no-rebuild", "--maxfail", "1", "--num-processes",
                                 CORES, *names]
        if self.seeds and module not in LOCAL_FILES:
            yield f"{self.seeds} seeds", [TESTS / "tests" / "sim" / "sim", "--scenario", "cluster", "--seeds",
                                          f"1..{self.seeds}"]
        if self.syncs:
            pytest = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
            yield CLUSTERS[0], [*pytest, "tests/blackbox/test_syncs.py"]
            if module not in LOCAL_FILES:
                yield CLUSTERS[1], [*pytest, "tests/blackbox/test_power.py"]

    def begin(self, module):
        """All tests must pass without a change. Measures how long they take."""
        if not self.build(module) or (self.syncs and not self.build_release()):
            sys.exit("mutate: the tree does not build")
        for name, command in self.runs(module):
            start = time.monotonic()
            if run(command, 3600) != 0:
                sys.exit(f"mutate: {name} of {module} fail without a change")
            self.limits[name] = max(TIMEOUT_S, 3 * (time.monotonic() - start))

    def killer(self, module, mutant):
        """What kills the mutant, or None if it survives."""
        path = COPY / mutant.path
        text = path.read_text()
        path.write_text(apply(mutant, text.split("\n")))
        try:
            if not self.build(module):
                return NO_PROGRAM
            for name, command in self.runs(module):
                if name == CLUSTERS[0] and not self.build_release():
                    return NO_PROGRAM
                if run(command, self.limits[name]) != 0:
                    return name
            return None
        finally:
            path.write_text(text)


def known_equivalent():
    """{key of a mutant: reason} from tests/mutants.txt."""
    known = {}
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []:
        if line and not line.startswith("#"):
            key, _, reason = line.rpartition(" | ")
            known[key] = reason
    return known


def planted(module):
    """The bugs of tests/planted.txt in a module."""
    for number, line in enumerate(PLANTED.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        change, _, _ = line.rpartition(" | ")
        path, _, change = change.partition(": ")
        before, _, after = change.partition(" -> ")
        if not path.startswith(f"src/{module}/"):
            continue
        lines = (COPY / path).read_text().split("\n")
        found = [i for i, text in enumerate(lines) if text.strip() == before]
        if len(found) != 1:
            sys.exit(f"mutate: {PLANTED}:{number}: {path} has {len(found)} lines \"{before}\", not one")
        text = lines[found[0]]
        yield Mutant(path, found[0], text, text[:len(text) - len(text.lstrip())] + after)


def candidates(module, args):
    if args.planted:
        yield from planted(module)
        return
    make = syncs_of if args.syncs else mutants_of
    for path in sorted((COPY / "src" / module).rglob("*.c")):
        yield from make(str(path.relative_to(COPY)), path.read_text().split("\n"))


def judge_module(judge, module, args, end):
    """Returns counts and survivors of a module."""
    known = known_equivalent()
    drawn = [m for m in candidates(module, args) if m.key() not in known]
    if not args.syncs and not args.planted:
        random.Random(args.seed).shuffle(drawn)
    result = {"module": module, "possible": len(drawn), "tried": 0, "killed": 0, "survivors": []}
    if not drawn:
        return result
    judge.begin(module)
    for mutant in drawn[:args.count]:
        if time.monotonic() > end:
            break
        killer = judge.killer(module, mutant)
        if killer == NO_PROGRAM:
            continue
        result["tried"] += 1
        result["killed"] += killer is not None
        if killer is None:
            result["survivors"].append(str(mutant))
        if not args.json:
            print(f"{'survives' if killer is None else 'killed'}  {mutant}" + (f"  by {killer}" if killer else ""),
                  flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", help=f"a module of src/; default {' '.join(MODULES)}")
    parser.add_argument("--minutes", type=float, default=30, help="begin no mutant after this time (default 30)")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="most mutants of each module")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order in which mutants are drawn")
    parser.add_argument("--seeds", type=int, default=SEEDS,
                        help=f"seeds of the simulator that a survivor of the unit tests runs (default {SEEDS})")
    parser.add_argument("--syncs", action="store_true", help="leave out each sync, one after the other")
    parser.add_argument("--planted", action="store_true", help="try the bugs of tests/planted.txt, one after the other")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    modules = args.module or (sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir())
                              if args.syncs or args.planted else MODULES)
    missing = [m for m in modules if not (ROOT / "src" / m).is_dir()]
    if missing:
        parser.error(f"no module {', '.join(missing)} in src/")
    end = time.monotonic() + args.minutes * 60
    judge = Judge(args.syncs, args.seeds)
    results = [judge_module(judge, module, args, end) for module in modules]
    if args.json:
        print(json.dumps(results, indent=2))
        return
    for r in results:
        share = f"{100 * r['killed'] / r['tried']:.0f}%" if r["tried"] else "-"
        print(f"{r['module']}: {r['killed']} of {r['tried']} killed ({share}), {r['possible']} possible")
    sys.exit(1 if (args.syncs or args.planted) and any(r["survivors"] for r in results) else 0)


if __name__ == "__main__":
    main()
