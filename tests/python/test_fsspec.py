# SPDX-License-Identifier: Apache-2.0
"""terrane:// through fsspec, and what opens files through it."""
import pickle
import subprocess
import sys

import child
import pytest
from conftest import ROOT

fsspec = pytest.importorskip("fsspec", reason="needs python3-fsspec")
from fsspec.registry import get_filesystem_class  # noqa: E402


@pytest.fixture
def fs(cluster):
    return fsspec.filesystem("terrane")


def test_entry_point_registers_the_protocol(cluster):
    assert get_filesystem_class("terrane").__name__ == "TerraneFileSystem"
    fs, path = fsspec.core.url_to_fs("terrane:///some/where/")
    assert path == "/some/where" and fs.protocol == "terrane"
    assert fs._strip_protocol("terrane://some/where") == "/some/where" and fs._strip_protocol("terrane://") == "/"


def test_names(fs, folder):
    fs.makedirs(f"{folder}/x/y")
    with pytest.raises(FileExistsError):
        fs.makedirs(f"{folder}/x/y")
    fs.makedirs(f"{folder}/x/y", exist_ok=True)
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{folder}/x")
    fs.pipe({f"{folder}/x/a.txt": b"1", f"{folder}/x/y/b.txt": b"22", f"{folder}/new/c.bin": b"333"})
    assert fs.ls(folder, detail=False) == [f"{folder}/new", f"{folder}/x"]
    assert fs.find(folder) == [f"{folder}/new/c.bin", f"{folder}/x/a.txt", f"{folder}/x/y/b.txt"]
    assert fs.glob(f"{folder}/**/*.txt") == [f"{folder}/x/a.txt", f"{folder}/x/y/b.txt"]
    assert fs.glob(f"{folder}/x/*.txt") == [f"{folder}/x/a.txt"]
    assert sorted(fs.expand_path(f"{folder}/x", recursive=True)) == \
        [f"{folder}/x", f"{folder}/x/a.txt", f"{folder}/x/y", f"{folder}/x/y/b.txt"]
    assert [found[1:] for found in fs.walk(f"{folder}/x")] == [(["y"], ["a.txt"]), ([], ["b.txt"])]
    assert fs.du(folder) == 6 and fs.isdir(f"{folder}/x") and fs.isfile(f"{folder}/x/a.txt")
    assert fs.info(f"{folder}/x/y/b.txt")["size"] == 2 and fs.ls(f"{folder}/x/a.txt")[0]["type"] == "file"
    for call in (fs.ls, fs.info, fs.rm, fs.cat, fs.modified):
        with pytest.raises(FileNotFoundError):
            call(f"{folder}/none")


def test_move_copy_remove(fs, folder):
    fs.pipe(f"{folder}/a", b"1")
    fs.mv(f"{folder}/a", f"{folder}/deep/b")
    fs.mkdir(f"{folder}/into")
    fs.mv(f"{folder}/deep/b", f"{folder}/into")
    assert fs.find(folder) == [f"{folder}/into/b"]
    fs.cp(f"{folder}/into", f"{folder}/copy", recursive=True)
    assert fs.cat(f"{folder}/copy/b") == b"1"
    with pytest.raises(OSError):
        fs.rm(f"{folder}/copy")
    fs.rm(f"{folder}/copy", recursive=True)
    fs.rm([f"{folder}/into/b"])
    fs.rmdir(f"{folder}/into")
    assert fs.find(folder) == []


