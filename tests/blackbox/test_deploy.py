# SPDX-License-Identifier: Apache-2.0
"""Five machines from nothing to a healthy cluster, as docs/deploy.md tells, in five network namespaces with the units of
the packages under a supervisor; and what surrounds a cluster: alert rules, terrane doctor, config check, support."""
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import time

import pytest

import fire_net
from box import BUILD, KIB, MIB, Box, await_true, lives, run, same_tree, write_tree

ROOT = BUILD.parent
UNITS = ROOT / "deploy/systemd"
HOSTS = [f"host{i}" for i in range(1, 6)]
DISKS = 2
TREE = {"a/one": 3 * MIB, "a/two": 70 * KIB, "three": 5 * KIB}


# --- five machines ---------------------------------------------------------------------------------


class Unit:
    """A unit of deploy/systemd on a host: runs its ExecStart, and starts it again after a failure, as Restart= says."""

    def __init__(self, machines, host, name, instance=""):
        self.machines, self.host, self.starts, self.wanted = machines, host, 0, True
        text = (UNITS / name).read_text()
        assert re.search(r"(?m)^Restart=on-failure$", text)
        line = re.search(r"(?m)^ExecStart=(.*)$", text)[1].replace("%i", instance)
        self.line = line.replace("/etc/terrane", str(machines.etc(host)))
        self.log = open(machines.folder / f"{host}-{name}.log", "ab")
        self.process = None
        self.thread = threading.Thread(target=self.supervise, daemon=True)
        self.thread.start()
        await_true(f"the start of {name}", lambda: self.starts > 0)

    def supervise(self):
        while self.wanted:
            words = self.line.replace("/usr/bin", str(self.machines.programs)).split()
            self.process = subprocess.Popen([*self.machines.net.inside(self.host), *words], stdout=self.log,
                                            stderr=self.log, stdin=subprocess.DEVNULL)
            self.starts += 1
            if self.process.wait() == 0:
                break

    def kill(self):
        """kill -9, and waits until the supervisor has started it again."""
        before, process = self.starts, self.process
        process.kill()
        await_true("a restart by the supervisor", lambda: self.starts > before)

    def restart(self):
        """systemctl restart: a clean stop, then a start with the programs of now."""
        self.stop()
        self.wanted = True
        self.thread = threading.Thread(target=self.supervise, daemon=True)
        before = self.starts
        self.thread.start()
        await_true("a restart", lambda: self.starts > before)

    def stop(self):
        self.wanted = False
        if lives(self.process.pid):
            self.process.send_signal(signal.SIGTERM)
        self.thread.join(120)
        assert not self.thread.is_alive() and self.process.returncode == 0, self.line


class Machines:
    def __init__(self, folder, net):
        self.folder, self.net, self.units = folder, net, {}
        old = os.environ.get("TERRANE_OLD_BUILD")  # a build of an earlier commit, for the upgrade
        self.programs = (BUILD / "release/src/cli").resolve() if old is None else os.path.abspath(old)

    def etc(self, host):
        return self.folder / "etc" / host

    def __call__(self, *words, host="host1", ok=True, **options):
        done = run(*words, under=self.net.inside(host), cwd=self.folder,
                   env={**os.environ, "TERRANE_CLUSTER": str(self.etc("host1") / "cluster.ini")}, **options)
        assert done.returncode == 0 or not ok, f"{words}: {done.stderr}"
        return done

    def start(self, host, name, instance=""):
        key = f"{host}/{name.partition('.')[0].rstrip('@')}"
        self.units[key] = Unit(self, host, name, instance)
        return self.units[key]

    def answers(self):
        return self("node", "list", ok=False).returncode == 0

    def healthy(self):
        return self("status", ok=False).returncode == 0

    def stop(self):
        for key in sorted(self.units, key=lambda k: "meta" in k):  # the metadata server last
            self.units[key].stop()


