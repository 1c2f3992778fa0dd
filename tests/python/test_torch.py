# SPDX-License-Identifier: Apache-2.0
"""terrane.torch: data sets and loader for PyTorch, with workers, samplers, state and training that resumes."""
import itertools
import os
import pickle
import subprocess
import sys

import child
import numpy
import pytest
import terrane
from box import TERRANE
from conftest import ROOT

torch = pytest.importorskip("torch")
terrane_torch = pytest.importorskip("terrane.torch")
SIDE, TOTAL = 8, 300


@pytest.fixture(scope="module")
def path(box, tmp_path_factory):
    """Images of SIDE x SIDE pixels; those of label 1 are brighter on the left."""
    folder = tmp_path_factory.mktemp("images")
    chance = numpy.random.default_rng(1)
    for i in range(TOTAL):
        label = i % 2
        image = chance.integers(0, 130, (SIDE, SIDE), numpy.uint8)
        image[:, :SIDE // 2] += numpy.uint8(120 * label)
        file = folder / str(label) / f"{i}.raw"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(image.tobytes())
    name = f"/sets/torch-{os.getpid()}"
    box("dataset", "build", folder, name, "--block", "64KiB")
    return name


@pytest.fixture
def dataset(cluster, path):
    with terrane.Dataset(path, cluster=cluster) as opened:
        yield opened


def number(sample):
    return sample.number


def image(sample):
    pixels = torch.frombuffer(sample.data, dtype=torch.uint8).reshape(1, SIDE, SIDE).float() / 255
    return pixels, sample.label


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_map_data_set_works_with_samplers_and_workers(dataset, workers, method):
    loader = torch.utils.data.DataLoader(terrane_torch.MapDataset(dataset, number), batch_size=32, shuffle=True,
                                         num_workers=workers,
                                         multiprocessing_context=method if workers else None)
    assert sorted(i for batch in loader for i in batch.tolist()) == list(range(TOTAL))


def test_a_map_data_set_returns_bytes_as_tensors(dataset):
    data, label = terrane_torch.MapDataset(dataset)[3]
    assert data.dtype == torch.uint8 and bytes(data.numpy()) == bytes(dataset[3].data) and label == dataset[3].label
    many = terrane_torch.MapDataset(dataset, number).__getitems__([5, 3, 5])
    assert many == [5, 3, 5]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_iterable_data_set_gives_the_same_batches_for_any_number_of_workers(dataset, workers):
    batches = terrane_torch.IterableDataset(dataset, 32, seed=4, decode=number)
    expected = [numbers.tolist() for numbers in terrane.Loader(dataset, 32, seed=4).samples_of(2)]
    batches.set_epoch(2)
    loader = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=workers)
    assert len(loader) == len(expected)
    assert [batch.tolist() for batch in loader] == expected


def test_a_loader_gives_tensors_and_pickled_state_continues(dataset):
    loader = terrane_torch.Loader(dataset, 32, seed=4, decode=image, threads=2)
    whole = list(loader)
    assert [tuple(pixels.shape) for pixels, _ in whole[:-1]] == [(32, 1, SIDE, SIDE)] * (len(whole) - 1)
    loader.set_epoch(0)
    first = list(itertools.islice(loader, 4))
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    again = terrane_torch.Loader(dataset, 32, decode=image)
    again.load_state_dict(state)
    rest = list(again)
    assert len(first) + len(rest) == len(whole)
    for (a, b), (c, d) in zip(first + rest, whole):
        assert torch.equal(a, c) and torch.equal(b, d)


def test_wrong_options_are_refused(dataset):
    for options in ({"repeat": True}, {"processes": 1}, {"rank": 2, "world": 2}, {"order": "x"}):
        with pytest.raises(ValueError):
            terrane_torch.IterableDataset(dataset, 8, **options)


def dies(sample):
    os._exit(5)


def test_a_worker_of_pytorch_that_dies_is_an_exception(dataset):
    batches = terrane_torch.IterableDataset(dataset, 8, decode=dies)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(torch.utils.data.DataLoader(batches, batch_size=None, num_workers=1))


def train(dataset, epochs, stop_after=None, saved=None):
    """Trains a small CNN. Stops in the middle after some steps; returns what a checkpoint has."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(4 * (SIDE - 2) ** 2, 2))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    loader = terrane_torch.Loader(dataset, 32, seed=9, decode=image, threads=2)
    if saved is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
    steps, losses = 0, []
    while loader.epoch < epochs:
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(pixels), labels)
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
            steps += 1
            if steps == stop_after:
                return pickle.loads(pickle.dumps({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                                                  "loader": loader.state_dict()}))
    return {"model": model.state_dict(), "losses": losses}


@pytest.mark.parametrize("stop_after", [3, 10, 13, 25])
def test_training_that_resumes_ends_with_the_same_weights_bit_for_bit(dataset, stop_after):
    torch.set_num_threads(1)
    whole = train(dataset, 3)
    assert whole["losses"][-1] < whole["losses"][0] / 2, "the model did not learn"
    resumed = train(dataset, 3, saved=train(dataset, 3, stop_after=stop_after))
    assert all(torch.equal(whole["model"][name], resumed["model"][name]) for name in whole["model"])


def test_the_example_of_training_resumes_with_the_same_weights(box):
    done = subprocess.run([sys.executable, "-B", ROOT / "examples" / "train.py", "--terrane", TERRANE,
                           "--data", f"/sets/quarters-{os.getpid()}", "--checkpoint", f"/sets/{os.getpid()}.pt"],
                          env=child.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert "uninterrupted: 57 steps" in done.stdout and "resumed: 32 more steps" in done.stdout
    assert "weights are the same" in done.stdout
