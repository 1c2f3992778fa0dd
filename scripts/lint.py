# SPDX-License-Identifier: Apache-2.0
"""The lint: clang-format, clang-tidy, cppcheck, and the rules of the tree that a machine can check.

The two slow tools run per file and remember what passed: build/lint holds an empty file named by the
hash of everything the verdict depends on (the source, our headers it reaches, the compiler flags, the
tool's configuration and version), so that only what changed is checked again.
"""
import argparse
import hashlib
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import BUILD, CORES, ROOT, build, call

# The modules that each module may include (arrows of the module map), lowest first.
ARROWS = {
    "base": [],
    "rt": ["base"],
    "emu": ["rt", "base"],
    "prep": ["base"],
    "auth": ["base"],
    "limits": ["base"],
    "secure": ["auth", "rt", "base"],
    "rpc": ["secure", "rt", "base"],
    "code": ["base"],
    "cluster": ["code", "base"],
    "kv": ["rt", "base"],
    "jobs": ["base"],
    "stripe": ["code", "rt", "base"],
    "store": ["cache", "stripe", "code", "rt", "base"],
    "ops": ["rt", "base"],
    "sched": ["ops", "rt", "base"],
    "node": ["prep", "sched", "ops", "store", "rpc", "secure", "auth", "rt", "base"],
    "meta_api": ["cluster", "rpc", "limits", "rt", "base"],
    "meta": ["meta_api", "jobs", "placement", "sched", "ops", "kv", "cluster", "code", "rpc", "limits", "secure", "auth", "rt", "base"],
    "meta_client": ["meta_api", "jobs", "cluster", "rpc", "limits", "secure", "auth", "rt", "base"],
    "placement": ["base"],
    "cache": ["rt", "base"],
    "analysis": ["cache", "jobs", "placement", "code", "base"],
    "shift": ["rpc", "rt", "base"],
    "client": ["placement", "shift", "meta_client", "meta_api", "node", "prep", "stripe", "cluster", "code", "jobs", "secure", "auth",
               "rt", "base"],
    "training": ["client", "emu", "rt", "base"],
    "cachenode": ["client", "shift", "meta_client", "cache", "jobs", "rpc", "secure", "auth", "rt", "base"],
    "janitor": ["client", "shift", "meta_client", "meta_api", "node", "stripe", "cluster", "code", "jobs", "rt", "base"],
    "dataset": ["code", "base"],
    "roles": ["janitor", "cachenode", "shift", "cache", "meta", "meta_client", "meta_api", "node", "ops", "kv", "cluster", "code", "secure",
              "auth", "rt", "base"],
    "simbox": ["training", "janitor", "roles", "meta", "node", "client", "store", "kv", "code", "rt", "base"],
    "box": ["roles", "shift", "meta_client", "node", "cluster", "code", "secure", "auth", "rt", "base"],
    "cli": ["box", "shift", "simbox", "roles", "janitor", "dataset", "training", "client", "analysis", "placement", "prep", "emu",
            "meta_client", "meta_api", "jobs", "node", "cluster", "code", "secure", "auth", "rt", "base"],
}

PARAMETERS_MAX = 7
# A definition or a declaration of a function: its name and its parameters.
FUNCTION = re.compile(r"^(?!\s)[\w\s*]+?[\s*](\w+)\s*\(([^;{}()]*(?:\([^()]*\)[^;{}()]*)*)\)\s*(?:\w+\([^;]*?\)\s*)?[;{]",
                      re.MULTILINE)
# The signature of libmicrohttpd's callback; the others have yet to get a struct.
MANY_PARAMETERS = {"handle"}

DATABASE = BUILD / "asan" / "compile_commands.json"
PASSED = BUILD / "lint"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
SPDX = "SPDX-License-Identifier: Apache-2.0"
# Folders that exist on one machine only. Written so that it does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w.<$}])/(?:work|home|root|Users|mnt)/[\w.]")


def sources(*suffixes):
    """Source files of the project with these suffixes."""
    return sorted(p for top in ("src", "include", "python", "tests", "bench") for p in (ROOT / top).rglob("*")
                  if p.suffix in suffixes and p.is_file())


def tree():
    """Every text file of the project, without those of git and of builds."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if path.is_file() and parts[0] not in (".git", "build") and "seeds" not in parts \
                and "__pycache__" not in parts:
            yield path


def show(path):
    return str(Path(path).relative_to(ROOT))


def follow(path):
    """Whether the analyzer follows paths through this file. It does not for tests, which run under the sanitizers."""
    return not show(path).startswith(("tests/unit/", "tests/fuzz/"))


# ---- the tools

def clang_format(files, fix=False):
    if fix:
        call(["clang-format", "-i", *files])
    done = call(["clang-format", "--dry-run", "-Werror", "-ferror-limit=0", *map(show, files)])
    if done.returncode == 0:
        return None
    bad = re.findall(r"^(.+?:\d+):\d+: error:", done.stdout, re.MULTILINE)
    places = "\n".join(dict.fromkeys(bad)) or done.stdout
    return f"{places}\nformat them with ./dev lint --fix"


def resolve(name, includer):
    """The project's file for an include (of a generated header its .proto); None for a header of another project."""
    if name.endswith(".pb-c.h"):
        name = name[:-len(".pb-c.h")] + ".proto"
    for folder in (ROOT / "src", ROOT / "include", includer.parent, ROOT):
        if (folder / name).is_file():
            return (folder / name).resolve()
    return None


