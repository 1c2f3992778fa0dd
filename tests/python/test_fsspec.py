# SPDX-License-Identifier: Apache-2.0
"""terrane:// through fsspec, and what opens files through it."""
import json
import pickle
import struct
import subprocess
import sys
import zipfile

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


def test_files_that_must_be_new(fs, folder):
    fs.touch(f"{folder}/deep/er/empty")
    assert fs.size(f"{folder}/deep/er/empty") == 0
    fs.pipe_file(f"{folder}/a", b"data", mode="create")
    for call in (lambda: fs.open(f"{folder}/a", "xb"), lambda: fs.pipe_file(f"{folder}/a", b"other", mode="create"),
                 lambda: fs.put_file(__file__, f"{folder}/a", mode="create")):
        with pytest.raises(FileExistsError):
            call()
    assert fs.cat_file(f"{folder}/a") == b"data"
    fs.pipe_file(f"{folder}/a", b"new data", mode="overwrite")
    assert fs.cat_file(f"{folder}/a") == b"new data"
    with pytest.raises(ValueError, match="in place"):
        fs.open(f"{folder}/a", "r+b")


def test_listings_to_a_depth_and_with_directories(fs, folder):
    fs.pipe({f"{folder}/a": b"1", f"{folder}/x/b": b"22", f"{folder}/x/y/c": b"333"})
    assert fs.find(folder, maxdepth=1) == [f"{folder}/a"]
    assert set(fs.find(f"{folder}/x", withdirs=True)) >= {f"{folder}/x/b", f"{folder}/x/y", f"{folder}/x/y/c"}
    assert fs.find(f"{folder}/x", detail=True)[f"{folder}/x/b"]["size"] == 2
    assert [(path, [*dirs], [*files]) for path, dirs, files in fs.walk(folder, maxdepth=1)] == [(folder, ["x"], ["a"])]
    assert next(fs.walk(folder, detail=True))[2]["a"]["type"] == "file"
    assert fs.du(folder, total=False) == {f"{folder}/a": 1, f"{folder}/x/b": 2, f"{folder}/x/y/c": 3}
    assert fs.du(folder, maxdepth=1) == 1
    assert fs.ls("terrane://", detail=False)[0].startswith("/") and fs.info("terrane://")["type"] == "directory"
    assert not fs.isdir(f"{folder}/none") and not fs.isfile(f"{folder}/none") and not fs.exists(f"{folder}/a/b")


def test_cat_of_globs_and_errors_of_single_files(fs, folder):
    fs.pipe({f"{folder}/a1": b"1", f"{folder}/a2": b"22"})
    assert fs.cat(f"{folder}/a*") == {f"{folder}/a1": b"1", f"{folder}/a2": b"22"}
    both = [f"{folder}/a1", f"{folder}/none"]
    assert fs.cat(both, on_error="omit") == {f"{folder}/a1": b"1"}
    assert isinstance(fs.cat(both, on_error="return")[f"{folder}/none"], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat(both)
    assert fs.read_block(f"{folder}/a2", 1, 5) == b"2"


def test_a_mapping_as_zarr_uses_it(fs, folder):
    store = fs.get_mapper(f"{folder}/array")
    store[".zarray"] = b"{}"
    store.setitems({"0.0": b"chunk", "0.1": b"other"})
    assert store["0.0"] == b"chunk" and sorted(store) == [".zarray", "0.0", "0.1"] and len(store) == 3
    assert store.getitems(["0.0", "9.9"], on_error="omit") == {"0.0": b"chunk"}
    assert "0.1" in store and "9.9" not in store and store.get("9.9") is None
    with pytest.raises(KeyError):
        store["9.9"]
    del store["0.1"]
    assert sorted(pickle.loads(pickle.dumps(store))) == [".zarray", "0.0"]
    store.clear()
    assert list(store) == []


def test_chains_of_file_systems(fs, folder, tmp_path):
    with fs.open(f"{folder}/z.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("inner.txt", "text")
    for url in (f"zip://inner.txt::terrane:/{folder}/z.zip", f"zip://inner.txt::simplecache::terrane:/{folder}/z.zip"):
        with fsspec.open(url, "rb", **({"simplecache": {"cache_storage": str(tmp_path)}} if "cache" in url else {})) as file:
            assert file.read() == b"text"
    cached = fsspec.filesystem("filecache", target_protocol="terrane", cache_storage=str(tmp_path / "files"), check_files=True)
    for data in (b"old", b"newer"):  # a file that changed is fetched again
        fs.pipe(f"{folder}/a", data)
        assert cached.cat(f"{folder}/a") == data
    fs.pipe({f"{folder}/p-{i}.csv": b"%d" % i for i in range(3)})
    with fsspec.open_files(f"terrane:/{folder}/p-*.csv") as files:
        assert [file.read() for file in files] == [b"0", b"1", b"2"]
    with fsspec.open_files(f"terrane:/{folder}/out-*.bin", "wb", num=2) as files:
        for i, file in enumerate(files):
            file.write(b"%d" % i)
    assert fs.cat(f"{folder}/out-1.bin") == b"1"


def test_a_description_of_the_file_system_opens_it_again(fs, folder):
    fs.pipe(f"{folder}/a", b"1")
    assert fsspec.AbstractFileSystem.from_json(fs.to_json()).cat(f"{folder}/a") == b"1"


def test_safetensors(fs, folder):
    """The format of safetensors: the length of a header, the header as JSON, the bytes of the tensors. A reader takes the
    header and then ranges of the tensors that it wants."""
    numpy = pytest.importorskip("numpy", reason="needs python3-numpy")
    tensors = {f"layer.{i}": numpy.random.default_rng(i).normal(size=(40, 30 + i)).astype("<f4") for i in range(8)}
    at, described = 0, {}
    for name, tensor in tensors.items():
        described[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    head = json.dumps(described).encode()
    with fs.open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for tensor in tensors.values():
            file.write(tensor)
    with fs.open(f"{folder}/model.safetensors") as file:
        length, = struct.unpack("<Q", file.read(8))
        read = json.loads(file.read(length))
        file.seek(8 + length + read["layer.5"]["data_offsets"][0])
        room = numpy.empty(read["layer.5"]["shape"], "<f4")
        assert file.readinto(room) == room.nbytes and (room == tensors["layer.5"]).all()
    starts, ends = zip(*([8 + length + offset for offset in one["data_offsets"]] for one in read.values()))
    for data, (name, one) in zip(fs.cat_ranges([f"{folder}/model.safetensors"] * len(read), starts, ends), read.items()):
        assert (numpy.frombuffer(data, "<f4").reshape(one["shape"]) == tensors[name]).all()
    try:
        from safetensors.numpy import load
    except ImportError:
        return  # it is not in Debian; where it is installed, it reads what was written
    assert all((array == tensors[name]).all() for name, array in load(fs.cat(f"{folder}/model.safetensors")).items())


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