def plan(folder, net):
    """`terrane plan`, and the copy of its folders. Each host has disks of its own: the paths of the settings are those of
    the host."""
    done = run("plan", "--out", folder / "plan", "--etc", "ETC", "--state", folder / "state", "--kind", "nvme",
               *[w for d in range(1, DISKS + 1) for w in ("--disk", f"/SRV/disk{d}")],
               *[net.address(h) for h in HOSTS])
    assert done.returncode == 0, done.stderr
    assert "files are stored as rs:3+2" in done.stdout, done.stdout
    for host in HOSTS:
        shutil.copytree(folder / "plan" / net.address(host), folder / "etc" / host)
        for conf in (folder / "etc" / host).glob("*.ini"):
            text = conf.read_text().replace("ETC/", f"{folder}/etc/{host}/").replace("/SRV/", f"{folder}/srv/{host}-")
            if conf.name == "janitor.ini":
                text = text.replace("[janitor]\n", "[janitor]\nround = 500ms\nlease = 5s\n")
                text += "[survey]\nperiod = 2s\n[repair]\nlook = 2s\n"
            conf.write_text(text)
        for d in range(1, DISKS + 1):
            (folder / "srv" / f"{host}-disk{d}").mkdir(parents=True)
    (folder / "state").mkdir()


@pytest.fixture(scope="module", name="machines")
def five_machines(tmp_path_factory):
    why = fire_net.missing()
    if why:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("deploy")
    with fire_net.Network(HOSTS) as net:
        plan(folder, net)
        m = Machines(folder, net)
        try:
            yield m
        finally:
            for unit in m.units.values():
                unit.wanted = False
            m.stop()


def test_five_machines_become_a_healthy_cluster(machines, tmp_path):
    m = machines
    done = run("config", "check", *sorted((m.folder / "etc").glob("*/[mnj]*.ini")))
    assert done.returncode == 0 and done.stdout.count("valid") == 8, done.stderr
    m.start("host1", "terrane-meta.service")
    await_true("the metadata server", m.answers)
    for i, host in enumerate(HOSTS, 1):
        m("node", "format", "--config", m.etc(host) / f"node-{i}.ini", host=host)
        m.start(host, "terrane-node@.service", str(i))
    for host in HOSTS[:2]:
        m.start(host, "terrane-janitor.service")
    await_true("a healthy cluster", m.healthy)
    assert len(json.loads(m("node", "list", "--json").stdout)) == 5
    write_tree(tmp_path / "in", TREE)
    m("put", "-q", tmp_path / "in", "/tree")
    m("get", "-q", "/tree", tmp_path / "out", host="host3")
    same_tree(tmp_path / "in", tmp_path / "out")
    done = m("put", "--encoding", "rs:9+6", "-q", tmp_path / "in" / "three", "/wide", ok=False)
    assert done.returncode == 1 and "needs 15 disks" in done.stderr and "they can store rs:" in done.stderr, done.stderr


def test_processes_that_are_killed_come_back_and_nothing_is_lost(machines, tmp_path):
    m = machines
    assert m.units, "needs the cluster of the test before"
    write_tree(tmp_path / "in", TREE)
    for name in ("host3/terrane-node", "host1/terrane-meta", "host1/terrane-janitor"):
        m.units[name].kill()
        await_true("the metadata server", m.answers)
        m("put", "-q", tmp_path / "in", f"/after-{name.replace('/', '-')}")
    await_true("a healthy cluster", m.healthy)
    for name in ("host3/terrane-node", "host1/terrane-meta", "host1/terrane-janitor"):
        m("get", "-q", f"/after-{name.replace('/', '-')}", tmp_path / name.replace("/", "-"))
        same_tree(tmp_path / "in", tmp_path / name.replace("/", "-"))


