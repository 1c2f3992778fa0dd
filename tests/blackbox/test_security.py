# SPDX-License-Identifier: Apache-2.0
"""A secured cluster: whoever has no valid credentials gets nothing, at no port."""
import os
import shutil
import socket
import stat

import pytest

from box import MIB, Box, await_true, run, some_bytes

SHAPE = ("--racks", 3, "--disks", 1)


@pytest.fixture(scope="module", params=["one process", "processes"])
def box(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("secured")
    with Box(folder / "box", *SHAPE, *(["--procs"] if request.param == "processes" else [])) as made:
        (folder / "secret").write_bytes(some_bytes(1, MIB))
        made("put", "-q", folder / "secret", "/secret")
        yield made


def addresses(box):
    """The addresses of the metadata server and of the nodes, as they are in their settings."""
    for conf in sorted((box.folder / "conf").glob("*.ini")):
        for line in conf.read_text().splitlines():
            if line.startswith("listen"):
                yield conf.stem, line.split("=")[1].strip()


def await_well(box):
    """Waits until every node is online and a janitor has counted all blocks."""
    await_true("a healthy cluster", lambda: box("status", ok=False).returncode == 0)


def as_client(box, folder, credentials, name="cluster.ini"):
    """The environment of a client of the box with other credentials; None: with none."""
    text = (box.folder / "cluster.ini").read_text().replace("credentials = keys/admin.key\n", "")
    (folder / name).write_text(text.replace("tls = on\n", "") if credentials is None else text)
    env = {**os.environ, "TERRANE_CLUSTER": str(folder / name)}
    return env if credentials is None else {**env, "TERRANE_KEY_FILE": str(credentials)}


def test_the_operator_uses_the_cluster_with_no_extra_step(box, tmp_path):
    box("get", "-q", "/secret", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == some_bytes(1, MIB)
    await_well(box)
    assert box.json("tenant", "list")[0]["name"] == "default"


def test_secrets_are_readable_by_their_owner_alone_and_shown_nowhere(box):
    keys = box.folder / "keys"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    secrets = set()
    for key in keys.iterdir():
        assert key.suffix == ".key" or key.name == "authority.pem"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        secrets |= {line.split("=")[1].strip() for line in key.read_text().splitlines() if line.startswith("secret")}
    assert len(secrets) == 6  # meta, three nodes, the janitor, the operator
    shown = [path.read_text(errors="replace") for path in (box.folder / "log").iterdir()]
    shown += [path.read_text() for path in (box.folder / "conf").iterdir()]
    for pid in box.pids().values():
        with open(f"/proc/{pid}/cmdline", errors="replace") as line:
            shown.append(line.read())
    assert not [s for s in secrets for text in shown if s in text]
    assert not [text for text in shown if "PRIVATE KEY" in text]
    # clients get no private key
    assert "PRIVATE KEY" not in (keys / "admin.key").read_text()


def test_a_client_without_credentials_gets_nothing(box, tmp_path):
    env = as_client(box, tmp_path, None)
    for words in (("ls", "/"), ("get", "/secret", tmp_path / "out"), ("status",), ("tenant", "list")):
        done = run(*words, env=env)
        assert done.returncode == 1 and "TERRANE_KEY_FILE" in done.stderr, done.stderr
        assert "secret" not in done.stdout
    assert not (tmp_path / "out").exists()


def changed(key, text):
    key.write_text(text)
    key.chmod(0o600)
    return key


def test_credentials_that_are_not_valid_are_refused(box, tmp_path):
    good = (box.folder / "keys" / "admin.key").read_text()
    secret = [line for line in good.splitlines() if line.startswith("secret")][0]
    wrong = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    texts = {"wrong secret": good.replace(secret, wrong),
             "another name": good.replace("identity = admin", "identity = nobody")}
    for name, text in texts.items():
        done = run("ls", "/", env=as_client(box, tmp_path, changed(tmp_path / "key", text)))
        assert done.returncode == 1 and "permission denied" in done.stderr, (name, done.stderr)
    # the credentials of a service open no files of tenants
    done = run("ls", "/", env=as_client(box, tmp_path, box.folder / "keys" / "node-1.key"))
    assert done.returncode == 1 and "secret" not in done.stdout
    key = tmp_path / "open"
    shutil.copy(box.folder / "keys" / "admin.key", key)
    key.chmod(0o644)
    done = run("ls", "/", env=as_client(box, tmp_path, key))
    assert done.returncode == 1 and "chmod 600" in done.stderr


PROBES = [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 64, b"\xff" * 4096, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
          some_bytes(3, 5000)]


def test_no_port_answers_an_outsider_with_more_than_an_error(box):
    for role, addr in addresses(box):
        host, port = addr.rsplit(":", 1)
        for probe in PROBES:
            with socket.create_connection((host, int(port)), timeout=30) as s:
                answer = b""
                try:
                    s.sendall(probe)
                    s.shutdown(socket.SHUT_WR)
                    while True:
                        more = s.recv(4096)
                        if not more:
                            break
                        answer += more
                except OSError:  # the server has closed it
                    pass
                assert len(answer) <= 8, (role, probe[:16], answer)  # at most a refusal
    await_well(box)


def test_a_user_does_what_its_grants_allow_until_it_is_removed(box, tmp_path):
    key = tmp_path / "alice.key"
    box("mkdir", "/a")
    box("mkdir", "/b")
    box("put", "-q", __file__, "/a/mine")
    box("put", "-q", __file__, "/b/theirs")
    box("user", "add", "alice", "--role", "read-only", "--path", "/a", "--key", key)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    alice = as_client(box, tmp_path, key)

    def refused(*words, env=alice):
        done = run(*words, env=env)
        assert done.returncode == 1 and "permission denied" in done.stderr, (words, done.stdout, done.stderr)
        return done.stderr

    assert run("ls", "/a", env=alice).stdout == "mine\n"
    assert run("get", "-q", "/a/mine", tmp_path / "out", env=alice).returncode == 0
    # another's names look the same whether they exist or not
    assert refused("ls", "/b").replace("/b", "?") == refused("ls", "/nothing").replace("/nothing", "?")
    refused("get", "/b/theirs", tmp_path / "stolen")
    assert not (tmp_path / "stolen").exists()
    refused("put", "-q", __file__, "/a/new")
    refused("rm", "/a/mine")
    refused("tenant", "list")
    refused("user", "list")
    refused("user", "grant", "alice", "--role", "operator")
    refused("node", "drain", "1")
    # the rule that decides is the one that the test names
    assert "read-only below /a" in box("access", "test", "alice", "read", "/a/mine").stdout
    assert box("access", "test", "alice", "write", "/a/mine", ok=False).returncode == 1
    assert not box.json("access", "test", "alice", "read", "/b", ok=False)["allowed"]
    box("user", "grant", "alice", "--role", "read-write", "--path", "/b")
    assert run("put", "-q", __file__, "/b/new", env=alice).returncode == 0
    grants = box.json("user", "show", "alice")["grants"]
    assert [(g["role"], g["path"]) for g in grants] == [("read-only", "/a"), ("read-write", "/b")]
    box("user", "revoke", "alice", grants[1]["id"])
    refused("put", "-q", __file__, "/b/newer")
    # credentials that leaked are replaced
    shutil.copy(key, tmp_path / "leaked.key")
    box("user", "rotate", "alice", "--key", key)
    refused("ls", "/a", env=as_client(box, tmp_path, tmp_path / "leaked.key"))
    assert run("ls", "/a", env=alice).stdout == "mine\n"
    box("user", "disable", "alice")
    refused("ls", "/a")
    box("user", "enable", "alice")
    assert run("ls", "/a", env=alice).stdout == "mine\n"
    box("user", "remove", "alice")
    refused("ls", "/a")
    assert box("user", "show", "alice", ok=False).returncode == 1


def test_lost_credentials_of_the_operator_are_replaced(box, tmp_path):
    key = box.folder / "keys" / "admin.key"
    shutil.copy(key, tmp_path / "old.key")
    box("user", "rotate", "admin", "--key", key)
    box("ls", "/")
    done = run("ls", "/", env=as_client(box, tmp_path, tmp_path / "old.key"))
    assert done.returncode == 1 and "permission denied" in done.stderr


def test_commands_to_one_node_use_the_credentials(box, tmp_path):
    node = dict(addresses(box))["node-1"]
    disk = box.json("disk", "list")[0]["id"]
    chunk = box("chunk", "list", "--node", node, "--disk", disk).stdout.split()[0]
    box("chunk", "stat", chunk, "--node", node, "--disk", disk)
    # without credentials, and with those of a user, the node gives nothing
    key = tmp_path / "carol.key"
    box("user", "add", "carol", "--role", "read-only", "--key", key)
    for env in (as_client(box, tmp_path, None), as_client(box, tmp_path, key)):
        done = run("chunk", "list", "--node", node, "--disk", disk, "--timeout", "5s", env=env)
        assert done.returncode == 1 and done.stdout == "", done
    done = run("chunk", "list", "--node", "127.0.0.1:1", "--disk", disk, env=box.env)
    assert done.returncode == 1 and "terrane node list" in done.stderr, done.stderr


def test_a_tenant_sees_nothing_of_another(box, tmp_path):
    key = tmp_path / "bob.key"
    box("tenant", "create", "other")
    box("user", "add", "bob", "--role", "tenant-admin", "--tenant", "other", "--key", key)
    bob = as_client(box, tmp_path, key)
    text = (tmp_path / "cluster.ini").read_text()
    done = run("ls", "/", env=bob)
    assert done.returncode == 1 and "permission denied" in done.stderr
    (tmp_path / "cluster.ini").write_text(text.replace("tenant = default", "tenant = other"))
    assert run("put", "-q", __file__, "/mine", env=bob).returncode == 0
    assert run("ls", "/", env=bob).stdout == "mine\n"
    (tmp_path / "cluster.ini").write_text(text.replace("tenant = default", "tenant = system"))
    done = run("ls", "/", env=bob)
    assert done.returncode == 1 and "mine" not in done.stdout
    assert "mine" not in box("ls", "/").stdout.split()
