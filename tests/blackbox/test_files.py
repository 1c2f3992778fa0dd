# SPDX-License-Identifier: Apache-2.0
"""Commands on files, with a cluster of real processes that is killed, filled and damaged."""
import json
import os
import signal
import subprocess

import pytest

from box import GIB, KIB, LONG, MIB, TERRANE, Box, await_true, flip, same_tree, write_tree

BLOCK = 64 * KIB  # block size of the tests: small files have many blocks


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """A box that tests share if they do no damage to it."""
    with Box(tmp_path_factory.mktemp("files") / "box", "--racks", 6, "--disks", 1) as shared:
        yield shared


@pytest.fixture
def procs(tmp_path):
    """A box for one test, with a process for each role."""
    with Box(tmp_path / "box", "--racks", 6, "--disks", 1, "--procs") as own:
        yield own


def sizes_around(edges):
    return sorted({max(0, e + d) for e in edges for d in (-1, 0, 1)})


def test_sizes_around_every_boundary_come_back(box, tmp_path):
    chunk = BLOCK // 4
    edges = [0, 4 * KIB, chunk, 2 * chunk, BLOCK, 2 * BLOCK, 4 * BLOCK + chunk, MIB, 4 * MIB]
    write_tree(tmp_path / "in", {f"size-{n}": n for n in sizes_around(edges)})
    for code in ("rs:4+2", "r3", "lrc:2+1+1"):
        name = code.replace(":", "-").replace("+", "-")
        box("put", "-q", "--encoding", code, "--block", "64KiB", "--verify", tmp_path / "in", f"/{name}")
        box("get", "-q", f"/{name}", tmp_path / name)
        same_tree(tmp_path / "in", tmp_path / name)
    for size in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1):  # alone, not packed
        path = tmp_path / "in" / f"size-{size}"
        if path.exists():
            box("put", "-q", "--block", "64KiB", path, f"/alone-{size}")
            done = subprocess.run([TERRANE, "cat", f"/alone-{size}"], env=box.env, check=True,
                                  stdout=subprocess.PIPE)
            assert done.stdout == path.read_bytes()