def test_an_upgrade_by_rolling_restart_loses_nothing_under_load(machines, tmp_path):
    """With TERRANE_OLD_BUILD=FOLDER the cluster runs the programs of FOLDER before; else only restarts are tried."""
    m = machines
    assert m.units, "needs the cluster of the test before"
    write_tree(tmp_path / "in", {f"f{i}": 30 * KIB for i in range(20)})
    stop, stored, wrong = threading.Event(), [], []
    early = "no metadata server answers"  # what a command says that starts while the server restarts

    def load():
        number = 0
        while not stop.is_set():
            done = m("put", "-q", tmp_path / "in", f"/load/{number}", ok=False, timeout=300)
            if done.returncode == 0:
                stored.append(number)
            elif early not in done.stderr:
                wrong.append(done.stderr)
            number += 1

    m("mkdir", "/load")
    thread = threading.Thread(target=load)
    thread.start()
    m.programs = (BUILD / "release/src/cli").resolve()
    try:  # the order of deploy.md: metadata, then node by node when all are online, then janitors
        for name in sorted(m.units, key=lambda k: ("janitor" in k, "meta" not in k, k)):
            before = len(stored)
            m.units[name].restart()
            await_true(f"a healthy cluster after {name}", m.healthy)
            await_true(f"a put after {name}", lambda: len(stored) > before or wrong)
    finally:
        stop.set()
        thread.join(300)
    assert not wrong and len(stored) >= len(m.units), wrong
    for number in stored:
        m("get", "-q", f"/load/{number}", tmp_path / f"out{number}")
        same_tree(tmp_path / "in", tmp_path / f"out{number}")
    assert m("fsck").returncode == 0
    m("meta", "backup", m.folder / "backups")
    assert json.loads(run("meta", "verify", m.folder / "backups", "--json").stdout)["errors"] == 0


def test_a_machine_is_decommissioned_without_loss_of_redundancy(machines, tmp_path):
    m = machines
    assert m.units, "needs the cluster of the test before"
    # Five racks bear rs:3+2 with one chunk in each; with four the files are written as replicas first.
    write_tree(tmp_path / "in", TREE)
    m("put", "-q", "--encoding", "r3", tmp_path / "in", "/small")
    m("node", "drain", "5")
    await_true("nothing is left on node 5", lambda: m("node", "remove", "5", ok=False).returncode == 0)
    m.units.pop("host5/terrane-node").stop()
    await_true("a healthy cluster", m.healthy)
    for path in ("/small", "/tree"):
        m("get", "-q", path, tmp_path / path[1:])
        same_tree(tmp_path / "in", tmp_path / path[1:])
    done = m("fsck", ok=False)
    assert done.returncode == 0, done.stdout


# --- what surrounds a cluster -------------------------------------------------------------------------


@pytest.fixture(scope="module", name="box")
def a_box(tmp_path_factory):
    with Box(tmp_path_factory.mktemp("around") / "box", "--racks", 3, "--encoding", "r2", "--cache-nodes", 1,
             "--procs") as box:
        yield box


def metrics_named():
    """The names of metrics in the alert rules and the dashboard."""
    board = json.loads((ROOT / "deploy/grafana/terrane.json").read_text())
    texts = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
    texts += re.findall(r"(?m)^ +expr: (.*)$", (ROOT / "deploy/prometheus/terrane.rules.yml").read_text())
    names = {name for text in texts for name in re.findall(r"\b(?:terrane|process)_[a-z_]+", re.sub(r'"[^"]*"', "", text))}
    assert len(names) > 40
    return names


def test_every_metric_of_the_alert_rules_and_the_dashboard_exists(box, tmp_path):
    write_tree(tmp_path / "in", TREE)
    box("put", "-q", tmp_path / "in", "/tree")
    box("tenant", "quota", "default", "10GiB")

    def missing():
        seen = set()
        for role in ("meta", "node-1", "janitor", "cache-4"):
            seen |= {re.sub(r"\{.*", "", name) for name in box.metrics(role)}
        return sorted(metrics_named() - seen)

    # Some appear with the first request or survey.
    await_true(f"metrics {missing()}", lambda: not missing(), seconds=60)
    for role in ("meta", "node-1", "janitor", "cache-4"):
        m = box.metrics(role)
        version = run("version").stdout.split()[1]
        assert m[f'terrane_build_info{{version="{version}"}}'] == 1
        assert m["process_cpu_seconds_total"] >= 0 and m["process_resident_memory_bytes"] > MIB
        assert 3 < m["process_open_fds"] < m["process_max_fds"] and m["process_threads"] >= 1
        assert abs(m["process_start_time_seconds"] - time.time()) < 3600