def test_get_and_put(fs, folder, tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a").write_bytes(b"a" * 5_000_000)
    (tmp_path / "in" / "deep" / "b").write_bytes(b"b")
    fs.put(str(tmp_path / "in"), f"{folder}/in", recursive=True)
    assert fs.size(f"{folder}/in/a") == 5_000_000
    fs.get(f"{folder}/in", str(tmp_path / "out"), recursive=True)
    assert (tmp_path / "out" / "a").read_bytes() == b"a" * 5_000_000 and (tmp_path / "out" / "deep" / "b").read_bytes() == b"b"


def test_ranges_are_slices(fs, folder):
    data = bytes(range(100))
    fs.pipe(f"{folder}/a", data)
    fs.pipe(f"{folder}/b", data * 2)
    cuts = [(0, 10), (None, None), (-5, None), (90, 200), (5, -5), (50, 50), (60, 50), (200, 300)]
    for name, whole in (("a", data), ("b", data * 2)):
        got = fs.cat_ranges([f"{folder}/{name}"] * len(cuts), [a for a, _ in cuts], [b for _, b in cuts])
        assert got == [whole[a:b] for a, b in cuts]
    assert fs.cat([f"{folder}/a", f"{folder}/b"]) == {f"{folder}/a": data, f"{folder}/b": data * 2}
    assert fs.head(f"{folder}/a", 3) == data[:3] and fs.tail(f"{folder}/a", 3) == data[-3:]
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([f"{folder}/a", f"{folder}/none"], [0, 0], [1, 1])
    good, bad = fs.cat_ranges([f"{folder}/a", f"{folder}/none"], [0, 0], [1, None], on_error="return")
    assert good == b"\0" and isinstance(bad, FileNotFoundError)


def test_transaction_is_visible_at_its_end(fs, folder):
    with fs.transaction:
        with fs.open(f"{folder}/a", "wb") as file:
            file.write(b"1")
        fs.pipe(f"{folder}/b", b"2")
        assert fs.find(folder) == []
    assert fs.find(folder) == [f"{folder}/a", f"{folder}/b"] and fs.cat(f"{folder}/a") == b"1"
    with pytest.raises(KeyError):
        with fs.transaction:
            fs.pipe(f"{folder}/c", b"3")
            raise KeyError
    assert not fs.exists(f"{folder}/c")


def test_keys_change_with_the_bytes(fs, folder):
    fs.pipe(f"{folder}/a", b"1")
    first = fs.ukey(f"{folder}/a"), fs.checksum(f"{folder}/a")
    assert (fs.ukey(f"{folder}/a"), fs.checksum(f"{folder}/a")) == first
    fs.pipe(f"{folder}/a", b"2")
    assert fs.ukey(f"{folder}/a") != first[0] and fs.checksum(f"{folder}/a") != first[1]
    assert fs.modified(f"{folder}/a").tzinfo is not None and fs.created(f"{folder}/a") == fs.modified(f"{folder}/a")


def test_file_system_pickles(fs, folder):
    fs.pipe(f"{folder}/a", b"1")
    assert pickle.loads(pickle.dumps(fs)).cat(f"{folder}/a") == b"1"


def test_text_and_compression(fs, folder):
    with fsspec.open(f"terrane:/{folder}/a.gz", "wt", compression="infer") as file:
        file.write("text\n" * 1000)
    with fsspec.open(f"terrane:/{folder}/a.gz", "rt", compression="infer") as file:
        assert file.read() == "text\n" * 1000
    assert fs.size(f"{folder}/a.gz") < 1000


def test_pandas(fs, folder):
    pandas = pytest.importorskip("pandas", reason="needs python3-pandas")
    frame = pandas.DataFrame({"a": range(1000), "b": [f"row {i}" for i in range(1000)]})
    frame.to_csv(f"terrane:/{folder}/t.csv", index=False)
    assert pandas.read_csv(f"terrane:/{folder}/t.csv").equals(frame)
    frame.to_pickle(f"terrane:/{folder}/t.pkl.gz")
    assert pandas.read_pickle(f"terrane:/{folder}/t.pkl.gz").equals(frame)


def test_numpy(fs, folder):
    numpy = pytest.importorskip("numpy", reason="needs python3-numpy")
    data = numpy.random.default_rng(7).normal(size=(100, 100))
    with fs.open(f"{folder}/a.npy", "wb") as file:
        numpy.save(file, data)
    with fs.open(f"{folder}/a.npy") as file:
        assert (numpy.load(file) == data).all()


def test_torch(fs, folder):
    torch = pytest.importorskip("torch", reason="needs python3-torch")
    state = {"w": torch.arange(10_000, dtype=torch.float32), "step": 7}
    with fs.open(f"{folder}/a.pt", "wb") as file:
        torch.save(state, file)
    with fs.open(f"{folder}/a.pt") as file:
        again = torch.load(file)
    assert torch.equal(again["w"], state["w"]) and again["step"] == 7


def test_the_example_of_pandas(box, folder):
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-B", ROOT / "examples" / "fsspec_pandas.py", "--folder", f"terrane:/{folder}/e"],
                          env=child.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=300, check=False)
    assert done.returncode == 0 and "a    1.5" in done.stdout and "run,step,loss" in done.stdout, done.stdout
