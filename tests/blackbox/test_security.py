# SPDX-License-Identifier: Apache-2.0
"""A secured cluster: whoever has no valid credentials gets nothing, at no port."""
import json
import os
import re
import shutil
import signal
import socket
import ssl
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


def listening(pids):
    """The addresses on which processes listen, as (host, port), from /proc."""
    inodes = set()
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open(f"/proc/net/{table}") as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    host, port = fields[1].split(":")
                    words = [int(host[i:i + 8], 16).to_bytes(4, "little") for i in range(0, len(host), 8)]
                    found.add((socket.inet_ntop(family, b"".join(words)), int(port, 16)))
    return found


def answer_to(address, request):
    with socket.create_connection(address, timeout=30) as s:
        s.sendall(request)
        s.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while more := s.recv(65536):
                answer += more
        except OSError:
            pass
        return answer


def test_a_port_scan_finds_loopback_errors_and_health(box):
    ports = listening(box.pids().values())
    served = {int(addr.rsplit(":", 1)[1]) for _, addr in addresses(box)}
    assert served <= {port for _, port in ports}
    assert {host for host, _ in ports} == {"127.0.0.1"}
    for address in ports:
        for path in (b"/", b"/etc/passwd", b"/metricsx", b"/../keys/admin.key"):
            answer = answer_to(address, b"GET " + path + b" HTTP/1.0\r\n\r\n")
            assert len(answer) <= 8 if address[1] in served else b" 404 " in answer, (address, path, answer)


def test_tls_is_of_version_1_3_and_of_no_older_one(box):
    for role, addr in addresses(box):
        host, port = addr.rsplit(":", 1)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.load_verify_locations(box.folder / "keys" / "authority.pem")
            context.minimum_version = context.maximum_version = version
            with socket.create_connection((host, int(port)), timeout=30) as s:
                if version == ssl.TLSVersion.TLSv1_2:
                    with pytest.raises(OSError):
                        context.wrap_socket(s)
                    continue
                with context.wrap_socket(s) as secured:
                    assert secured.version() == "TLSv1.3", role
                    # inside TLS an outsider gets no more than without
                    secured.sendall(b"GET /metrics HTTP/1.0\r\n\r\n" + bytes(200))
                    answer = b""
                    try:
                        while more := secured.recv(4096):
                            answer += more
                    except OSError:
                        pass
                    assert len(answer) <= 8, (role, answer)


def test_no_secret_is_in_memory_that_core_dumps_keep(box):
    secrets = []
    for key in sorted((box.folder / "keys").glob("*.key")):
        text = [line.split("=")[1].strip() for line in key.read_text().splitlines() if line.startswith("secret")][0]
        secrets += [text.encode(), bytes.fromhex(text)]
    seen = 0
    for pid in box.pids().values():
        found, hidden = scan(pid, secrets)
        assert not found, f"pid {pid}: {len(found)} copies of secrets, in {sorted(set(found))}"
        seen += hidden
    assert seen > 0  # the scan finds them where they are hidden


def scan(pid, secrets):
    """The mappings of a process in which secrets are though core dumps keep them, and how many are elsewhere."""
    found, hidden = [], 0
    with open(f"/proc/{pid}/smaps") as smaps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        mappings = []
        for line in smaps:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) .*?(\S*)$", line)
            if head:
                mappings.append([int(head[1], 16), int(head[2], 16), head[3], head[4], ""])
            elif line.startswith("VmFlags:"):
                mappings[-1][4] = line
        for start, end, rights, name, flags in mappings:
            if not rights.startswith("rw") or end - start > 512 * MIB:
                continue
            try:
                memory.seek(start)
                data = memory.read(end - start)
            except OSError:
                continue
            copies = sum(data.count(s) for s in secrets)
            if " dd" in flags:
                hidden += copies
            else:
                found += [name or hex(start)] * copies
    return found, hidden


def test_the_audit_log_tells_who_did_what(box, tmp_path):
    key = tmp_path / "dave.key"
    box("user", "add", "dave", "--role", "read-only", "--path", "/secret", "--key", key)
    assert run("rm", "/secret", env=as_client(box, tmp_path, key)).returncode == 1
    wrong = changed(tmp_path / "wrong.key", re.sub(r"secret = .{8}", "secret = 00000000", key.read_text()))
    assert run("ls", "/", env=as_client(box, tmp_path, wrong)).returncode == 1
    box("tenant", "create", "audited")
    box("user", "rotate", "dave", "--key", key)
    box("user", "remove", "dave")

    def records(role="meta"):
        return [json.loads(line) for line in (box.folder / "log" / f"{role}.audit").read_text().splitlines()]

    wanted = {("grant-changed", "admin", "dave"), ("permission-refused", "dave", None), ("login-refused", "dave", "metadata"),
              ("operator-command", "admin", None), ("key-changed", "admin", "dave"), ("identity-changed", "admin", "dave")}

    def missing():
        have = records()
        return {w for w in wanted
                if not any(r["event"] == w[0] and r["who"] == w[1] and w[2] in (None, r["what"]) for r in have)}

    await_true("all records", lambda: not missing())
    assert all(r["from"].startswith("127.0.0.1:") and r["outcome"] for r in records() if r["event"] != "dropped")
    # an outsider at a node is in the log of the node
    answer_to(("127.0.0.1", int(dict(addresses(box))["node-1"].rsplit(":", 1)[1])), b"TRNH" * 20)
    await_true("the outsider", lambda: any(r["event"] == "login-refused" for r in records("node-1")))