def closure(path, seen):
    """The file and every file of the project that it includes, at any depth."""
    if path in seen:
        return seen
    seen.add(path)
    for name in INCLUDE.findall(path.read_text(errors="replace")):
        below = resolve(name, path)
        if below is not None:
            closure(below, seen)
    return seen


def verdict_key(salt, path):
    digest = hashlib.sha256(salt.encode())
    for file in sorted(closure(path, set())):
        digest.update(show(file).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def tidy_paths(text):
    """The output of clang-tidy with paths relative to the root and without its summary lines."""
    text = text.replace(f"{ROOT}/", "").replace("build/asan/", "").replace("../../", "")
    return re.sub(r"^\d+ warnings? .*\n", "", text, flags=re.MULTILINE)


def check_cached(tool, commands, config):
    """Runs commands {path: (argv, flags)}; skips files that passed before and have not changed since."""
    PASSED.mkdir(parents=True, exist_ok=True)
    version = call([tool, "--version"]).stdout

    def one(item):
        path, (argv, flags) = item
        # The result does not depend on the folder of the tree.
        salt = "\0".join([version, config, flags, *map(str, argv)]).replace(str(ROOT), "")
        stamp = PASSED / f"{tool}-{verdict_key(salt, path)}"
        if stamp.exists():
            return None
        done = call(argv)
        if done.returncode == 0:
            stamp.touch()
            return None
        return tidy_paths(done.stdout)

    # The largest file first, so that the last to finish is a small one.
    work = sorted(commands.items(), key=lambda item: -item[0].stat().st_size)
    with ThreadPoolExecutor(CORES) as pool:
        bad = [output for output in pool.map(one, work) if output is not None]
    return "\n".join(bad) if bad else None


def clang_tidy(files):
    flags = {}
    for entry in json.loads(DATABASE.read_text()):
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        flags[path] = entry.get("command", "")
    missing = [show(p) for p in files if p not in flags]
    if missing:
        return "not built by any meson.build: " + " ".join(missing)
    # Limit of the analyzer's paths through a function: a tenth of the default takes a quarter of the time.
    less = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=20000")]
    # Without the analyzer clang's warnings would be errors; gcc reports those.
    no_paths = ["--checks=-clang-analyzer-*", "--extra-arg=-Wno-error"]
    commands = {path: (["clang-tidy", "--quiet", *(less if follow(path) else no_paths), "-p", DATABASE.parent,
                        show(path)], flags[path])
                for path in files}
    return check_cached("clang-tidy", commands, (ROOT / ".clang-tidy").read_text())


def cppcheck(files):
    suppressions = ROOT / "scripts" / "cppcheck.suppress"
    argv = ["cppcheck", "--quiet", "--enable=warning,performance,portability", "--std=c11",
            "--inline-suppr", "--error-exitcode=1", f"--suppressions-list={suppressions}",
            "--library=posix", "-D_GNU_SOURCE", "-DTERRANE_VERSION=\"\"", "-Isrc"]
    commands = {path: ([*argv, show(path)], "") for path in files if follow(path)}
    return check_cached("cppcheck", commands, suppressions.read_text())


# ---- the rules of the tree: each yields complaints

def arrows():
    for path in sources(".c", ".h"):
        if path.relative_to(ROOT).parts[0] != "src":
            continue
        module = path.relative_to(ROOT / "src").parts[0]
        if module not in ARROWS:
            yield f"{show(path)}: module {module} has no line in ARROWS (scripts/lint.py)"
            continue
        for name in INCLUDE.findall(path.read_text()):
            below = name.split("/")[0]
            if "/" not in name or below not in ARROWS:
                yield f'{show(path)}: "{name}": write the module first, as in "base/err.h"'
            elif below != module and below not in ARROWS[module]:
                yield f'{show(path)}: "{name}": {module} may not use {below}'


def parameters():
    """Functions with too many parameters, which a caller might mix up: they should take a struct."""
    for path in sources(".c", ".h"):
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "", m.group()), path.read_text(), flags=re.DOTALL)
        text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', re.sub(r"//.*", "", text))
        for match in FUNCTION.finditer(text):
            name, inside = match.group(1), re.sub(r"\([^()]*\)", "", match.group(2))
            count = inside.count(",") + 1
            if count > PARAMETERS_MAX and name not in MANY_PARAMETERS:
                line = text.count("\n", 0, match.start()) + 1
                yield f"{show(path)}:{line}: {name} has {count} parameters: more than {PARAMETERS_MAX} are a struct"


def includes_of(path):
    """The modules whose headers a source file includes, including its own."""
    return {name.split("/")[0] for name in INCLUDE.findall(path.read_text()) if "/" in name}


