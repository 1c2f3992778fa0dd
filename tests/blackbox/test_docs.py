# SPDX-License-Identifier: Apache-2.0
"""The documents against the program: every command line in them is run, every ./dev verb and option exists, every
setting is known, and the examples of configuration files load.

A command line is an indented or fenced line, or a code span, that starts with `terrane`. In it

    drain|online       stands for one command with each of the words
    [--watch]          for the command without it and with it
    DISK, FILE, ...    for a value of a real cluster (class Cluster)

A code span of lower-case words alone (`terrane disk online`) names a command; its help must list the verb. All else must
end with 0. `REFUSED` has the exceptions, each with its reason; 2, which is what the parser refuses, is never one.
"""
import configparser
import itertools
import json
import re
import shlex
import shutil
import signal
import subprocess

import pytest

from box import TERRANE, Box, await_true, run

ROOT = TERRANE.parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
             *sorted((ROOT / "src").glob("*/README.md"))]

# Commands that may end with 1, by the start of their words.
REFUSED = {
    "rack remove": "refused while the rack has chunks or the map has no other",
    "node remove": "the same of a node",
    "disk remove": "the same of a disk",
    "rack online": "the lines before may have removed it",
    "node online": "the lines before may have removed it",
    "node drain": "the lines before may have removed its rack",
    "disk online": "the lines before may have removed it",
    "disk fail": "the lines before may have removed it",
    "disk drain": "the lines before may have removed it",
    "disk replace": "no drive failed, and no member of the pool is out",
    "disk give-up": "the same",
    "meta restore": "the server of the examples serves the store",
    "train --mlperf": "the data set of the examples is smaller than a batch of the rules",
    "cache set": "the cluster of the examples has no such cache node",
    "status": "1 is its answer while a disk is drained or failed",
}
# Studies that take minutes, or need files of the reader: their options are parsed, then --help ends them.
PARSED_ONLY = {
    "durability advise": "evaluates many codes",
    "cachesim --workload": "simulates hours of training",
    "durability nines": "splits and simulates failures",
    "durability burst": "simulates failures",
    "durability compare": "evaluates many codes",
    "durability encode": "measures for seconds",
    "durability repair": "evaluates four schemes and methods",
    "prep measure": "measures images that are not here",
    "prep plan": "reads what it printed",
}
SERVES = ("node --config", "janitor --config", "cache --config")  # commands that serve until they are stopped


# --- commands in the documents ---------------------------------------------------------------------

