# SPDX-License-Identifier: Apache-2.0
"""Globs, and cp, get and put of files, lists, directories and globs, as fsspec documents them in "Copying files and
directories". What goes where is tested on local folders, which are quick; the calls themselves once in each direction."""
import itertools
import os
from pathlib import Path

import pytest
from conftest import ROOT  # noqa: F401 (the paths of the package)

fsspec = pytest.importorskip("fsspec", reason="needs python3-fsspec")
from terrane import _copying  # noqa: E402
from terrane._copying import Local  # noqa: E402

TREE = ["file1", "file2", "subdir/subfile1", "subdir/subfile2", "subdir/nesteddir/nestedfile"]
TWO = ["file1", "file2", *(f"subdir{i}/{name}" for i in range(2) for name in
                           ("subfile1", "subfile2", "nesteddir/nestedfile"))]
SUBDIR = ["subfile1", "subfile2", "nesteddir/nestedfile"]


@pytest.fixture
def made(tmp_path):
    """A function that makes files in the folder source, and a folder target."""
    def make(names):
        for name in names:
            path = tmp_path / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        (tmp_path / "target").mkdir()
        return str(tmp_path / "source"), str(tmp_path / "target")
    return make


def planned(source, target, recursive=False, maxdepth=None, root=None):
    """The files that a copy makes in the target, sorted."""
    pairs = _copying.plan(Local, source, Local, target, Local.strip, Local.strip, recursive, maxdepth)
    names = []
    for old, new in pairs:
        if os.path.isfile(old):
            names.append(os.path.relpath(new, root))
    return sorted(names)


@pytest.mark.parametrize("source, target, expected", [
    ("file2", "", ["file2"]),
    ("subdir/subfile1", "", ["subfile1"]),
    ("file2", "/", ["file2"]),
    ("subdir/subfile1", "/", ["subfile1"]),
    ("subdir/subfile1", "/newdir/", ["newdir/subfile1"]),
    ("subdir/subfile1", "/newfile", ["newfile"]),
    ("subdir/subfile1", "/newdir/newfile", ["newdir/newfile"]),
])
def test_a_file(made, source, target, expected):
    here, there = made(TREE)
    assert planned(f"{here}/{source}", there + target, root=there) == expected


@pytest.mark.parametrize("source, target, into", [
    ("subdir", "", "subdir/"), ("subdir/", "/", ""), ("subdir", "/", "subdir/"), ("subdir/", "", ""),
    ("subdir", "/newdir", "newdir/"), ("subdir/", "/newdir/", "newdir/"), ("subdir/", "/newdir", "newdir/"),
    ("subdir", "/newdir/", "newdir/subdir/"),
])
def test_a_directory(made, source, target, into):
    here, there = made(TREE)
    assert planned(f"{here}/{source}", there + target, root=there) == []  # without recursive nothing
    assert planned(f"{here}/{source}", there + target, True, root=there) == sorted(into + name for name in SUBDIR)
    assert planned(f"{here}/{source}", there + target, True, 1, there) == [f"{into}subfile1", f"{into}subfile2"]


def test_a_directory_with_one_file_or_a_like_named_neighbour(made):
    here, there = made(["subdir.txt", "subdir/subfile.txt"])
    assert planned(f"{here}/subdir", there, True, root=there) == ["subdir/subfile.txt"]
    assert planned(f"{here}/subdir", f"{there}/new", True, 1, there) == ["new/subfile.txt"]