def test_certificates_are_replaced_without_a_restart(box, tmp_path):
    key = box.folder / "keys" / "node-2.key"
    role = "node-2" if "node-2" in box.pids() else "box"
    metric = "terrane_certificate_expiry_seconds"
    old, before = key.read_text(), box.metrics("node-2")[metric]
    bad = old[:old.index("-----BEGIN")] + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    key.write_text(bad)
    os.kill(box.pids()[role], signal.SIGHUP)
    log = box.folder / "log" / f"{role}.log"
    await_true("the refusal", lambda: "certificates_refused" in log.read_text())
    assert box.metrics("node-2")[metric] == before
    box("get", "-q", "/secret", tmp_path / "out")
    # a good one; its name is not compared with anything
    box("user", "add", "node-9", "--role", "node", "--key", tmp_path / "new.key", "--authority", box.folder / "keys" / "authority.pem")
    new = (tmp_path / "new.key").read_text()
    key.write_text(old[:old.index("-----BEGIN")] + new[new.index("-----BEGIN"):])
    os.kill(box.pids()[role], signal.SIGHUP)
    await_true("the new certificate", lambda: "certificates_loaded" in log.read_text())
    assert box.metrics("node-2")[metric] >= before


def test_a_server_that_others_reach_needs_credentials(tmp_path):
    conf = tmp_path / "node.ini"
    conf.write_text(f"[node]\ncluster = {'12' * 16}\nid = 1\nlisten = 0.0.0.0:0\n")
    done = run("node", "--config", conf)
    assert done.returncode == 1 and "credentials" in done.stderr and "127.0.0.1" in done.stderr, done.stderr
    conf.write_text("[meta]\nlisten = [::]:0\n[store]\nengine = mem\n")
    done = run("meta", "--config", conf)
    assert done.returncode == 1 and "credentials" in done.stderr, done.stderr


@pytest.mark.parametrize("shape", [("--tls", "off"), ("--security", "off")])
def test_what_is_not_protected_is_in_the_log(tmp_path, shape):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1, *shape) as box:
        (tmp_path / "f").write_bytes(some_bytes(1, MIB))
        box("put", "-q", tmp_path / "f", "/f")
        log = (box.folder / "log" / "box.log").read_text()
        assert ("tls_off" if shape[0] == "--tls" else "security_off") in log and "unprotected=" in log
        # a client that wants more than the cluster has is told
        if shape[0] == "--tls":
            text = (box.folder / "cluster.ini").read_text()
            (tmp_path / "cluster.ini").write_text(text.replace("tls = off", "tls = on"))
            done = run("ls", "/", env={**box.env, "TERRANE_CLUSTER": str(tmp_path / "cluster.ini"),
                                       "TERRANE_KEY_FILE": str(box.folder / "keys" / "admin.key")})
            assert done.returncode == 1 and "TLS" in done.stderr, done.stderr


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


def test_a_node_takes_credentials_that_were_replaced_right_after_it_asked_for_them(box):
    """A node asks for the key of a name at most once a second."""
    node, disk = dict(addresses(box))["node-1"], box.json("disk", "list")[0]["id"]
    for _ in range(3):
        box("user", "rotate", "admin", "--key", box.folder / "keys" / "admin.key")
        box("chunk", "list", "--node", node, "--disk", disk)


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


def test_small_files_that_share_a_block_are_read_by_whom_they_are_for(box, tmp_path):
    names = [f"{user}/f{i:02}" for user in ("erin", "frank") for i in range(20)]
    for i, name in enumerate(names):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(some_bytes(i, 3000))
    box("put", "-q", "--encoding", "rs:2+1", tmp_path / "in", "/shared")
    assert box.json("fsck", "/shared")["blocks"] == 1
    for user, other in (("erin", "frank"), ("frank", "erin")):
        key = tmp_path / f"{user}.key"
        box("user", "add", user, "--role", "read-only", "--path", f"/shared/{user}", "--key", key)
        env = as_client(box, tmp_path, key)
        out = tmp_path / f"of-{user}"
        done = run("get", "-q", f"/shared/{user}", out, env=env)
        assert done.returncode == 0, done.stderr
        for i, name in enumerate(names):
            if name.startswith(user):
                assert (out / name.split("/")[1]).read_bytes() == some_bytes(i, 3000), name
        done = run("get", "-q", f"/shared/{other}", tmp_path / "not", env=env)
        assert done.returncode == 1 and "permission denied" in done.stderr, done.stderr
        box("user", "remove", user)


def test_the_keys_of_tokens_are_replaced_while_the_cluster_is_used(box, tmp_path):
    def reads():
        return box("get", "-q", "-F", "/secret", tmp_path / "out", ok=False).returncode == 0

    before = box.json("key", "show")["issuing"]
    told = box.json("key", "rotate")
    assert told["issuing"] == before and told["other"] == before + 1
    assert reads()
    done = box("key", "rotate", ok=False)
    assert done.returncode == 1 and "--leaked" in done.stderr, done.stderr
    assert box.json("key", "rotate", "--leaked")["issuing"] == before + 1
    await_true("nodes with the new keys", reads)
    assert (tmp_path / "out").read_bytes() == some_bytes(1, MIB)
    box("put", "-q", tmp_path / "out", "/again")
    assert run("key", "rotate", "more", env=box.env).returncode == 2
    assert run("key", "show", "--leaked", env=box.env).returncode == 2
