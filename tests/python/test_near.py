# SPDX-License-Identifier: Apache-2.0
"""terrane.torch.ImageLoader: the same tensors wherever images are worked on, and fewer bytes near the data."""
import hashlib
import io
import os
import random
import re
import subprocess
import sys
import threading

import numpy
import pytest
import terrane
from box import TERRANE, Box, await_true
from conftest import PACKAGE, ROOT

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")
terrane_torch = pytest.importorskip("terrane.torch")
from terrane import _near, _terrane  # noqa: E402 (needs torch)

SIZE = 32
WAYS = ("off", "cut", "pixels", "auto")


@pytest.fixture
def dataset(cluster, photos):
    with terrane.Dataset(photos, cluster=cluster) as opened:
        yield opened


def loader_of(dataset, near_data, batch=7, **options):
    return terrane_torch.ImageLoader(dataset, batch, near_data=near_data, size=SIZE, seed=3, threads=2, **options)


def epoch_hash(loader):
    """A hash of all tensors and labels of an epoch."""
    made = hashlib.sha256()
    for images, labels in loader:
        made.update(images.numpy().tobytes())
        made.update(labels.numpy().tobytes())
    return made.hexdigest()


@pytest.fixture
def hashes(dataset):
    """The hashes of three epochs in which every file is sent as it is."""
    loader = loader_of(dataset, "off")
    return [epoch_hash(loader) for _ in range(3)]


@pytest.mark.parametrize("near_data", WAYS)
def test_epochs_are_the_same_wherever_images_are_worked_on(dataset, hashes, near_data):
    loader = loader_of(dataset, near_data)
    assert [epoch_hash(loader) for _ in range(3)] == hashes
    assert len(set(hashes)) == 3
    for traffic in loader.traffic_before:
        assert traffic.samples == len(dataset)
        if near_data in ("off", "auto"):
            continue
        assert traffic.offloaded > len(dataset) / 2, traffic
        assert traffic.bytes < traffic.file_bytes, traffic