GLOBS = [
    ("fil?1", False, None, ["file1"]),
    ("fil?1", True, None, ["file1"]),
    ("file[1-2]", False, None, ["file1", "file2"]),
    ("file[!1]", False, None, ["file2"]),
    ("*", False, None, ["file1", "file2"]),
    ("*", True, None, TWO),
    ("*", True, 1, ["file1", "file2"]),
    ("*", True, 2, ["file1", "file2", "subdir0/subfile1", "subdir0/subfile2", "subdir1/subfile1", "subdir1/subfile2"]),
    ("*1", False, None, ["file1"]),
    ("*1", True, None, ["file1", *(f"subdir1/{name}" for name in SUBDIR)]),
    ("*1", True, 2, ["file1", "subdir1/subfile1", "subdir1/subfile2"]),
    ("**", False, None, TWO),
    ("**", True, None, TWO),
    ("**", True, 1, ["file1", "file2"]),
    ("**", True, 2, TWO),
    ("**", False, 2, [name for name in TWO if "nested" not in name]),
    ("**/*1", False, None, ["file1", "subdir0/subfile1", "subdir1/subfile1"]),
    ("**/*1", True, None, ["file1", "subdir0/subfile1", *(f"subdir1/{name}" for name in SUBDIR)]),
    ("**/*1", True, 1, ["file1"]),
    ("**/*1", True, 2, ["file1", "subdir0/subfile1", "subdir1/subfile1", "subdir1/subfile2"]),
    ("**/*1", False, 2, ["file1", "subdir0/subfile1", "subdir1/subfile1"]),
    ("**/subdir0", False, None, []),
    ("**/subdir0", True, None, SUBDIR),
    ("**/subdir0/nested*", False, 2, []),
    ("**/subdir0/nested*", True, 2, ["nestedfile"]),
    ("subdir[1-2]", False, None, []),
    ("subdir[1-2]", True, None, SUBDIR),
    ("subdir[1-2]", True, 2, ["subfile1", "subfile2"]),
    ("subdir[0-1]", False, None, []),
    ("subdir[0-1]", True, None, [name for name in TWO if "/" in name]),
    ("subdir[0-1]/*fil[e]*", False, None, [name for name in TWO if "/subfile" in name]),
    ("subdir[0-1]/*fil[e]*", True, None, [name for name in TWO if "/subfile" in name]),
]


def test_globs(made):
    here, there = made(TWO)
    for path, recursive, maxdepth, expected in GLOBS:
        for into, slash in itertools.product(("", "/newdir"), ("", "/")):
            found = planned(f"{here}/{path}", there + into + slash, recursive, maxdepth, there)
            prefix = f"{into}/".lstrip("/")
            assert found == sorted(prefix + name for name in expected), (path, recursive, maxdepth, into, slash)


@pytest.mark.parametrize("target, into", [("", ""), ("/", ""), ("/newdir/", "newdir/")])
def test_a_list_of_files(made, target, into):
    here, there = made(TREE)
    names = [f"{here}/{name}" for name in ("file1", "file2", "subdir/subfile1")]
    assert planned(names, there + target, root=there) == [f"{into}file1", f"{into}file2", f"{into}subfile1"]
    assert planned(names[:2], [f"{there}/x", f"{there}/y"], root=there) == ["x", "y"]
    with pytest.raises(ValueError, match="same length"):
        planned(names, [there])


def test_what_is_missing_is_an_error(made):
    here, there = made(TREE)
    for source, recursive in (("none*", False), ("none*", True), ("none", True)):
        with pytest.raises(FileNotFoundError):
            planned(f"{here}/{source}", there, recursive)
    with pytest.raises(ValueError, match="maxdepth"):
        planned(f"{here}/subdir", there, True, 0)


# --- through the file system

@pytest.fixture
def fs(cluster):
    return fsspec.filesystem("terrane")


@pytest.fixture
def source(cluster, folder):
    cluster.mkdir(f"{folder}/source/subdir/nesteddir", parents=True)
    cluster.pack(f"{folder}/source", {name: name.encode() for name in TREE})
    return f"{folder}/source"


