# SPDX-License-Identifier: Apache-2.0
"""The metadata server as a real process: killed while clients create, with malformed requests, with nodes."""
import json
import os
import random
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[2] / "build"
TERRANE = BUILD / "terrane"
TOOL = BUILD / "release" / "tests" / "tools" / "meta_tool"
SEED = 11
KILLS = 8


def terrane(*args, timeout=120):
    return subprocess.run([TERRANE, *args], capture_output=True, timeout=timeout, check=False,
                          text=True)


def tool(addr, *args, timeout=120):
    return subprocess.run([TOOL, addr, *args], capture_output=True, timeout=timeout, check=False,
                          text=True)


class Server:
    """A metadata server; use it in a `with`, which stops it."""

    def __init__(self, folder, **settings):
        self.folder = folder
        self.addr = f"unix:{folder}/meta"
        self.config = folder / "meta.ini"
        self.process = None
        self.metrics = ""
        texts = {"meta": {"listen": self.addr, "metrics": "127.0.0.1:0"},
                 "store": {"dir": folder / "db"}, "cluster": {"format": "true"},
                 "log": {"level": "warn"}}
        for key, value in settings.items():
            section, name = key.split("__")
            texts.setdefault(section, {})[name] = value
        self.config.write_text("".join(
            f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
            for section, keys in texts.items()))

    def start(self, **options):
        self.process = subprocess.Popen([TERRANE, "meta", "--config", self.config], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **options)
        line = self.process.stdout.readline()
        assert line.startswith(f"listening on {self.addr}"), self.process.communicate()
        self.metrics = line.split()[-1]
        return self

    def end(self, sig):
        self.process.send_signal(sig)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.metrics}{path}", timeout=60) as answer:
            return answer.read().decode()


@pytest.fixture(name="server")
def running_server(tmp_path):
    with Server(tmp_path) as server:
        yield server


class Creators:
    """A process that creates files, and the acknowledged names."""

    def __init__(self, addr, workers):
        self.names = []
        self.process = subprocess.Popen([TOOL, addr, "create", "dir", str(workers)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.names.append(line.strip())

    def await_more(self, count, seconds=120):
        want, end = len(self.names) + count, time.monotonic() + seconds
        while len(self.names) < want:
            assert time.monotonic() < end, f"{len(self.names)} of {want} files"
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.01)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=180) == 0, self.process.stderr.read()
        self.reader.join()
        return self.names


def test_acknowledged_files_survive_kills_of_the_server(tmp_path):
    rng = random.Random(SEED)
    print("seed", SEED)
    server = Server(tmp_path)
    with server:
        creators = [Creators(server.addr, 8) for _ in range(2)]
        for creator in creators:
            creator.await_more(20)
        longest = 0
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.02, 0.3))
            server.end(signal.SIGKILL)
            start = time.monotonic()
            server.start()
            longest = max(longest, time.monotonic() - start)
            for creator in creators:
                creator.await_more(10)
        acknowledged = [name for creator in creators for name in creator.end()]
        listed = tool(server.addr, "list", "dir")
        assert listed.returncode == 0, listed.stderr
        names = listed.stdout.split()
        print(f"{len(acknowledged)} files acknowledged, {KILLS} kills, longest restart {longest:.2f} s")
        assert len(names) == len(set(names))
        assert len(acknowledged) == len(set(acknowledged))
        assert set(acknowledged) <= set(names)
        # Files that were requested but not acknowledged may exist: at most one for each worker.
        assert len(names) <= len(acknowledged) + 16


def test_a_stop_is_clean_and_the_store_keeps_its_files(server):
    creator = Creators(server.addr, 4)
    creator.await_more(50)
    creator.end()
    assert server.end(signal.SIGTERM)[0] == 0
    server.start()
    assert len(tool(server.addr, "list", "dir").stdout.split()) == len(creator.names)


def test_metrics_and_health_are_served(server):
    Creators(server.addr, 1).end()
    assert server.get("/healthz") == "serving\n"
    text = server.get("/metrics")
    assert 'terrane_meta_request_seconds_count{op="mkdir"} 1' in text
    assert "terrane_meta_map_version 1\n" in text