def test_tensors_are_those_of_torchvision(dataset):
    transforms = pytest.importorskip("torchvision.transforms")
    finish = transforms.Compose([transforms.ToTensor(),
                                 transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    loader = loader_of(dataset, "pixels", batch=len(dataset))
    numbers = next(loader.samples_of(0))
    images, labels = next(iter(loader))
    for sample, tensor, label in zip(dataset.read(numbers), images, labels):
        image = Image.open(io.BytesIO(bytes(sample.data))).convert("RGB")
        x, y, width, height, flip = _terrane.prep_draw_one(3, 0, sample.number, *image.size)
        image = image.crop((x, y, x + width, y + height)).resize((SIZE, SIZE), Image.BILINEAR)
        if flip:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        assert torch.equal(finish(image), tensor) and label == sample.label


def test_training_resumes_with_the_same_tensors(dataset):
    whole = [images for images, _ in loader_of(dataset, "off", batch=6)]
    first = loader_of(dataset, "cut", batch=6)
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    second = loader_of(dataset, "pixels", batch=6)
    second.load_state_dict(state)
    rest = [images for images, _ in second]
    assert len(rest) == len(whole) - 1 and all(map(torch.equal, rest, whole[1:]))


# --- samples with several parts, several data sets

def pictures(count):
    for i in range(count):
        image = Image.frombytes("RGB", (40, 30), random.Random(i).randbytes(3600)).resize((160 + i, 120))
        yield f"{i:03}", encoded(image, "JPEG", quality=92)


@pytest.fixture(scope="module")
def parts(cluster):
    """Paths of data sets with the same images: alone, and as the second and the third part of their samples."""
    paths = [f"/sets/parts-{os.getpid()}-{i}" for i in range(3)]
    mask = encoded(Image.new("L", (50, 50)), "PNG")
    terrane.build(({"__key__": key, "jpg": data} for key, data in pictures(20)), paths[0], cluster=cluster)
    terrane.build(({"__key__": key, "cls": "a", "jpg": data, "json": b"{}" * 100} for key, data in pictures(20)), paths[1],
                  cluster=cluster)
    terrane.build(({"__key__": key, "cls": "a", "seg.png": mask, "jpg": data} for key, data in pictures(20)), paths[2],
                  cluster=cluster)
    return paths


@pytest.mark.parametrize("near_data", WAYS)
def test_of_samples_with_several_parts_only_the_image_is_read(cluster, parts, near_data):
    alone, second, third = (terrane.Dataset(path, cluster=cluster) for path in parts)
    numbers = all_of(alone)
    assert alone.keys(numbers) == second.keys(numbers) == third.keys(numbers)

    def image_hash(dataset, **options):
        loader, made = loader_of(dataset, near_data, **options), hashlib.sha256()
        for images, _ in loader:
            made.update(images.numpy().tobytes())
        return made.hexdigest(), loader.traffic_before[0]

    want, traffic = image_hash(alone)
    assert image_hash(second)[0] == want and image_hash(second)[1].file_bytes == traffic.file_bytes
    assert image_hash(third)[0] == want  # the size in the index is that of seg.png
    assert image_hash(third, part="jpg")[0] == want and image_hash(third, part="seg.png")[0] != want
    with pytest.raises(ValueError, match="part must be one of cls, jpg, json"):
        loader_of(second, near_data, part="png")


@pytest.mark.parametrize("near_data", WAYS)
def test_selections_and_mixes_give_the_same_tensors_wherever_images_are_worked_on(cluster, dataset, parts, near_data):
    other = terrane.Dataset(parts[1], cluster=cluster)
    some = dataset.filter(lambda entries: entries["label"] == 0)
    mix = terrane.Mix([some, other], [1, 1], samples=64)
    for source in (some, mix):
        want = [epoch_hash(loader) for loader in [loader_of(source, "off")] for _ in range(3)]
        loader = loader_of(source, near_data)
        assert [epoch_hash(loader) for _ in range(3)] == want
        assert near_data in ("off", "auto") or loader.traffic_before[0].offloaded > 0
    whole = {}
    for numbers, (images, _) in zip(loader_of(dataset, near_data).samples_of(0), loader_of(dataset, near_data)):
        whole.update(zip(numbers.tolist(), images))
    for numbers, (images, labels) in zip(loader_of(some, near_data).samples_of(0), loader_of(some, near_data)):
        assert all(torch.equal(whole[number], image) for number, image in zip(numbers.tolist(), images))
        assert labels.eq(0).all()


# --- strange files

def encoded(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def strange_files():
    chance = random.Random(1)
    image = Image.frombytes("RGB", (30, 20), chance.randbytes(1800)).resize((150, 100))
    rotated = Image.Exif()
    rotated[0x0112] = 6
    return {"png": encoded(image, "PNG"), "cmyk": encoded(image.convert("CMYK"), "JPEG"),
            "gray": encoded(image.convert("L"), "JPEG"), "progressive": encoded(image, "JPEG", progressive=True),
            "rotated": encoded(image, "JPEG", exif=rotated.tobytes()), "dot": encoded(image.resize((1, 1)), "JPEG"),
            "wide": encoded(image.resize((9000, 8)), "JPEG"), "plain": encoded(image, "JPEG")}


@pytest.fixture(scope="module")
def strange(box, tmp_path_factory):
    folder = tmp_path_factory.mktemp("strange")
    for name, data in strange_files().items():
        (folder / f"{name}.jpg").write_bytes(data)
    box("dataset", "build", folder, "/sets/strange")
    return "/sets/strange"


def test_files_that_nodes_do_not_take_come_as_they_are(cluster, strange):
    with terrane.Dataset(strange, cluster=cluster) as dataset:
        want = epoch_hash(loader_of(dataset, "off"))
        for near_data in WAYS:
            loader = loader_of(dataset, near_data)
            assert epoch_hash(loader) == want
        loader = loader_of(dataset, "cut")
        epoch_hash(loader)
        reasons = loader.traffic_before[0].reasons
        assert reasons["unsupported kind of JPEG file"] >= 2 and reasons["not a JPEG file or damaged"] == 1


def test_a_damaged_image_is_named(box, cluster, tmp_path):
    data = strange_files()["plain"]
    (tmp_path / "half.jpg").write_bytes(data[:300])
    box("dataset", "build", tmp_path, "/sets/half")
    with terrane.Dataset("/sets/half", cluster=cluster) as dataset:
        for near_data in WAYS:
            with pytest.raises(OSError, match="sample 0 "):
                epoch_hash(loader_of(dataset, near_data))


def test_the_example_trains_to_the_same_weights_with_fewer_bytes(box):
    done = subprocess.run([sys.executable, "-B", ROOT / "examples" / "train_images.py", "--terrane", TERRANE,
                           "--data", f"/sets/images-{os.getpid()}", "--epochs", "2"],
                          env={**box.env, "PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("weights are the same\n")
    times = float(re.search(r"took ([\d.]+) times less", done.stdout)[1])
    assert times > 1.5, done.stdout


# --- nodes

def copy_of(dataset, box, folder, *options):
    """Builds the same data set in another cluster."""
    numbers = all_of(dataset)
    for sample, key in zip(dataset.read(numbers), dataset.keys(numbers)):
        file = folder / f"{key}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(sample.data)
    box("dataset", "build", folder, "/sets/photos", *options)


def test_nodes_work_for_clients_that_have_tokens(tmp_path, dataset):
    with Box(tmp_path / "b", "--racks", 3, "--disks", 1, "--security", "on") as box:
        copy_of(dataset, box, tmp_path / "files")
        with terrane.connect(box.env["TERRANE_CLUSTER"]) as cluster, \
                terrane.Dataset("/sets/photos", cluster=cluster) as copy:
            loader = loader_of(copy, "cut")
            assert epoch_hash(loader) == epoch_hash(loader_of(copy, "off"))
            assert loader.traffic_before[0].offloaded > len(copy) / 2, loader.traffic_before


def test_a_node_that_dies_in_an_epoch_changes_no_tensor(tmp_path, dataset):
    with Box(tmp_path / "b", "--nodes", 5, "--procs") as box:
        copy_of(dataset, box, tmp_path / "files", "--block", "64KiB", "--encoding", "rs:2+2")
        with terrane.connect(box.env["TERRANE_CLUSTER"]) as cluster, \
                terrane.Dataset("/sets/photos", cluster=cluster) as copy:
            want = epoch_hash(loader_of(copy, "off"))
            loader = loader_of(copy, "cut", prefetch=1)
            made = hashlib.sha256()
            for i, (images, labels) in enumerate(loader):
                made.update(images.numpy().tobytes())
                made.update(labels.numpy().tobytes())
                if i == 0:
                    box.kill("node-1")
            assert made.hexdigest() == want
            assert loader.traffic_before[0].offloaded > 0
            box.up()


def test_samples_that_a_node_has_in_its_cache_are_worked_on_too(tmp_path, dataset):
    with Box(tmp_path / "b", "--nodes", 1, "--disks", 1, "--encoding", "r1", "--node-flash", "64MiB", "--procs") as box:
        copy_of(dataset, box, tmp_path / "files")
        with terrane.connect(box.env["TERRANE_CLUSTER"]) as cluster, \
                terrane.Dataset("/sets/photos", cluster=cluster) as copy:
            want, loader = epoch_hash(loader_of(copy, "off")), loader_of(copy, "cut")

            def hits():
                return sum(v for k, v in box.metrics("node-1").items() if k.startswith("terrane_flash_hit_bytes_total{"))

            def epoch_from_the_cache():
                before = hits()
                loader.set_epoch(0)
                assert epoch_hash(loader) == want
                assert loader.traffic_before[-1].offloaded > len(copy) / 2, loader.traffic_before
                return hits() > before
            await_true("an epoch from the cache", epoch_from_the_cache)


def test_a_cluster_that_is_down_and_up_again_in_an_epoch_is_waited_for(tmp_path, dataset, caplog):
    with Box(tmp_path / "b") as box, terrane.connect(box.env["TERRANE_CLUSTER"]) as cluster:
        copy_of(dataset, box, tmp_path / "files")
        with terrane.Dataset("/sets/photos", cluster=cluster, timeout=1) as copy:
            for near_data in ("cut", "auto"):
                caplog.clear()
                want = epoch_hash(loader_of(copy, "off", batch=4))
                loader = loader_of(copy, near_data, batch=4, prefetch=1)
                made, starter = hashlib.sha256(), None
                for images, labels in loader:
                    made.update(images.numpy().tobytes())
                    made.update(labels.numpy().tobytes())
                    if starter is None:
                        box.down()
                        starter = threading.Thread(target=lambda: (await_true("a message", lambda: caplog.records), box.up()))
                        starter.start()
                starter.join()
                assert made.hexdigest() == want and "Trying again" in caplog.text
                assert loader._near.speeds.raw_s == 0  # the times of that epoch are not taken for those of the network


# --- the decision

def near_of(dataset, bandwidth, accelerator_s=1e-4, node_cores=4):
    near = _near.Near(dataset, 3, SIZE, "auto", 4, node_cores)
    near.nodes[1] = 0
    near.speeds.bandwidth, near.speeds.accelerator_s = bandwidth, accelerator_s
    return near


def all_of(dataset):
    return numpy.arange(len(dataset), dtype=numpy.uint64)


def test_samples_are_offloaded_only_if_the_network_is_the_slowest_part(dataset):
    slow = near_of(dataset, 1e6)
    slow.begin(1, all_of(dataset))
    assert slow.plan[3] > len(dataset) / 2
    preps, _ = slow.requests(1, dataset.lookup(all_of(dataset)))
    assert (preps["form"] != _near.RAW).sum() == slow.plan[3]
    for near in (near_of(dataset, 1e12), near_of(dataset, 1e6, accelerator_s=1.0), near_of(dataset, 1e6, node_cores=0)):
        near.begin(1, all_of(dataset))
        preps, _ = near.requests(1, dataset.lookup(all_of(dataset)))
        assert not (preps["form"] != _near.RAW).any()


def test_samples_that_never_shrink_are_asked_for_once(dataset):
    near = near_of(dataset, 1e6)
    near.begin(1, all_of(dataset))
    entries = dataset.lookup(all_of(dataset))
    preps, _ = near.requests(1, entries)
    preps["reason"] = _near.NEVER[0]
    near.learn(entries, preps)
    near.begin(2, all_of(dataset))
    again, _ = near.requests(2, entries)
    assert not (again["form"][preps["form"] != _near.RAW] != _near.RAW).any()


def ended(near, seconds, busy=0, asked=10):
    times, traffic = _near.Times(), _near.Traffic(1)
    traffic.samples, traffic.asked, traffic.bytes = 100, asked, 1000
    if busy:
        traffic.reasons["busy"] = busy
    times.epoch_s, times.waited_s, times.read_s = seconds, seconds, seconds
    near.end(traffic, times, 0.0)


def test_the_share_of_node_processors_follows_what_nodes_say(dataset):
    near = near_of(dataset, 1e6, node_cores=4)
    ended(near, 10, asked=0)
    assert near.speeds.raw_s == 0.1 and near.speeds.bandwidth == 100
    ended(near, 5)
    assert near.speeds.node_cores == 5
    ended(near, 5, busy=5)
    assert near.speeds.node_cores == 2.5


def test_an_epoch_that_was_slower_than_without_is_not_repeated(dataset):
    near = near_of(dataset, 1e6, node_cores=4)
    ended(near, 10, asked=0)
    ended(near, 10.2)
    assert near.speeds.node_cores == 3
    near.speeds.bandwidth = 1e6
    near.begin(2, all_of(dataset))
    assert near.plan is None  # measures again, without operations
    near.begin(3, all_of(dataset))
    assert near.plan[3] > 0


@pytest.mark.parametrize("wrong", [{"transform": "vgg"}, {"near_data": "far"}, {"size": 0}, {"threads": 0},
                                   {"decode": len}, {"node_cores": -1}])
def test_wrong_options_are_refused(dataset, wrong):
    with pytest.raises(ValueError):
        terrane_torch.ImageLoader(dataset, 4, **wrong)