def test_promtool_accepts_the_alert_rules():
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: ./dev deps package")
    for words in (["rules", "terrane.rules.yml"], ["config", "prometheus.yml"]):
        done = subprocess.run(["promtool", "check", *words], cwd=ROOT / "deploy/prometheus", capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    rules = (ROOT / "deploy/prometheus/terrane.rules.yml").read_text()
    assert rules.count("- alert:") == rules.count("summary:") == rules.count("action:") == rules.count("severity:")


def test_doctor_names_what_is_wrong_and_what_to_do(box, tmp_path):
    findings = json.loads(run("doctor", "--dir", box.folder, "--json").stdout)
    assert {"kernel", "io_uring", "limits", "clock", "memory", "metadata", "node", "settings", "port", "store", "disk",
            "credentials"} <= {f["check"] for f in findings}
    assert all(f["remedy"] for f in findings if f["state"] != "ok")
    assert not [f for f in findings if f["state"] == "error"], findings
    conf = tmp_path / "node.ini"
    text = (box.folder / "conf/node-1.ini").read_text()
    conf.write_text(re.sub(r"(?m)^disk = .*$", "disk = 7001 /no/such/folder", text))
    done = run("doctor", conf, cwd=box.folder, env={**box.env, "TERRANE_CLUSTER": str(box.folder / "cluster.ini")})
    assert done.returncode == 1 and "/no/such/folder" in done.stdout and "mount the drive" in done.stdout, done.stdout
    conf.write_text(text.replace("[node]", "[node]\ncolour = red"))
    done = run("doctor", conf, cwd=box.folder)
    assert done.returncode == 1 and "colour" in done.stdout and "terrane config show" in done.stdout


def test_config_check_reads_settings_as_their_process_would(box, tmp_path):
    done = run("config", "check", *sorted((box.folder / "conf").glob("*.ini")), "--json", cwd=box.folder)
    assert done.returncode == 0, done.stdout
    assert {f["role"] for f in json.loads(done.stdout)} == {"meta", "node", "janitor", "cache"}
    conf, text = tmp_path / "x.ini", (box.folder / "conf/meta.ini").read_text()
    for change, words in ((("engine = rocksdb", "engine = lmdb"), "lmdb"),
                          (("keys/meta.key", "keys/absent.key"), "absent.key"),
                          (("127.0.0.1", "0.0.0.0"), "metrics_token"), (("[meta]", "[mote]"), "has no section")):
        conf.write_text(text.replace(*change))
        done = run("config", "check", conf, cwd=box.folder)
        assert done.returncode == 1 and words in done.stderr, (change, done.stderr)


def test_a_support_archive_has_logs_and_settings_and_no_key(box, tmp_path):
    secret = (box.folder / "keys/admin.key").read_text()
    with open(box.folder / "log/janitor.log", "a") as log:  # a secret that was logged by mistake
        log.write("debug " + max(re.findall(r"[A-Za-z0-9+/=]+", secret), key=len) + " end\n")
    archive = tmp_path / "support.tar"
    done = run("support", archive, "--dir", box.folder)
    assert done.returncode == 0, done.stderr
    assert archive.stat().st_mode & 0o777 == 0o600
    with tarfile.open(archive) as tar:
        names = {n.partition("/")[2] for n in tar.getnames()}
        tar.extractall(tmp_path / "out")
    assert {"doctor.json", "machine.txt", "nodes.json", "disks.json", "settings/meta.ini", "logs/janitor.log"} <= names
    everything = "".join(p.read_text(errors="replace") for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert "credentials" in everything and "end" in everything
    keys = set()
    for path in (box.folder / "keys").iterdir():
        keys |= {w for w in re.findall(r"[A-Za-z0-9+/=]{16,}", path.read_text()) if re.search(r"\d", w)}
    cluster = re.search(r"(?m)^id = (\w+)", (box.folder / "cluster.ini").read_text())[1]
    assert len(keys) > 10
    assert not [k for k in keys - {cluster} if k in everything]
    assert "PRIVATE KEY" not in everything
    assert run("support", archive, "--dir", box.folder).returncode == 1  # never overwrites a file