def code_lines(text):
    """Yields the indented and fenced lines."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith(("    ", "\t")):
            yield line.strip()


def code_spans(text):
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    prose = re.sub(r"^(?: {4}|\t).*$", "", prose, flags=re.M)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


def without_comment(line):
    """Removes the comment of a command: what follows two spaces or " # "."""
    return re.split(r"\s{2,}|\s#\s", line)[0].rstrip()


def starting_with(lines, *programs):
    for line in lines:
        for part in without_comment(line).removeprefix("$ ").split("; "):
            for program in programs:
                if part.startswith(program + " "):
                    yield part[len(program) + 1:]


def variants(command):
    """"a b|c [-d]" -> "a b", "a b -d", "a c", "a c -d". A slash or a colon makes a word a value."""
    command = re.sub(r"\[([^\]]*)\]", lambda m: "|" + m[1].replace(" ", "\0"), command)
    choices = [word.split("|") if "/" not in word else [word] for word in command.split()]
    for words in itertools.product(*choices):
        yield " ".join(w.replace("\0", " ") for w in words if w)


def commands_of(path):
    text = path.read_text()
    found = [*starting_with(code_lines(text), "terrane", "build/terrane"),
             *starting_with(code_spans(text), "terrane", "build/terrane")]
    every = [v for command in found for v in variants(command)]
    return [v for i, v in enumerate(every) if v not in every[:i]]


def names_a_command(command):
    return re.fullmatch(r"[a-z]+( [a-z-]+)?", command) is not None


# --- a cluster with what the examples name -------------------------------------------------------

class Cluster:
    """A box that is up before each command, and the values of the capital words."""

    def __init__(self, folder):
        self.folder = folder
        self.box = Box(folder / "box", "--racks", 4, "--disks", 3, "--flash", 1)
        self.pools = None
        self.ups = 0
        (folder / "F").write_bytes(b"x" * 100_000)
        (folder / "my-data-set").mkdir()
        (folder / "my-data-set" / "a").write_bytes(b"x" * 100_000)
        self.box.up(*self.box.shape)
        self.box("put", "-q", folder / "my-data-set", "/data")
        self.box("mkdir", "/logs")
        self.box("tenant", "create", "vision")
        keys = self.box.folder / "keys"
        self.box("user", "add", "node-90", "--role", "node", "--key", keys / "node-90.key",
                 "--authority", keys / "authority.pem")
        self.node_conf()
        self.cache_conf()
        conf = (self.box.folder / "conf" / "janitor.ini").read_text()
        conf = conf.replace("= keys/", f"= {keys}/")
        (folder / "janitor.ini").write_text(re.sub(r"(?m)^metrics.*$", "", conf))

    def node_conf(self):
        """The configuration of a node that is not in the cluster yet, with three empty disks."""
        conf = (self.box.folder / "conf" / "node-1.ini").read_text()
        conf = re.sub(r"(?m)^(metrics|rack|name|announce).*$", "", conf)
        conf = re.sub(r"(?m)^id .*$", "id = 90", conf)
        conf = re.sub(r"(?m)^credentials .*$", f"credentials = {self.box.folder}/keys/node-90.key", conf)
        conf = re.sub(r"(?m)^audit .*$", "", conf)
        conf = re.sub(r"(?m)^listen.*$", "listen = 127.0.0.1:0", conf)
        for disk in (1, 2, 3):
            (self.folder / f"new-{disk}").mkdir()
            conf = re.sub(rf"(?m)^disk = 100{disk} .*$", f"disk = 9000{disk} {self.folder}/new-{disk}", conf)
        (self.folder / "node.ini").write_text(conf)

    def cache_conf(self):
        """The configuration of a cache node that is not in the cluster yet."""
        keys = self.box.folder / "keys"
        self.box("user", "add", "cache-91", "--role", "cache", "--key", keys / "cache-91.key",
                 "--authority", keys / "authority.pem")
        node = (self.box.folder / "conf" / "node-1.ini").read_text()
        same = "".join(f"{line}\n" for line in node.splitlines() if line.startswith(("cluster", "metadata")))
        (self.folder / "cache.ini").write_text(
            f"[cache]\n{same}id = 91\nlisten = 127.0.0.1:0\npath = {self.folder}/flash\nflash = 16MiB\n"
            f"[security]\ncredentials = {keys}/cache-91.key\n")

    def close(self):
        for box in filter(None, (self.box, self.pools)):
            box.down()

    def choose(self, command):
        """Chooses the box for a command."""
        if "POOL" not in command:
            return self.box
        if self.pools is None:
            self.pools = Box(self.folder / "pools", "--racks", 3, "--pools", "2+1")
            self.pools.up(*self.pools.shape)
        return self.pools

    def a_chunk(self, box, addrs):
        """(address, disk, chunk)"""
        for disk in box.json("disk", "list"):
            addr = addrs[disk["node"]]
            chunks = box("chunk", "list", "--node", addr, "--disk", disk["id"]).stdout.split()
            if chunks:
                return addr, str(disk["id"]), chunks[0]
        raise AssertionError("no node has a chunk")

    def values(self, box, command):
        addr = "127.0.0.1:1"
        disk, chunk = "1001", "1:0"
        if "ADDR" in command:
            addrs = {n["id"]: n["address"] for n in box.json("node", "list")}
            addr = addrs[1]
        if "BLOCK:INDEX" in command:
            addr, disk, chunk = self.a_chunk(box, addrs)
        role = command.split()[0]
        config = f"{role}.ini" if role in ("janitor", "cache") else "node.ini"
        if command.startswith("meta"):
            config = str(box.folder / "conf" / "meta.ini")
        return {"ADDR": addr, "NUMBER": disk, "DISK": "1001", "BLOCK:INDEX": chunk, "POOL": "1901", "MEMBER": "0",
                "NODE": "2", "N": "2", "RACK": "rack-3", "NAME": "speech" if command.startswith("tenant create") else "vision", "SIZE": "10TiB", "PATH": "/data",
                "DIR": str(box.folder), "/tmp/box": str(box.folder), "FILE": config, "METHOD": "r_all",
                "ENCODING": "mlec:4+2/4+1", "SOME-FOLDER": "my-data-set", "S": "c/d",
                "/etc/ceph/ceph.conf": "node.ini", "BACKUPS": str(self.folder / "backups")}

    def up(self, words):
        """Runs an `up` of the documents in a folder of its own, and stops that box."""
        self.ups += 1
        folder = str(self.folder / f"up-{self.ups}")
        words = [w for i, w in enumerate(words) if "--dir" not in words[max(i - 1, 0):i + 1]]
        if any(w.startswith("rados:") for w in words):
            return run(*words, "--dir", folder, "--help", cwd=self.folder)  # needs a Ceph cluster
        done = run(*words, "--dir", folder, cwd=self.folder)
        if done.returncode == 0:
            assert run("down", "--dir", folder).returncode == 0
            shutil.rmtree(folder)
        return done

    def goes_on(self, box, words):
        """Runs a command that serves or watches: stops it after its first output."""
        with subprocess.Popen([TERRANE, *words], env=box.env, cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            said = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=120)
        status = 0 if said and process.returncode in (0, -signal.SIGTERM) else process.returncode
        return subprocess.CompletedProcess(words, status, said + out, err)

    def run(self, command):
        box = self.choose(command)
        if not box.pids() and not command.startswith(("up", "down", "meta check")):
            box.up()
        values = self.values(box, command)
        command, _, output = command.partition(" > ")
        words = []
        for word in shlex.split(command):
            for name, value in sorted(values.items(), key=lambda v: -len(v[0])):
                word = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", value, word)
            words.append(word)
        if words[0] == "up":
            return self.up(words)
        if " ".join(words[:2]) in PARSED_ONLY:
            words.append("--help")
        if command.startswith(SERVES) or "--watch" in words:
            return self.goes_on(box, words)
        done = run(*words, env=box.env, cwd=self.folder, timeout=120)
        if output:
            (self.folder / output).write_text(done.stdout)
        return done


def failures(folder, path):
    """The commands of a document that fail, with the reasons."""
    commands = commands_of(path)
    wrong = []
    for command in filter(names_a_command, commands):
        name, _, verb = command.partition(" ")
        done = run("help", *([name] if name != "help" else []))
        if done.returncode != 0 or verb not in re.split(r"[^a-z-]+", done.stdout):
            wrong.append(f"{command}: terrane help {name} does not list it")
    commands = [c for c in commands if not names_a_command(c)]
    if not commands:
        return wrong
    cluster = Cluster(folder)
    try:
        for command in commands:
            done = cluster.run(command)
            may_fail = any(command.startswith(start) for start in REFUSED)
            if done.returncode not in ((0, 1) if may_fail else (0,)):
                wrong.append(f"{command}: {done.returncode}: {done.stderr[-300:].strip()}")
    finally:
        cluster.close()
    return wrong


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if commands_of(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_of_the_document_is_accepted(tmp_path, path):
    wrong = failures(tmp_path, path)
    assert not wrong, "\n".join(wrong)


def test_a_command_that_the_parser_refuses_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Say `terrane disk mend` or `terrane disk list`, or\n\n"
                    "    terrane status [--no-such-option]   not this\n"
                    "    terrane tenant list                 this\n")
    wrong = [line.split(":")[0] for line in failures(tmp_path, page)]
    assert sorted(wrong) == ["disk mend", "status --no-such-option"]


# --- ./dev ----------------------------------------------------------------------------------------

DEV_SOURCES = {  # where the options of a verb are parsed, beside ./dev itself
    "test": ["scripts/run_tests.py"], "lint": ["scripts/lint.py"], "fuzz": ["scripts/fuzz.py"],
    "fire": ["scripts/fire.py"], "demo": ["scripts/demo.py"], "sim": ["tests/sim/*.c", "src/sim/*.c"],
}


def sources_of(verb, words):
    patterns = DEV_SOURCES.get(verb, [])
    if verb == "bench" and words:
        patterns = [f"bench/bench_{words[0]}*.c", f"scripts/bench_{words[0]}.py", f"src/cli/{words[0]}*.c"]
    return [path for pattern in patterns for path in ROOT.glob(pattern)]


def test_every_dev_verb_and_option_of_the_documents_exists():
    usage = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
    verbs = set(re.findall(r"(?m)^  ([a-z]+)", usage))
    script = (ROOT / "dev").read_text()
    wrong, seen = [], 0
    for path in DOCUMENTS:
        text = path.read_text()
        commands = [*starting_with(code_lines(text), "./dev"), *starting_with(code_spans(text), "./dev")]
        commands += [h for h in re.findall(r"(?m)^#+ `\./dev ([^`]*)`", text)]
        for command in commands:
            seen += 1
            verb, *words = command.split()
            sources = sources_of(verb, words)
            parsed = "".join(p.read_text() for p in sources) + script
            if verb not in verbs and verb != "help":
                wrong.append(f"{path.name}: ./dev {command}: no such verb")
            if verb == "bench" and words and not sources:
                wrong.append(f"{path.name}: ./dev {command}: no such benchmark")
            wrong += [f"{path.name}: ./dev {command}: {w} is not parsed" for w in words
                      if w.startswith("--") and w not in parsed and w.lstrip("-") not in re.findall(r'"([a-z-]+)"', parsed)]
    assert not wrong, "\n".join(wrong)
    assert seen > 30


# --- settings -------------------------------------------------------------------------------------

def settings():
    """{section: keys} of all roles."""
    known = {}
    for role in ("meta", "node", "janitor", "cache"):
        for section, keys in json.loads(run("config", "show", role, "--json").stdout).items():
            known.setdefault(section, set()).update(keys)
    return known


def test_every_setting_that_a_document_names_is_known():
    known = settings()
    wrong, seen = [], 0
    for path in DOCUMENTS:
        for section, key in re.findall(r"`\[(\w+)\] (\w+)", path.read_text()):
            seen += 1
            if key not in known.get(section, ()):
                wrong.append(f"{path.name}: [{section}] {key}")
    assert not wrong, wrong
    assert seen > 5


def test_the_configurations_in_the_documents_load(tmp_path):
    seen = 0
    for path in DOCUMENTS:
        for text in re.findall(r"```ini\n(.*?)```", path.read_text(), flags=re.S):
            role = re.search(r"\[(\w+)\]", text)[1]
            conf = tmp_path / f"{path.stem}-{seen}.ini"
            conf.write_text(text)
            done = run("config", "show", role, "--config", conf)
            assert done.returncode == 0, f"{path.name}: {done.stderr}"
            # `node format` takes the lists of disks apart, then finds that their folders do not exist
            if role == "node":
                done = run(role, "format", "--config", conf)
                assert done.returncode == 1 and "[disks]" not in done.stderr, f"{path.name}: {done.stderr}"
            seen += 1
    assert seen > 0


def test_the_cluster_file_in_the_public_header_is_one_that_up_would_make(tmp_path):
    header = (ROOT / "include" / "terrane" / "terrane.h").read_text()
    lines = [line.removeprefix(" *").strip() for line in header.splitlines()]
    first = lines.index("[cluster]")
    shown = configparser.ConfigParser()
    shown.read_string("\n".join(itertools.takewhile(bool, lines[first:first + 12])).partition("\nAsks")[0])
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1) as box:
        made = configparser.ConfigParser()
        made.read(box.folder / "cluster.ini")
        (tmp_path / "header.ini").write_text("\n".join(
            f"[{s}]\n" + "\n".join(f"{k} = {v}" for k, v in shown[s].items()) for s in shown.sections()))
        refused = box("status", "-c", tmp_path / "header.ini", ok=False)
    assert re.fullmatch(r"[0-9a-f]{32}", made["cluster"]["id"])
    assert re.fullmatch(r"[0-9a-f]{32}", shown["cluster"]["id"]), shown["cluster"]["id"]
    address = r"[\w.-]+:\d+"
    assert re.fullmatch(address, made["cluster"]["metadata"])
    assert re.fullmatch(rf"{address}(, {address})*", shown["cluster"]["metadata"])
    # It is read as a cluster file: what fails is that no server is at its addresses.
    assert refused.returncode == 1 and "metadata server" in refused.stderr, refused.stderr
