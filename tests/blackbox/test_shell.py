# SPDX-License-Identifier: Apache-2.0
"""Commands on files behave as those of a shell do: patterns, pipes, sorting, searching, and errors that say what to do."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from box import BUILD, KIB, TERRANE, Box, run, write_tree

TREE = {"one.jpg": 10, "two.jpg": 30 * KIB, "three.txt": 200, "sub/four.jpg": 5, "sub/deep/five.txt": 2000}


@pytest.fixture(scope="module", name="box")
def a_box(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shell")
    write_tree(folder / "in", TREE)
    with Box(folder / "box", "--racks", 3, "--disks", 1, "--encoding", "r2") as box:
        box("put", "-q", folder / "in", "/d")
        box.source = folder / "in"
        yield box


def pipe(box, *words, data=None):
    return subprocess.run([TERRANE, *words], env=box.env, input=data, capture_output=True, timeout=120, check=False)


def test_ls_sorts_and_prints_as_in_a_shell(box):
    lines = lambda *words: box("ls", *words).stdout.splitlines()
    assert lines("-lahS1", "/d")[0].endswith("two.jpg") and "30.0 KiB" in lines("-lah", "-S", "/d")[0]
    assert sorted(lines("-t", "/d")) == sorted(lines("/d")) == ["one.jpg", "sub/", "three.txt", "two.jpg"]
    box("touch", "/d/sub/new", "/d/one.jpg")
    assert lines("-t", "/d/sub")[0] == "new" and box.json("stat", "/d/one.jpg")["size"] == 10
    box("rm", "/d/sub/new")
    assert lines("--tenant", "default", "/d") == lines("/d")
    assert box("du", "-s", "-h", "/d").stdout.split()[:2] == ["31.6", "KiB"] or "KiB" in box("du", "-sh", "/d").stdout
    assert "usage" in box("ls", "--help").stdout


def test_tree_and_find(box):
    assert box("tree", "/d").stdout.splitlines() == [
        "/d", "  one.jpg", "  sub/", "    deep/", "      five.txt", "    four.jpg", "  three.txt", "  two.jpg",
        "2 directories, 5 files"]
    found = lambda *words: sorted(box("find", "/d", *words).stdout.split())
    assert found("--name", "*.jpg") == ["/d/one.jpg", "/d/sub/four.jpg", "/d/two.jpg"]
    assert found("--kind", "d") == ["/d/sub/", "/d/sub/deep/"]
    assert found("--size", "+10kB") == ["/d/two.jpg"] and found("--size", "5") == ["/d/sub/four.jpg"]
    assert found("--age", "+1h") == [] and len(found("--age", "-1h", "--kind", "file")) == 5
    line = json.loads(box("find", "/d", "--name", "five*", "--json").stdout)
    assert line["path"] == "/d/sub/deep/five.txt" and line["size"] == 2000
    for words in (["--size", "big"], ["--age", "3"], ["--kind", "pipe"]):
        assert box("find", "/d", *words, ok=False).returncode == 2, words
    box("put", "-q", box.source, "/gone")
    box("find", "/gone", "--name", "*", "--delete")
    assert box("ls", "/gone").stdout == ""


def test_patterns_in_quotes(box, tmp_path):
    assert box("ls", "/d/*.txt").stdout.split() == ["/d/three.txt"]
    box("get", "-q", "/d/*/*.jpg", "/d/o*.jpg", f"{tmp_path}/")
    assert sorted(os.listdir(tmp_path)) == ["four.jpg", "one.jpg"]
    done = box("cat", "/d/*.png", ok=False)
    assert done.returncode == 1 and "nothing matches" in done.stderr
    box("mkdir", "/star")
    box("put", "-q", tmp_path / "one.jpg", "/star/a*b")
    box("put", "-q", tmp_path / "one.jpg", "/star/axb")
    box("rm", "/star/a*b")  # a name that exists is itself
    assert box("ls", "/star").stdout.split() == ["axb"]
    box("rm", "/star/*")
    box("rm", "-f", "/star/*")
    assert box("ls", "/star").stdout == ""


def test_pipes(box, tmp_path):
    data = os.urandom(9 << 20)
    assert pipe(box, "put", "-", "/pipe", data=data).returncode == 0
    assert pipe(box, "get", "/pipe", "-").stdout == data
    done = pipe(box, "put", "-", "/pipe", data=b"x")
    assert done.returncode == 1 and b"exists" in done.stderr
    assert pipe(box, "put", "-F", "-", "/pipe", data=b"").returncode == 0
    assert box.json("stat", "/pipe")["size"] == 0
    assert pipe(box, "put", "-", "/d", data=b"x").returncode == 1


def test_mv_without_replacing(box, tmp_path):
    (tmp_path / "f").write_bytes(b"f")
    (tmp_path / "g").write_bytes(b"gg")
    box("put", "-q", tmp_path / "f", "/mf")
    box("put", "-q", tmp_path / "g", "/mg")
    box("mv", "-n", "/mf", "/mg")
    assert box.json("stat", "/mf")["size"] == 1 and box.json("stat", "/mg")["size"] == 2
    box("mv", "/mf", "/mg")
    assert box.json("stat", "/mg")["size"] == 1


def test_cp_shares_blocks_and_takes_no_space(box, tmp_path):
    used = lambda: [t["used_bytes"] for t in box.json("tenant", "list") if t["name"] == "default"]
    before = used()
    assert box("cp", "/d", "/copy", ok=False).returncode == 1
    box("cp", "-r", "/d", "/copy")
    box("cp", "/d/one.jpg", "/d/t*.txt", "/copy/sub")
    assert used() == before
    assert box("cat", "/copy/sub/deep/five.txt").stdout == box("cat", "/d/sub/deep/five.txt").stdout
    box("rm", "-r", "/copy/sub/deep")
    box("get", "-q", "/copy", tmp_path / "out")
    assert sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()) == [
        "one.jpg", "sub/four.jpg", "sub/one.jpg", "sub/three.txt", "three.txt", "two.jpg"]
    assert (tmp_path / "out" / "two.jpg").read_bytes() == (box.source / "two.jpg").read_bytes()
    assert "itself" in box("cp", "-r", "/copy", "/copy/sub/x", ok=False).stderr
    box("cp", "-n", "/d/two.jpg", "/copy/one.jpg")
    assert box.json("stat", "/copy/one.jpg")["size"] == 10
    box("cp", "/d/two.jpg", "/copy/one.jpg")
    assert box.json("stat", "/copy/one.jpg")["size"] == 30 * KIB


def test_errors_say_what_to_do(box, tmp_path):
    done = box("mkdir", "/no/such", ok=False)
    assert done.returncode == 1 and "-p" in done.stderr
    for path in ("/d/../d", "./d", "/d/."):
        done = box("ls", path, ok=False)
        assert done.returncode == 1 and '".."' in done.stderr, done.stderr
    bad = pipe(box, "mkdir", b"/bad-\xff")
    assert bad.returncode == 1 and b"UTF-8" in bad.stderr
    done = run("ls", cwd=tmp_path, env={k: v for k, v in os.environ.items() if k != "TERRANE_CLUSTER"})
    assert done.returncode == 1 and "cluster.ini does not exist" in done.stderr and "terrane up" in done.stderr
    # The folder of a cluster stands for its cluster file.
    assert run("ls", "-c", box.folder, "/d").stdout == box("ls", "/d").stdout
    assert run("ls", "/d", env={**os.environ, "TERRANE_CLUSTER": str(box.folder)}).stdout == box("ls", "/d").stdout


def test_every_command_has_a_manual_page_that_says_what_its_help_says(tmp_path):
    script = BUILD.parent / "scripts" / "man.py"
    subprocess.run([sys.executable, "-B", script, tmp_path], check=True, capture_output=True, timeout=120)
    names = re.findall(r"^  ([a-z]+) ", run("help").stdout, re.M)
    assert len(names) > 40 and {p.name for p in tmp_path.iterdir()} == {"terrane.1", *(f"terrane-{n}.1" for n in names)}
    text = (tmp_path / "terrane-put.1").read_text().replace("\\-", "-")
    for option in re.findall(r"--[a-z]+", run("help", "put").stdout):
        assert option in text, option
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", *sorted(tmp_path.iterdir())], capture_output=True, text=True,
                              timeout=120, check=False)
        assert done.returncode == 0 and done.stderr == "", done.stderr
