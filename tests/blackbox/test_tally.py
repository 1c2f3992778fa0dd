# SPDX-License-Identifier: Apache-2.0
"""The tally service as real processes: killed, stopped, fed with rubbish, asked wrongly."""
import json
import os
import random
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[2] / "build"
TERRANE = BUILD / "terrane"
SEED = 7


def tally(*args, timeout=60, **kwargs):
    return subprocess.run([TERRANE, "tally", *args], capture_output=True, timeout=timeout,
                          check=False, **kwargs)


class Server:
    """A serving process; `with` leaves none behind."""

    def __init__(self, folder, *extra):
        self.folder = folder
        self.addr = f"unix:{folder}/socket"
        self.extra = extra
        self.process = None
        (folder / "data").mkdir(exist_ok=True)

    def start(self, **options):
        self.process = subprocess.Popen(
            [TERRANE, "tally", "serve", "--dir", self.folder / "data", "--listen", self.addr,
             *self.extra], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        line = self.process.stdout.readline()
        assert line.startswith(b"listening on "), self.process.communicate()
        return self

    def end(self, sig):
        self.process.send_signal(sig)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.end(signal.SIGKILL)

    def call(self, *args, **kwargs):
        return tally(*args, "--connect", self.addr, **kwargs)

    def value(self, name):
        done = self.call("get", name, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["value"]


@pytest.fixture(name="server")
def running_server(tmp_path):
    with Server(tmp_path) as server:
        yield server


def test_counters_and_blobs_round_trip(server, tmp_path):
    assert server.call("add", "a", "40").stdout == b"40\n"
    assert server.call("add", "a", "-2").stdout == b"38\n"
    content = random.Random(SEED).randbytes(1 << 20)
    (tmp_path / "blob").write_bytes(content)
    assert server.call("put", "name with spaces \N{SNOWMAN}", tmp_path / "blob").returncode == 0
    assert server.call("cat", "name with spaces \N{SNOWMAN}").stdout == content
    assert server.call("put", "empty", input=b"").returncode == 0
    assert server.call("cat", "empty").stdout == b""
    stat = json.loads(server.call("stat", "--json").stdout)
    assert stat["counters"] == 1 and stat["blobs"] == 2


def test_sigterm_ends_it_cleanly_and_the_data_stays(tmp_path):
    with Server(tmp_path) as server:
        assert server.call("add", "a", "1").returncode == 0
        code, _, _ = server.end(signal.SIGTERM)
        assert code == 0
        assert not (tmp_path / "socket").exists()
        server.start()
        assert server.value("a") == 1


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path):
    """Clients add while the server is killed again and again; every add is applied exactly once."""
    rounds, clients = 8, 4
    acknowledged = [0] * clients
    failed = []
    stop = threading.Event()

    def work(i):
        while not stop.is_set():
            done = server.call("add", f"c{i}", "1", "--timeout", "30s", "--wait")
            if done.returncode == 0:
                acknowledged[i] += 1
            else:
                failed.append(done.stderr)

    with Server(tmp_path) as server:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
        try:
            for thread in threads:
                thread.start()
            for _ in range(rounds):
                before = sum(acknowledged)
                deadline = time.monotonic() + 30
                while sum(acknowledged) < before + 20:
                    assert time.monotonic() < deadline, "no progress"
                    time.sleep(0.01)
                server.end(signal.SIGKILL)
                server.start()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not failed
        assert [server.value(f"c{i}") for i in range(clients)] == acknowledged


def test_a_stopped_server_is_waited_for_and_then_given_up(server):
    server.process.send_signal(signal.SIGSTOP)
    start = time.monotonic()
    done = server.call("add", "a", "1", "--timeout", "1s")
    assert done.returncode == 1 and b"terrane:" in done.stderr
    assert b"it may have been applied" in done.stderr
    assert time.monotonic() - start < 10
    server.process.send_signal(signal.SIGCONT)
    assert server.call("add", "b", "1").stdout == b"1\n"


def test_hostile_bytes_close_their_connection_and_no_other(server):
    rng = random.Random(SEED)
    path = server.addr.removeprefix("unix:")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(path)
        silent.send(b"T")  # half a header, then silence
        for size in (1, 63, 64, 65, 4096, 100000):
            with socket.socket(socket.AF_UNIX) as rude:
                rude.settimeout(30)
                rude.connect(path)
                try:
                    rude.sendall(rng.randbytes(size))
                    rude.shutdown(socket.SHUT_WR)
                    while rude.recv(65536):
                        pass
                except (BrokenPipeError, ConnectionResetError):
                    pass
        assert server.call("add", "a", "1").stdout == b"1\n"
    assert server.process.poll() is None


def test_two_servers_do_not_share_a_folder(server, tmp_path):
    second = subprocess.run([TERRANE, "tally", "serve", "--dir", tmp_path / "data", "--listen",
                             f"unix:{tmp_path}/other"], capture_output=True, timeout=30,
                            check=False)
    assert second.returncode == 1
    assert b"another process serves it" in second.stderr
    assert server.call("add", "a", "1").returncode == 0


def test_a_damaged_log_is_refused_and_left_as_it_is(tmp_path):
    with Server(tmp_path) as server:
        for _ in range(5):
            server.call("add", "a", "1")
        server.end(signal.SIGTERM)
    log = tmp_path / "data" / "tally.log"
    content = bytearray(log.read_bytes())
    content[80] ^= 1  # inside the first record
    log.write_bytes(content)
    done = subprocess.run([TERRANE, "tally", "serve", "--dir", tmp_path / "data", "--listen",
                           f"unix:{tmp_path}/socket"], capture_output=True, timeout=30, check=False)
    assert done.returncode == 1
    assert b"damaged" in done.stderr
    assert log.read_bytes() == content


@pytest.mark.parametrize("text,complaint", [
    ("[server]\nlisten = 127.0.0.1:1\nlistne = x\n", b":3: "),
    ("[server]\nconnections = many\n", b":2: "),
    ("[server]\nconnections = 0\n", b":2: "),
    ("[nonsense]\nx = 1\n", b"nonsense"),
])
def test_bad_configuration_is_refused_with_file_and_line(tmp_path, text, complaint):
    conf = tmp_path / "tally.ini"
    conf.write_text(text)
    for args in (["tally", "serve", "--config", conf], ["config", "show", "tally", "--config", conf]):
        done = subprocess.run([TERRANE, *args], capture_output=True, timeout=30, check=False)
        assert done.returncode == 1
        assert os.fsencode(conf) in done.stderr and complaint in done.stderr


def test_config_show_prints_a_file_that_it_takes_back(tmp_path):
    shown = subprocess.run([TERRANE, "config", "show", "tally"], capture_output=True, check=True)
    conf = tmp_path / "tally.ini"
    conf.write_bytes(shown.stdout)
    again = subprocess.run([TERRANE, "config", "show", "tally", "--config", conf],
                           capture_output=True, check=True)
    assert again.stdout == shown.stdout


@pytest.mark.parametrize("args", [
    [], ["nonsense"], ["tally"], ["tally", "nonsense"], ["tally", "add", "x"],
    ["tally", "add", "x", "ten"], ["tally", "get"], ["tally", "get", "x", "--nonsense"],
    ["tally", "serve"], ["config"], ["config", "show"], ["config", "show", "nonsense"],
    ["help", "nonsense"],
])
def test_wrong_usage_exits_with_2_and_says_why(args):
    done = subprocess.run([TERRANE, *args], capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stderr and not done.stdout


@pytest.mark.parametrize("args", [["help"], ["--help"], ["help", "tally"], ["tally", "--help"], ["tally", "-h"],
                                  ["config", "--help"], ["code", "--help"], ["version"]])
def test_help_goes_to_standard_output(args):
    done = subprocess.run([TERRANE, *args], capture_output=True, timeout=30, check=False)
    assert done.returncode == 0
    assert done.stdout and not done.stderr


def test_output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([TERRANE, "help"], stdout=full, stderr=subprocess.PIPE, timeout=30,
                              check=False)
    assert done.returncode == 1


@pytest.mark.parametrize("args", [["get", "x"], ["add", "x", "1"]])
def test_nobody_there_is_an_error_at_once(tmp_path, args):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        for addr in (f"unix:{tmp_path}/none", f"127.0.0.1:{port}"):
            start = time.monotonic()
            done = tally(*args, f"--connect={addr}", "--timeout=60s")
            assert done.returncode == 1
            assert b"is `terrane tally serve` running there?" in done.stderr
            assert b"may have been applied" not in done.stderr
            assert time.monotonic() - start < 10


def test_wait_waits_for_a_server_that_comes_later(tmp_path):
    server = Server(tmp_path)
    client = subprocess.Popen([TERRANE, "tally", "add", "a", "1", "--wait", "--timeout", "60s",
                               "--connect", server.addr], stdout=subprocess.PIPE)
    time.sleep(0.3)
    assert client.poll() is None
    with server:
        out, _ = client.communicate(timeout=60)
        assert client.returncode == 0 and out == b"1\n"


def test_a_wait_in_vain_ends_with_its_timeout(tmp_path):
    done = tally("get", "x", "--connect", f"unix:{tmp_path}/none", "--timeout", "1s", "--wait")
    assert done.returncode == 1 and done.stderr


def test_clients_that_ended_are_not_remembered(tmp_path):
    conf = tmp_path / "tally.ini"
    conf.write_text("[store]\nsessions = 2\n")
    with Server(tmp_path, "--config", conf) as server:
        for i in range(6):
            done = server.call("add", "a", "1")
            assert done.returncode == 0 and done.stdout == b"%d\n" % (i + 1), done.stderr
        assert json.loads(server.call("stat", "--json").stdout)["sessions"] == 0


def test_names_are_words_after_two_dashes_and_must_be_utf8(server):
    assert server.call("--", "add", "--json", "-3").returncode == 2  # --connect is a word here
    addr = f"--connect={server.addr}"
    assert tally(addr, "--", "add", "--json", "-3").stdout == b"-3\n"
    assert tally(addr, "--", "get", "--json").stdout == b"-3\n"
    done = tally(addr, "get", b"\xff\xfe")
    assert done.returncode == 2 and b"not UTF-8" in done.stderr
    assert not tally(addr, "get", "\u00e4").stderr


def test_metrics_are_served(tmp_path):
    config = tmp_path / "tally.ini"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config.write_text(f"[server]\nmetrics = 127.0.0.1:{port}\n")
    with Server(tmp_path, "--config", config) as server:
        assert server.call("add", "a", "1").returncode == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b'terrane_rpc_requests_total{role="tally"}' in answer.read()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            assert answer.read() == b"ok\n"
        assert server.end(signal.SIGTERM)[0] == 0


def test_metrics_are_served_by_a_process_with_many_open_files(tmp_path):
    """As one with many disks: select() knows no descriptors from 1024 on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = tmp_path / "conf.ini"
    config.write_text(f"[server]\nmetrics = 127.0.0.1:{port}\n")
    server = Server(tmp_path, "--config", config)

    def occupy():
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (4000, hard))
        for fd in range(10, 1200):
            os.dup2(2, fd)

    server.start(close_fds=False, preexec_fn=occupy)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b'role="tally"' in answer.read()
    finally:
        server.end(signal.SIGTERM)