def test_metrics_beyond_loopback_need_a_token(tmp_path):
    token = tmp_path / "token"
    with pytest.raises(AssertionError, match="metrics_token"):
        Server(tmp_path, meta__metrics="0.0.0.0:0").start()
    for text, mode in (("short", 0o600), ("0123456789abcdef 0123456789", 0o600), ("0123456789abcdef", 0o644)):
        token.unlink(missing_ok=True)
        token.write_text(text)
        token.chmod(mode)
        with pytest.raises(AssertionError, match="token"):
            Server(tmp_path, meta__metrics="0.0.0.0:0", security__metrics_token=token).start()
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    with Server(tmp_path, meta__metrics="0.0.0.0:0", security__metrics_token=token) as server:
        for got in ("", "Bearer ", "Bearer 0123456789abcdeF", "Bearer 0123456789abcdef0", "Basic 0123456789abcdef"):
            asked = urllib.request.Request(f"http://{server.metrics}/metrics", headers={"Authorization": got})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(asked, timeout=60)
            assert refused.value.code == 401 and b"terrane_" not in refused.value.read()
        asked.add_header("Authorization", "Bearer 0123456789abcdef")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert b"terrane_" in answer.read()
        assert server.get("/healthz") == "serving\n"


def test_metrics_are_served_by_a_process_with_many_open_files(tmp_path):
    """select() cannot handle descriptors from 1024 on."""
    def occupy():
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (4000, hard))
        for fd in range(10, 1200):
            os.dup2(2, fd)

    server = Server(tmp_path)
    server.start(close_fds=False, preexec_fn=occupy)
    try:
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) > 1100
        assert server.get("/healthz") == "serving\n"
        assert "terrane_meta_request_seconds" in server.get("/metrics")
    finally:
        server.end(signal.SIGTERM)


def test_hostile_bytes_close_their_connection_and_no_other(server):
    rng = random.Random(SEED)
    path = server.addr.removeprefix("unix:")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(path)
        silent.send(b"T")  # half a header, then silence
        for size in (1, 63, 64, 65, 4096, 100000):
            with socket.socket(socket.AF_UNIX) as rude:
                rude.settimeout(120)
                rude.connect(path)
                try:
                    rude.sendall(rng.randbytes(size))
                    rude.shutdown(socket.SHUT_WR)
                    while rude.recv(65536):
                        pass
                except (BrokenPipeError, ConnectionResetError):
                    pass
        assert tool(server.addr, "map").returncode == 0
    assert server.process.poll() is None


def check(server, *words):
    """Runs terrane meta check. Returns its exit status, its counts and its output."""
    done = terrane("meta", "check", "--config", server.config, "--json", *words)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def test_check_reads_the_store_of_a_stopped_server(tmp_path):
    server = Server(tmp_path)
    code, _, words = check(server)
    assert code == 1 and "it has no metadata store" in words
    assert not (tmp_path / "db").exists()
    with server:
        creator = Creators(server.addr, 4)
        creator.await_more(20)
        names = creator.end()
        code, _, words = check(server)
        assert code == 1 and "another process serves it" in words
        assert server.end(signal.SIGTERM)[0] == 0
    code, found, words = check(server)
    assert code == 0 and not words
    assert found["errors"] == 0 and found["directories"] == 2 and found["entries"] == len(names) + 1
    text = terrane("meta", "check", "--config", server.config, "--quiet")
    assert text.returncode == 0 and text.stdout.endswith("no errors\n")
    assert check(server)[1]["entries"] == found["entries"]
    with server:
        assert sorted(tool(server.addr, "list", "dir").stdout.split()) == sorted(names)


