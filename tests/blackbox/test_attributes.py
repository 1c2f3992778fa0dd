# SPDX-License-Identifier: Apache-2.0
"""Modes, owners, times and user attributes are kept by put, get, cp and mv, shown by ls and stat, and changed by attr."""
import json
import os
import subprocess

import pytest

from box import KIB, MIB, TERRANE, Box, write_tree

# small files that share blocks, a file of several blocks, an empty one
TREE = {"a": 10, "b": 70 * KIB, "large": 3 * MIB, "empty": 0, "sub/c": 100, "sub/deep/d": 5}
SECOND = 10**9


@pytest.fixture(scope="module", name="box")
def a_box(tmp_path_factory):
    with Box(tmp_path_factory.mktemp("attrs") / "box", "--racks", 3, "--disks", 1, "--encoding", "r2") as box:
        yield box


def dress(folder):
    """Gives every file and directory below a folder attributes of its own."""
    paths = sorted(folder.rglob("*"), key=lambda p: len(p.parts), reverse=True)
    for i, path in enumerate([*paths, folder]):
        os.setxattr(path, "user.label", f"no {i}".encode())
        os.setxattr(path, "user.bytes", bytes([0, 255, i]))
        os.chown(path, 1000 + i, 2000 + i)
        os.chmod(path, 0o400 + 0o100 * path.is_dir() + i)
        os.utime(path, ns=(i, (1_500_000_000 + i) * SECOND + 123456789))


def attributes(path):
    st = path.stat()
    return (oct(st.st_mode & 0o777), st.st_uid, st.st_gid, st.st_mtime_ns,
            {n: os.getxattr(path, n) for n in sorted(os.listxattr(path)) if n.startswith("user.")})


def same_attributes(a, b):
    for path in [a, *sorted(a.rglob("*"))]:
        assert attributes(path) == attributes(b / path.relative_to(a)), path


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@needs_root
def test_put_and_get_keep_all_attributes(box, tmp_path):
    source = tmp_path / "in"
    write_tree(source, TREE)
    dress(source)
    box("put", "-q", "--block", "1MiB", source, "/kept")
    box("get", "-q", "/kept", tmp_path / "out")
    same_attributes(source, tmp_path / "out")
    # What is there already is the same, by its time, and nothing is fetched.
    assert box.json("get", "-q", "--resume", "/kept", tmp_path / "out")["left_alone"] == len(TREE)
    box("cp", "-r", "/kept", "/copied")
    box("mv", "/copied/sub", "/moved")
    box("get", "-q", "/moved", tmp_path / "moved")
    for path in ("c", "deep/d"):
        assert attributes(source / "sub" / path) == attributes(tmp_path / "moved" / path)
    # A stored bit must not make a program run as its owner.
    os.chmod(source / "a", 0o4755)
    box("put", "-q", source / "a", "/setuid")
    assert box.json("stat", "/setuid")["mode"] == "4755"
    box("get", "-q", "/setuid", tmp_path / "setuid")
    assert (tmp_path / "setuid").stat().st_mode & 0o7777 == 0o755
    box("put", "-q", "--no-attributes", source / "a", "/bare")
    assert "mode" not in box.json("stat", "/bare")
    box("get", "-q", "--no-attributes", "/kept/a", tmp_path / "bare")
    assert (tmp_path / "bare").stat().st_mode & 0o777 == 0o644 and not os.listxattr(tmp_path / "bare")


def test_ls_and_stat_show_attributes(box, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    os.chmod(tmp_path / "f", 0o640)
    os.utime(tmp_path / "f", ns=(0, 86400 * SECOND))
    st = (tmp_path / "f").stat()
    box("put", "-q", tmp_path / "f", "/shown")
    words = box("ls", "-l", "/shown").stdout.split()
    assert words[:4] == ["-rw-r-----s-", str(st.st_uid), str(st.st_gid), "1"] and words[4] == "1970-01-02T00:00:00Z"
    line = json.loads(box("ls", "--json", "/shown").stdout)
    assert (line["mode"], line["uid"], line["gid"]) == ("0640", st.st_uid, st.st_gid)
    told = box.json("stat", "/shown")
    assert (told["mode"], told["mtime_ns"], told["user_attributes"]) == ("0640", 86400 * SECOND, 0)
    box("mkdir", "/plain")
    assert box("ls", "-l", "/").stdout.splitlines()[0] and "d?????????--" in box("ls", "-l", "/").stdout
    box("touch", "/shown")
    assert box.json("stat", "/shown")["mtime_ns"] > 10**18 and box.json("stat", "/shown")["mode"] == "0640"


def test_attr_shows_and_changes_attributes(box):
    box("mkdir", "-p", "/attr/sub")
    box("touch", "/attr/f")
    box("attr", "set", "/attr/f", "mode=600", "uid=7", "gid=8", "mtime=2024-05-31T12:00:00Z", "label=a=b", "empty=")
    told = box.json("attr", "list", "/attr/f")
    assert told["mode"] == "0600" and (told["uid"], told["gid"]) == (7, 8) and told["mtime_ns"] == 1717156800 * SECOND
    assert told["user"] == {"label": "a=b", "empty": ""}
    assert box("attr", "get", "/attr/f", "label").stdout == "a=b\n" and box("attr", "get", "/attr/f", "uid").stdout == "7\n"
    box("attr", "set", "/attr/sub", "kind=train")
    assert [t["user"] for t in box.json("attr", "list", "/attr/f", "/attr/sub")] == [told["user"], {"kind": "train"}]
    box("attr", "remove", "/attr/f", "empty")
    assert box.json("attr", "list", "/attr/f")["user"] == {"label": "a=b"}
    assert box.json("attr", "list", "/attr/f")["mode"] == "0600"
    # Refused before anything changes.
    for words, code in ((["get", "/attr/f", "none"], 1), (["remove", "/attr/f", "label", "none"], 1),
                        (["remove", "/attr/f", "mode"], 2), (["set", "/attr/f", "mode=9"], 2),
                        (["set", "/attr/f", "uid=-1"], 2), (["set", "/attr/f", "x=1", "plain"], 2),
                        (["set", "/attr/f", "ok=1", "big=" + "x" * 4096], 1), (["set", "/attr/f", "a" * 128 + "=1"], 1),
                        (["set", "/", "a=1"], 1), (["set", "/attr/none", "a=1"], 1), (["list", "/attr/../x"], 1), (["show", "/"], 2)):
        done = box("attr", *words, ok=False)
        assert done.returncode == code and done.stderr, (words, done.stderr)
    for name in (b"\xff", b"a\nb"):
        done = subprocess.run([TERRANE, "attr", "set", "/attr/f", name + b"=1"], env=box.env, capture_output=True, timeout=60,
                              check=False)
        assert done.returncode == 1, name
    assert box.json("attr", "list", "/attr/f")["user"] == {"label": "a=b"}
    many = [f"n{i}=1" for i in range(64)]
    assert "64" in box("attr", "set", "/attr/f", *many, ok=False).stderr
    box("attr", "set", "/attr/f", *many[:63])
    assert len(box.json("attr", "list", "/attr/f")["user"]) == 64
    box("seal", "/attr")
    assert box("attr", "set", "/attr/f", "label=c", ok=False).returncode == 1


def test_a_file_with_too_many_extended_attributes_is_stored_without_them(box, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    for i in range(70):
        os.setxattr(tmp_path / "f", f"user.n{i}", b"v")
    done = box("put", "-q", tmp_path / "f", "/many")
    assert "extended attributes" in done.stderr and box.json("stat", "/many")["user_attributes"] == 0