def test_names_with_spaces_newlines_and_emoji(box, tmp_path):
    names = ["a b", "line\nbreak", "\N{SNOWMAN}\N{GRINNING FACE}", "-rf", "'quote\"", "tab\there", "x" * 255,
             "back\\slash", "日本語/ファイル", " "]
    write_tree(tmp_path / "in", {name: 100 + i for i, name in enumerate(names)})
    box("put", "-q", tmp_path / "in", "/names")
    box("get", "-q", "/names", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")
    shown = box("ls", "/names").stdout
    assert "line\\x0abreak" in shown and "\N{SNOWMAN}\N{GRINNING FACE}" in shown
    assert box("stat", "/names/a b").returncode == 0
    box("mv", "/names/a b", "/names/c\nd")
    assert "c\\x0ad" in box("ls", "/names").stdout
    bad = os.fsencode(tmp_path / "in") + b"/not-utf8-\xff"
    with open(bad, "wb"):
        pass
    done = box("put", "-q", "-u", tmp_path / "in", "/names", ok=False)
    assert done.returncode == 1 and "malformed text" in done.stderr


@pytest.mark.parametrize("count", [3000, pytest.param(100_000, marks=LONG)])
def test_thousands_of_small_files(box, tmp_path, count):
    write_tree(tmp_path / "in", {f"d{i % 7}/f{i}": i % 3000 for i in range(count)})
    patience = 300 * count / 3000
    assert box.json("put", "-q", tmp_path / "in", "/many", timeout=patience)["files"] == count
    box("get", "-q", "/many", tmp_path / "out", timeout=patience)
    same_tree(tmp_path / "in", tmp_path / "out")
    usage = box.json("du", "/many")
    assert usage["files"] == count and usage["bytes"] == sum(i % 3000 for i in range(count))
    box("rm", "-r", "/many", timeout=patience)
    assert box("stat", "/many", ok=False).returncode == 1


def test_small_files_of_many_directories_share_blocks(box, tmp_path):
    write_tree(tmp_path / "in", {f"split{i % 3}/s{i:03}/x.bin": 20 * KIB - i for i in range(300)})
    (tmp_path / "in" / "split0" / "empty").mkdir()
    assert box.json("put", "-q", "--verify", tmp_path / "in", "/samples")["files"] == 300
    box("get", "-q", "/samples", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")
    found = box.json("fsck", "--deep", "/samples")
    assert found["files"] == 300 and found["directories"] == 305 and found["blocks"] == found["healthy"] <= 2
    # Existing files stay; missing ones are put again, in as few blocks.
    box("rm", "-r", "/samples/split1")
    again = box.json("put", "-q", "--resume", tmp_path / "in", "/samples")
    assert again["files"] == 100 and again["left_alone"] == 200 and again["failed"] == 0
    found = box.json("fsck", "/samples")
    assert found["files"] == 300 and found["blocks"] <= 3
    # A file whose name is taken does not affect the other files of the call.
    taken = [f"/samples/split2/{s}/x.bin" for s in ("s005", "s008")]
    box("rm", "/samples/split2/s002/x.bin", *taken)
    box("mkdir", *taken)
    done = box("put", "-q", "-F", tmp_path / "in" / "split2", "/samples/split2", ok=False)
    told = sorted(line.split(": ", 1)[1] for line in done.stderr.splitlines() if "cannot put" in line)
    assert done.returncode == 1 and len(told) == 2
    assert "s005" in told[0] and "s008" not in told[0] and "s008" in told[1] and "s005" not in told[1]
    assert box("stat", "/samples/split2/s002/x.bin").returncode == 0


@LONG
def test_a_file_of_20_gib(procs, tmp_path):
    """A sparse file; each MiB contains its position."""
    end = 20 * GIB + 12345
    with open(tmp_path / "in", "wb") as file:
        for at in range(0, end, MIB):
            file.seek(at)
            file.write(at.to_bytes(8, "little"))
        file.truncate(end)
    procs("put", "-q", tmp_path / "in", "/large", timeout=1200)
    assert procs.json("stat", "/large")["size"] == end
    with subprocess.Popen([TERRANE, "cat", "/large"], env=procs.env, stdout=subprocess.PIPE) as cat:
        for at in range(0, end, MIB):
            want = at.to_bytes(8, "little") + bytes(min(MIB, end - at) - 8)
            assert cat.stdout.read(MIB) == want, at
        assert cat.stdout.read() == b""
    assert cat.returncode == 0
    assert procs.json("fsck", "-q")["degraded"] == 0
    procs("rm", "/large")


def test_directories_mv_rm_and_seal(box, tmp_path):
    write_tree(tmp_path, {"f": 1000})
    assert box("mkdir", "/m/n/o", ok=False).returncode == 1
    box("mkdir", "-p", "/m/n/o")
    box("put", "-q", tmp_path / "f", "/m/n/")
    box("mv", "/m/n/f", "/m/n/g")
    box("mv", "/m/n/g", "/m")
    assert box("ls", "-R", "/m").stdout.split() == ["/m/g", "/m/n/", "/m/n/o/"]
    done = box("rm", "/m", ok=False)
    assert done.returncode == 1 and "-r" in done.stderr
    assert box("put", "-q", tmp_path / "f", "/m/g", ok=False).returncode == 1
    box("put", "-q", "--replace", tmp_path / "f", "/m/g")
    box("seal", "/m")
    assert box("put", "-q", tmp_path / "f", "/m/new", ok=False).returncode == 1
    assert box("rm", "/nothing", ok=False).returncode == 1
    assert box("rm", "-f", "/nothing").returncode == 0


@pytest.mark.parametrize("path", ["", "/", "//"])
@pytest.mark.parametrize("flags", ["-r", "-rf"])
def test_rm_of_the_root_is_refused_and_removes_nothing(box, tmp_path, path, flags):
    write_tree(tmp_path, {"f": 1000})
    box("mkdir", "-p", "/kept/deep")
    box("put", "-q", "--replace", tmp_path / "f", "/kept/deep/f")
    before = box("ls", "-R", "/").stdout
    for words in ([path], ["/kept", path]):
        done = box("rm", flags, *words, ok=False)
        assert done.returncode == 2 and ("nothing was removed" if path else "a path is empty") in done.stderr
        assert box("ls", "-R", "/").stdout == before
    box("rm", "-r", "/kept/")


def test_a_file_of_many_blocks_is_moved_to_another_directory(box, tmp_path):
    write_tree(tmp_path, {"f": 300 * BLOCK})
    box("mkdir", "-p", "/move/there")
    box("put", "-q", "--block", "64KiB", tmp_path / "f", "/move/f")
    box("mv", "/move/f", "/move/there/g")
    box("get", "-q", "/move/there/g", tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == (tmp_path / "f").read_bytes()
    assert box("ls", "/move").stdout.split() == ["there/"]


def test_fewer_disks_than_the_code_needs_is_refused_with_the_numbers(box, tmp_path):
    write_tree(tmp_path, {"f": 100 * KIB})
    done = box("put", "-q", "--encoding", "rs:9+6", tmp_path / "f", "/wide", ok=False)
    assert done.returncode == 1
    assert "rs:9+6 needs 15 disks" in done.stderr and "6 accept new data" in done.stderr
    assert box("stat", "/wide", ok=False).returncode == 1


def test_a_tree_of_small_files_in_an_impossible_code_is_refused(box, tmp_path):
    write_tree(tmp_path / "in", {"a": 1000, "b": 1000})
    for code in ("foo", "rs:0+1"):
        done = box("put", "-q", "--encoding", code, tmp_path / "in", "/nocode", "--json", ok=False)
        assert done.returncode == 1 and code in done.stderr
        assert json.loads(done.stdout)["files"] == 0
    assert not box("ls", "/nocode").stdout


def blocks_of(box, path):
    return box.json("fsck", path)["blocks"]


def test_many_operands_share_blocks_as_a_tree_does(box, tmp_path):
    write_tree(tmp_path / "in", {f"f{i:03}": 20 * KIB for i in range(100)} | {"sub/g": 10, "large": 3 * MIB})
    operands = sorted((tmp_path / "in").iterdir())
    done = box.json("put", "-q", *operands, "/glob/")
    assert done["files"] == 102 and done["failed"] == 0
    box("put", "-q", tmp_path / "in", "/tree")
    assert blocks_of(box, "/glob") == blocks_of(box, "/tree") < 20
    box("get", "-q", "/glob", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")
    (tmp_path / "each").mkdir()
    done = box.json("get", "-q", *(f"/glob/{p.name}" for p in operands), "/glob/none", tmp_path / "each", ok=False)
    assert done["files"] == 102 and done["failed"] == 1
    same_tree(tmp_path / "in", tmp_path / "each")
    box("get", "-q", "/glob/f000", "/glob/f001", f"{tmp_path}/made/")
    assert sorted(p.name for p in (tmp_path / "made").iterdir()) == ["f000", "f001"]
    assert box("get", "-q", "/glob/f000", "/glob/f001", tmp_path / "not", ok=False).returncode == 1


def test_files_that_would_get_one_name_are_refused_before_anything_happens(box, tmp_path):
    write_tree(tmp_path, {"a/f": 10, "b/f": 20, "a/d/x": 1, "b/d/y": 2, "c/d": 3})
    done = box("put", "-q", tmp_path / "a" / "f", tmp_path / "b" / "f", "/clash/", ok=False)
    assert done.returncode == 1 and "a/f" in done.stderr and "b/f" in done.stderr
    assert box("stat", "/clash", ok=False).returncode == 1
    box("put", "-q", tmp_path / "a" / "d", tmp_path / "b" / "d", "/clash/")  # directories become one
    assert box("ls", "-R", "/clash").stdout.split() == ["/clash/d/", "/clash/d/x", "/clash/d/y"]
    box("put", "-q", tmp_path / "c" / "d", "/clash/d/x2")
    box("put", "-q", tmp_path / "c" / "d", "/clash/x2")
    done = box("get", "-q", "/clash/d/x2", "/clash/x2", tmp_path, ok=False)
    assert done.returncode == 1 and not (tmp_path / "x2").exists()


def test_dot_and_dot_dot_put_the_contents_of_the_folder(box, tmp_path):
    write_tree(tmp_path / "in", {"f": 10, "sub/deep/g": 20})
    for source, target, found in ((".", "/here/", "/here"), (".", "/here2", "/here2"), ("..", "/above/", "/above/sub"),
                                  ("../.", "/above2", "/above2/sub"), ("deep/..", "/here3/", "/here3")):
        box("put", "-q", source, target, cwd=tmp_path / "in" / "sub")
        assert box("ls", "-R", found).stdout.split() == [f"{found}/deep/", f"{found}/deep/g"]
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1) as empty:
        empty("put", "-q", ".", "/", cwd=tmp_path / "in")
        assert empty("ls", "-R", "/").stdout.split() == ["/f", "/sub/", "/sub/deep/", "/sub/deep/g"]
    os.mkfifo(tmp_path / "fifo")
    for source in ("nowhere", "fifo"):
        done = box("put", "-q", source, "/nothing/", cwd=tmp_path, ok=False)
        assert done.returncode == 1 and source in done.stderr
    assert box("stat", "/nothing", ok=False).returncode == 1


def test_bad_options_are_refused(box, tmp_path):
    for words in (["put", "x"], ["ls", "--frob"], ["put", "--block", "lots", "a", "/b"],
                  ["bench", "nothing", "/x"], ["put", "--jobs", "0", "a", "/b"], ["ls", ""], ["get", "", "out"],
                  ["put", tmp_path, ""], ["mkdir", "-p", ""], ["mv", "", "/b"], ["du", "/", ""]):
        assert box(*words, ok=False).returncode == 2, words
    done = box("put", tmp_path / "nowhere", "/x", ok=False)
    assert done.returncode == 1 and "nowhere" in done.stderr
    done = box("ls", "--tenant", "nobody", ok=False)
    assert done.returncode == 1 and "nobody" in done.stderr


def test_an_interrupted_put_leaves_no_partial_file_and_resume_completes(procs, tmp_path):
    write_tree(tmp_path / "in", {f"d{i % 5}/f{i:03}": 600 * KIB for i in range(200)} | {"large": 60 * MIB})
    for least in (1, 40, 80):
        before = len(procs.chunks(2))
        put = procs.start("put", "-q", "--resume", tmp_path / "in", "/data")
        await_true("chunks on node-2", lambda: len(procs.chunks(2)) >= before + least or put.poll() is not None)
        put.send_signal(signal.SIGINT)
        _, err = put.communicate(timeout=120)
        assert put.returncode == 0 or (put.returncode == 130 and "interrupted" in err)
        if procs("stat", "/data", ok=False).returncode == 0:
            procs("get", "-q", "/data", tmp_path / f"part{least}")
            for path in (tmp_path / f"part{least}").rglob("*"):
                if path.is_file():  # every existing file is complete
                    name = path.relative_to(tmp_path / f"part{least}")
                    assert path.read_bytes() == (tmp_path / "in" / name).read_bytes()
    procs("put", "-q", "--resume", tmp_path / "in", "/data")
    procs("get", "-q", "/data", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")


def test_a_killed_put_leaves_no_partial_file(procs, tmp_path):
    write_tree(tmp_path, {"large": 60 * MIB})
    put = procs.start("put", "-q", tmp_path / "large", "/large")
    await_true("chunks on node-2", lambda: procs.chunks(2) or put.poll() is not None)
    put.kill()
    put.communicate()
    if procs("stat", "/large", ok=False).returncode == 0:
        procs("get", "-q", "/large", tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == (tmp_path / "large").read_bytes()
    else:
        procs("put", "-q", tmp_path / "large", "/large")


def test_a_node_killed_while_reading_and_while_writing(procs, tmp_path):
    write_tree(tmp_path / "in", {f"f{i}": 5 * MIB + i for i in range(16)})
    put = procs.start("put", "-q", "--block", "1MiB", tmp_path / "in", "/data")
    await_true("bytes on node-2", lambda: procs.chunks(2))
    procs.kill("node-2")
    _, err = put.communicate(timeout=120)
    assert put.returncode == 0, err
    get = procs.start("get", "-q", "/data", tmp_path / "out")
    await_true("files here", lambda: any((tmp_path / "out").glob("*")) or get.poll() is not None)
    procs.kill("node-5")
    _, err = get.communicate(timeout=120)
    assert get.returncode == 0, err
    same_tree(tmp_path / "in", tmp_path / "out")
    procs.up()
    assert procs.json("fsck")["lost"] == 0


def test_flipped_bits_on_disk_are_never_returned_and_found_by_fsck(procs, tmp_path):
    write_tree(tmp_path / "in", {f"f{i}": MIB for i in range(3)})
    procs("put", "-q", "--block", "512KiB", tmp_path / "in", "/data")
    flip(procs.chunks(1) + procs.chunks(4))  # two of six: the most that rs:4+2 tolerates
    procs("get", "-q", "/data", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")
    deep = procs.json("fsck", "--deep")
    assert deep["lost"] == 0 and deep["degraded"] > 0
    flip(procs.chunks(6))  # three of six: too many
    done = procs("fsck", "--deep", "--json", ok=False)
    assert done.returncode == 1
    got = procs("get", "-q", "/data", tmp_path / "out2", ok=False)
    assert got.returncode == 1  # an error, not wrong bytes
    for path in (tmp_path / "out2").glob("f*"):
        assert path.read_bytes() == (tmp_path / "in" / path.name).read_bytes()


def test_a_full_cluster_refuses_and_loses_nothing(tmp_path):
    if subprocess.run(["unshare", "--mount", "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("needs leave to mount")
    folder = tmp_path / "box"
    with Box(folder, "--racks", 3, "--disks", 1):
        pass
    for node in (1, 2, 3):
        config = folder / "conf" / f"node-{node}.ini"
        config.write_text(config.read_text().replace("keep_free = 256MiB", "keep_free = 8MiB"))
    disks = folder / "disks"
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", small], check=True)
    try:
        subprocess.run(["cp", "-a", f"{disks}/.", small], check=True)
        disks.rename(folder / "disks.empty")
        disks.symlink_to(small)
        with Box(folder) as box:
            write_tree(tmp_path / "in", {f"f{i:02}": 4 * MIB for i in range(12)})
            done = box("put", "-q", tmp_path / "in", "/data", ok=False)
            assert done.returncode == 1 and done.stderr
            box("get", "-q", "/data", tmp_path / "out")
            for path in (tmp_path / "out").iterdir():
                assert path.read_bytes() == (tmp_path / "in" / path.name).read_bytes()
            assert "of deleted files" not in done.stderr
            kept, *rest = (f"/data/{path.name}" for path in sorted((tmp_path / "out").iterdir()))
            box("rm", *rest)
            await_true("deleted bytes", lambda: json.loads(box("du", "--json").stdout)["waiting_bytes"] >= 4 * MIB)
            done = box("put", "-q", tmp_path / "in", "/more", ok=False)
            assert done.returncode == 1 and "of deleted files still take space" in done.stderr, done.stderr
            assert "terrane gc now" in done.stderr
            done = subprocess.run([TERRANE, "put", "-", "/pipe"], env=box.env, input=bytes(64 * MIB), check=False,
                                  capture_output=True, timeout=120)
            assert done.returncode == 1 and b"of deleted files still take space" in done.stderr, done.stderr
            subprocess.run(["dd", "if=/dev/zero", f"of={small}/rest", "bs=64k"], check=False, capture_output=True)
            done = box("get", kept, small / "out", ok=False)  # it is the local filesystem that is full
            assert done.returncode == 1 and "no space left" in done.stderr, done.stderr
            assert "of deleted files" not in done.stderr
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_a_tenant_over_its_quota_is_refused_and_keeps_what_it_has(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1) as box:
        box("tenant", "create", "small", "--quota", "4MiB")
        write_tree(tmp_path, {"a": 3 * MIB, "b": 3 * MIB})
        box("put", "-q", "-t", "small", tmp_path / "a", "/a")
        done = box("put", "-q", "-t", "small", tmp_path / "b", "/b", ok=False)
        assert done.returncode == 1 and "quota" in done.stderr
        assert box("ls", "--tenant", "small").stdout.split() == ["a"]
        box("put", "-q", tmp_path / "b", "/b")  # others are not concerned
        assert {t["name"]: t["quota_bytes"] for t in box.json("tenant", "list")} == \
            {"default": 0, "small": 4 * MIB}
        box("tenant", "quota", "small", "16MiB")
        box("put", "-q", "-t", "small", tmp_path / "b", "/b")


def results(text):
    """The JSON objects that follow each other in the text."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        one, at = decoder.raw_decode(text, at)
        found.append(one)
    return found


def test_bench_measures_every_kind(box):
    for words in (["write", "/bench/big", "--size", "4MiB"], ["read", "/bench/big"],
                  ["read", "/bench/big", "--pattern", "random", "--depth", "16"],
                  ["files", "/bench/small", "--count", "50", "--size", "10KiB"],
                  ["files", "/bench/packed", "--count", "50", "--size", "10KiB", "--packed"],
                  ["fetch", "/bench/packed", "--count", "50", "--size", "10KiB", "--packed"],
                  ["batch", "/bench/big", "--count", "200", "--depth", "100"]):
        box("mkdir", "-p", "/bench")
        assert results(box("bench", "--json", *words).stdout)[0]["ops_per_s"] > 0
    done = box("bench", "meta", "/bench/names", "--count", "50")
    assert "create" in done.stdout and "list" in done.stdout


def test_bench_meta_keeps_as_many_calls_in_flight_as_asked(box):
    # The sum of all durations over the time of the run: at most 1 for calls one after the other. On a busy machine
    # the bench also waits for a processor between calls, which makes the ratio smaller.
    for depth, least, most in (1, 0, 1.01), (16, 2, 16.01):
        done = box("bench", "--json", "meta", f"/depth{depth}", "--count", "1000", "--depth", str(depth))
        for step in results(done.stdout):
            if step["bench"] in ("create", "stat", "remove"):
                assert step["ops"] == 1000 and least < step["in_flight"] < most, step


def test_bench_does_not_touch_existing_files(box, tmp_path):
    write_tree(tmp_path, {"mine": 1000})
    for bench, name in (["write", "/mine"], "/mine"), (["files", "/mines"], "/mines/f00000003"), \
                       (["files", "/mines", "--packed"], "/mines/f00000003"), (["meta", "/mines"], "/mines/m00000003"):
        words = ["bench", *bench, "--count", 5, "--size", "64KiB"]
        box("rm", "-r", "-f", "/mine", "/mines")
        box("mkdir", "-p", "/mines")
        box("put", "-q", tmp_path / "mine", name)
        done = box(*words, ok=False)
        assert done.returncode == 1 and "--replace" in done.stderr and bench[1] in done.stderr
        assert box.json("stat", name)["size"] == 1000
        box("rm", "-r", "/mines")
        box(*words, "--replace")