def test_check_finds_damage(tmp_path):
    """The first check makes the store write all rows to a table of several blocks. Then a byte in its middle changes."""
    server = Server(tmp_path)
    with server:
        creator = Creators(server.addr, 16)
        creator.await_more(500)
        creator.end()
        assert server.end(signal.SIGTERM)[0] == 0
    assert check(server)[0] == 0
    table = max((tmp_path / "db").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    code, _, words = check(server)
    assert code == 1 and "cannot read the files" in words, words


def test_check_requires_the_name_of_exactly_one_store(tmp_path):
    config = Server(tmp_path, store__engine="mem").config
    for words in ([], ["--config", config, "--dir", tmp_path], ["--config", config, "more"], ["--frob"]):
        assert terrane("meta", "check", *words).returncode == 2
    done = terrane("meta", "check", "--help")
    assert done.returncode == 0 and "--quiet" in done.stdout
    done = terrane("meta", "check", "--config", config)
    assert done.returncode == 1 and "keeps nothing to check" in done.stderr
    done = terrane("meta", "check", "--dir", tmp_path)
    assert done.returncode == 1 and "no cluster in this folder" in done.stderr


def test_one_server_owns_a_store(tmp_path, server):
    second = terrane("meta", "--config", server.config)
    assert second.returncode == 1
    assert f"{tmp_path}/db: another process serves it" in second.stderr


def test_a_cluster_is_formatted_once_and_only_on_request(tmp_path):
    server = Server(tmp_path, cluster__format="false", cluster__id="0123456789abcdef" * 2)
    refused = terrane("meta", "--config", server.config)
    assert refused.returncode == 1
    assert "make one with terrane meta format" in refused.stderr
    for _ in range(2):
        made = terrane("meta", "format", "--config", server.config)
        assert made.returncode == 0, made.stderr
        assert made.stdout == f"cluster {'0123456789abcdef' * 2}\n"
    with server:
        pass


@pytest.mark.parametrize("settings, words", [
    ({"store__dir": ""}, "needs dir"),
    ({"store__engine": "paper"}, "rocksdb"),
    ({"store__dir": "/nowhere/at/all"}, "its parent does not exist"),
    ({"cluster__id": "12"}, "32 hexadecimal digits"),
    ({"meta__listen": "nowhere"}, "cannot serve on nowhere"),
    ({"meta__colour": "red"}, "colour"),
])
def test_bad_settings_are_refused_with_the_reason(tmp_path, settings, words):
    done = terrane("meta", "--config", Server(tmp_path, **settings).config)
    assert done.returncode == 1
    assert words in done.stderr, done.stderr


def test_help_and_wrong_usage():
    assert terrane("meta", "--help").returncode == 0
    assert terrane("meta").returncode == 2
    assert terrane("meta", "dance", "--config", "x").returncode == 2
    shown = terrane("config", "show", "meta")
    assert shown.returncode == 0
    assert "partition_rate = 50000" in shown.stdout


def test_terrane_does_not_load_the_engines(tmp_path):
    """RocksDB and librados take longer to load than most commands run."""
    del tmp_path
    for program, loads in (("terrane", False), ("terraned", True)):
        libraries = subprocess.run(["ldd", BUILD / "release" / "src" / "cli" / program],
                                   capture_output=True, text=True, check=True).stdout
        assert ("librocksdb" in libraries) == loads
        assert ("librados" in libraries) == loads


def await_map(addr, words, seconds=120):
    end = time.monotonic() + seconds
    while True:
        text = tool(addr, "map").stdout
        if all(word in text for word in words):
            return
        assert time.monotonic() < end, text
        time.sleep(0.05)


def test_a_node_registers_reports_and_becomes_suspect(tmp_path):
    server = Server(tmp_path, nodes__beat="50ms", nodes__suspect="500ms", nodes__failed="1h")
    made = terrane("meta", "format", "--config", server.config)
    config = tmp_path / "node.ini"
    config.write_text(
        f"[node]\ncluster = {made.stdout.split()[1]}\nid = 5\nlisten = unix:{tmp_path}/node\n"
        f"metadata = {server.addr}\nrack = left\nname = five\n"
        f"[disks]\ndisk = 101 {tmp_path}/d1\ndisk = 102 {tmp_path}/d2\nformat = true\nkeep_free = 0\n"
        "[log]\nlevel = warn\n")
    for name in ("d1", "d2"):
        (tmp_path / name).mkdir()
    with server:
        with subprocess.Popen([TERRANE, "node", "--config", config], stdout=subprocess.PIPE) as node:
            try:
                assert node.stdout.readline().startswith(b"listening on ")
                await_map(server.addr, ["101 five left online", "102 five left online"])
                # A restarted server still knows the node.
                server.end(signal.SIGKILL)
                server.start()
                await_map(server.addr, ["101 five left online", "102 five left online"])
            finally:
                node.kill()
        await_map(server.addr, ["101 five left suspect", "102 five left suspect"])
        # With an hour before it failed, the state cannot pass while nothing looks.
        assert server.end(signal.SIGTERM)[0] == 0
        server.config.write_text(server.config.read_text().replace("failed = 1h", "failed = 1500ms"))
        server.start()
        await_map(server.addr, ["101 five left failed", "102 five left failed"])