def module_map():
    """The module map of README.md, ARROWS and the includes agree: the map lists every module above all that it
    uses, and every arrow is used by some include."""
    text = (ROOT / "README.md").read_text()
    places = {name: place for place, name in
              enumerate(re.findall(r"^ {2}(\w+)/ {2,}\S", text, re.MULTILINE))}
    for name in sorted(set(ARROWS) ^ set(places)):
        yield f"README.md: the map and ARROWS (scripts/lint.py) do not both have {name}/"
    used = {module: set().union(*map(includes_of, (ROOT / "src" / module).glob("*.[ch]"))) for module in ARROWS}
    for path in (ROOT / "src").glob("*/*/*.[ch]"):  # the two worlds of rt
        used[path.relative_to(ROOT / "src").parts[0]] |= includes_of(path)
    for module, below in ARROWS.items():
        for name in below:
            if name not in used[module]:
                yield f"scripts/lint.py: ARROWS lets {module} use {name}, and no file of it does"
            if module in places and name in places and places[name] < places[module]:
                yield f"README.md: the map has {name}/ above {module}/, which uses it"


def readmes():
    for folder in sorted((ROOT / "src").iterdir()):
        if folder.is_dir() and not (folder / "README.md").is_file():
            yield f"{show(folder)}: no README.md"


def spdx():
    for path in tree():
        code = path.suffix in (".c", ".h", ".py", ".sh", ".proto") or path.name == "meson.build" \
            or path in (ROOT / "dev", ROOT / ".ci" / "run")
        if not code:
            continue
        head = path.read_text().splitlines()[:2] + ["", ""]
        if SPDX not in head[1 if head[0].startswith("#!") else 0]:
            yield f"{show(path)}: does not start with its SPDX line"


def machine_paths():
    for path in tree():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if MACHINE_PATH.search(line):
                yield f"{show(path)}:{number}: names a path of one machine: {line.strip()}"


def rules(*checks):
    complaints = [text for check in checks for text in check()]
    return "\n".join(complaints) if complaints else None


def run(fix=False):
    """Runs every check. Returns (name, None or its complaints) of each."""
    failure = build("asan")  # generated headers, and the flags of each file
    if failure is not None:
        return [("build", failure)]
    units = sources(".c")
    return [
        ("clang-format", clang_format(sources(".c", ".h"), fix)),
        ("clang-tidy", clang_tidy(units)),
        ("cppcheck", cppcheck(units)),
        ("arrows", rules(arrows)),
        ("parameters", rules(parameters)),
        ("readmes", rules(readmes)),
        ("module-map", rules(module_map)),
        ("spdx", rules(spdx)),
        ("machine-paths", rules(machine_paths)),
    ]


# ---- sizes and assertions

ASSERT = re.compile(r"\b(?:static_)?assert\(")


def functions_of(path):
    """The length in lines of each function of a .c file. It relies on the layout: braces in the first column."""
    lengths, begin = [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("{"):
            begin = number
        elif line.startswith("}") and begin is not None:
            lengths.append(number - begin + 1)
            begin = None
    return lengths


def stats_row(name, files):
    lines = sorted(len(path.read_text().splitlines()) for path in files)
    functions = [length for path in files if path.suffix == ".c" for length in functions_of(path)]
    asserts = sum(len(ASSERT.findall(path.read_text())) for path in files)
    long = sum(length > 70 for length in functions)
    return (f"{name:12} {len(files):5} {sum(lines):7} {lines[len(lines) // 2]:7} {lines[-1]:8} "
            f"{sum(n > 500 for n in lines):6} {len(functions):10} {long:6} {max(functions, default=0):8} "
            f"{asserts:8} {1000 * asserts / sum(lines):8.1f}")


def stats():
    """Sizes of files and functions, and assertions per 1000 lines, of each module of src/."""
    modules = {}
    for path in sources(".c", ".h"):
        parts = path.relative_to(ROOT).parts
        if parts[0] == "src":
            modules.setdefault(parts[1], []).append(path)
    print(f"{'module':12} {'files':>5} {'lines':>7} {'median':>7} {'longest':>8} {'> 500':>6} "
          f"{'functions':>10} {'> 70':>6} {'longest':>8} {'asserts':>8} {'per 1000':>8}")
    for name in sorted(modules):
        print(stats_row(name, modules[name]))
    print(stats_row("all", [path for files in modules.values() for path in files]))
    print(stats_row("without cli", [path for name, files in modules.items() if name != "cli" for path in files]))


def main():
    parser = argparse.ArgumentParser(prog="./dev lint")
    parser.add_argument("--fix", action="store_true", help="format the sources first")
    parser.add_argument("--stats", action="store_true", help="print sizes and assertions per module, check nothing")
    args = parser.parse_args()
    if args.stats:
        stats()
        return
    results = run(args.fix)
    for name, complaints in results:
        if complaints is not None:
            print(f"{name}:\n{complaints.rstrip()}")
    failed = sum(complaints is not None for _, complaints in results)
    print(f"lint: {len(results) - failed} checks passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