def test_copies_in_all_directions(fs, source, folder, tmp_path):
    fs.cp(f"{source}/subdir", f"{folder}/copy", recursive=True)
    fs.cp(f"{source}/file*", f"{folder}/copy/")
    assert fs.find(f"{folder}/copy") == [f"{folder}/copy/{name}" for name in
                                         ("file1", "file2", "nesteddir/nestedfile", "subfile1", "subfile2")]
    fs.mkdir(f"{folder}/copy/empty")
    fs.get(f"{folder}/copy", str(tmp_path / "got"), recursive=True)
    fs.get([f"{source}/file1"], tmp_path / "got/list")
    assert (tmp_path / "got/empty").is_dir() and (tmp_path / "got/nesteddir/nestedfile").read_text().endswith("nestedfile")
    assert (tmp_path / "got/list/file1").read_bytes() == b"file1"
    fs.put(str(tmp_path / "got"), f"{folder}/copy", recursive=True)  # exists, so it goes into it
    assert fs.isdir(f"{folder}/copy/got/empty") and fs.cat(f"{folder}/copy/got/subfile1") == b"subdir/subfile1"
    fs.put(f"{tmp_path}/got/*/", f"{folder}/put/", recursive=True)
    assert fs.find(f"{folder}/put") == [f"{folder}/put/list/file1", f"{folder}/put/nesteddir/nestedfile"]
    for call in (fs.cp, fs.get, fs.mv):
        with pytest.raises(FileNotFoundError):
            call(f"{source}/none", str(tmp_path / "none"))
    fs.mv(f"{folder}/put/*/*1", f"{folder}/moved")
    assert fs.cat(f"{folder}/moved/file1") == b"file1" and not fs.exists(f"{folder}/put/list/file1")


@pytest.mark.parametrize("call", ["cp", "get", "put"])
def test_what_is_planned_is_what_is_copied(fs, tmp_path, call):
    """Every pattern of the table above, in each direction, into a directory that exists and one that does not."""
    folder = f"/t/{os.getpid()}/copied-by-{call}"
    if call == "put":
        source = tmp_path / "source"
        for name in TWO:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(name)
    else:
        source = f"{folder}/source"
        fs.pipe({f"{source}/{name}": name.encode() for name in TWO})
    for i, (path, recursive, maxdepth, expected) in enumerate(GLOBS):
        into = ("", "/newdir", "/newdir/")[i % 3]
        target = f"{tmp_path}/t{i}" if call == "get" else f"{folder}/t{i}"
        tree = fsspec.filesystem("file" if call == "get" else "terrane")
        tree.mkdir(target)
        getattr(fs, call)(f"{source}/{path}", target + into, recursive=recursive, maxdepth=maxdepth)
        prefix = f"{target}{into}".rstrip("/")
        assert sorted(tree.find(target)) == sorted(f"{prefix}/{name}" for name in expected), (path, recursive, maxdepth, into)


def test_patterns_of_globs(fs, cluster, folder):
    cluster.mkdir(f"{folder}/dir/deep", parents=True)
    cluster.pack(folder, dict.fromkeys(("a.b", "axb", "a[b", "dir/a.b", "dir/deep/c", "w x"), b""))
    assert fs.glob(f"{folder}/a.*") == [f"{folder}/a.b"]
    assert fs.glob(f"{folder}/a[.]b") == [f"{folder}/a.b"]
    assert fs.glob(f"{folder}/a[[]b") == [f"{folder}/a[b"]
    assert fs.glob(f"{folder}/a[b") == [f"{folder}/a[b"]
    assert fs.glob(f"{folder}/*/") == [f"{folder}/dir"]
    assert fs.glob(f"{folder}/**/c") == [f"{folder}/dir/deep/c"]
    assert fs.glob(f"{folder}/?????x") == [] and fs.glob(f"{folder}/none/*") == []
    assert fs.glob(f"{folder}/dir/**", detail=True)[f"{folder}/dir/a.b"]["type"] == "file"
    with pytest.raises(ValueError, match="whole component"):
        fs.glob(f"{folder}/a**")
    fs.rm(f"{folder}/dir", recursive=True, maxdepth=1)
    assert fs.find(f"{folder}/dir") == [f"{folder}/dir/deep/c"]


def test_calls_report_to_callbacks(fs, source, tmp_path):
    class Counts(fsspec.callbacks.Callback):
        children = 0

        def branch(self, one, other, kwargs):
            Counts.children += 1
            kwargs["callback"] = fsspec.callbacks.Callback()

    counts = Counts()
    fs.get(source, str(tmp_path / "got"), recursive=True, callback=counts)
    assert counts.size == counts.value == len(TREE) + 3 and Path(tmp_path / "got/file1").exists()
    assert Counts.children == counts.size
