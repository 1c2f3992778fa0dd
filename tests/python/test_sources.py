# SPDX-License-Identifier: Apache-2.0
"""Filters, mixes and buckets of the loader: what is read, in which order, and that states resume."""
import itertools
import os
import pickle

import numpy
import pytest
import terrane

SIZES = {"a": 300, "b": 100}  # samples of the data sets


@pytest.fixture(scope="module")
def sets(box, cluster, tmp_path_factory):
    """Two data sets: sample i of "a" has the label even or odd and i bytes, those of "b" the label even or new."""
    opened = {}
    for name, count in SIZES.items():
        folder = tmp_path_factory.mktemp(name)
        for i in range(count):
            label = "even" if i % 2 == 0 else "odd" if name == "a" else "new"
            (folder / label).mkdir(exist_ok=True)
            (folder / label / f"{name}{i}").write_bytes(f"{name}{i}".encode() + bytes(i))
        path = f"/sets/sources-{os.getpid()}-{name}"
        box("dataset", "build", folder, path, "--block", "64KiB")
        opened[name] = terrane.Dataset(path, cluster=cluster)
    return opened


def numbers(loader):
    return [batch.samples.tolist() for batch in loader]


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


# --- selections

def test_a_filter_gives_the_samples_that_it_chooses_each_once_in_an_epoch(sets):
    data = sets["a"]
    even = data.filter(lambda entries: entries["label"] == data.labels.index("even"))
    assert len(even) == 150 and even.path == data.path
    for world in (1, 3):
        seen = flat(itertools.chain.from_iterable(
            numbers(terrane.Loader(even, 16, seed=5, rank=rank, world=world)) for rank in range(world)))
        assert sorted(seen) == even.samples.tolist()
    assert bytes(even[3].data) == bytes(data[int(even.samples[3])].data)
    assert even.read([0, 149]).samples.tolist() == [even.samples[0], even.samples[149]]


def test_a_selection_is_sorted_and_has_its_own_states(sets):
    data = sets["a"]
    one, two = data.select([5, 3, 5, 200]), data.select([3, 5, 201])
    assert one.samples.tolist() == [3, 5, 200] and pickle.loads(pickle.dumps(one)).fingerprint == one.fingerprint
    state = terrane.Loader(one, 2).state_dict()
    terrane.Loader(data.select([200, 5, 3]), 2).load_state_dict(state)
    for other in (two, data):
        with pytest.raises(ValueError, match="another data set or version"):
            terrane.Loader(other, 2).load_state_dict(state)


def test_wrong_selections_are_refused(sets):
    data = sets["a"]
    with pytest.raises(ValueError, match="no sample of"):
        data.filter(lambda entries: entries["size"] > 1 << 40)
    with pytest.raises(IndexError, match="300"):
        data.select([300])
    for keep in (lambda entries: entries["label"], lambda entries: True, lambda entries: numpy.ones(3, bool)):
        with pytest.raises(TypeError, match="array of bool"):
            data.filter(keep)


# --- mixes

def test_a_mix_has_its_weights_and_reads_each_source_evenly(sets):
    mix = terrane.Mix([sets["a"], sets["b"]], [3, 1], samples=2048)
    for order in ("sequential", "window", "global"):
        seen = numpy.array(flat(numbers(terrane.Loader(mix, 100, seed=1, order=order))))
        first, second = seen[seen < 300], seen[seen >= 300] - 300
        assert len(first) == 1536 and len(second) == 512
        assert {int(n) for n in numpy.bincount(first)} == {5, 6}  # 1,536 of 300: each five or six times
        assert {int(n) for n in numpy.bincount(second)} == {5, 6}
    share = (numpy.array(flat(numbers(terrane.Loader(mix, 64)))[:1024]) < 300).sum()
    assert share == 768  # in each period exactly


def test_the_samples_of_a_mix_are_those_of_its_sources(sets):
    mix = terrane.Mix([sets["a"], sets["b"].filter(lambda entries: entries["label"] == 1)])
    assert len(mix) == 350 and mix.labels == ["even", "odd", "new"]
    for batch in terrane.Loader(mix, 50, seed=2):
        assert batch.dataset is mix
        for sample in batch:
            source, number = mix.source_of(sample.number)
            dataset = source if isinstance(source, terrane.Dataset) else source.dataset
            assert bytes(sample.data) == bytes(dataset[number].data)
            assert mix.labels[sample.label] == dataset.labels[dataset[number].label]


def test_a_mix_goes_on_where_it_was_with_other_ranks(sets):
    mix = terrane.Mix([sets["a"], sets["b"]], [1, 1])
    whole = flat(numbers(terrane.Loader(mix, 10, seed=3)))
    loader = terrane.Loader(mix, 10, seed=3)
    first = flat(batch.samples.tolist() for batch in itertools.islice(loader, 13))
    rest = []
    for rank in range(3):
        other = terrane.Loader(mix, 7, rank=rank, world=3)
        other.load_state_dict(loader.state_dict())
        rest += flat(numbers(other))
    assert sorted(first + rest) == sorted(whole)
    loader.set_epoch(1)
    assert flat(numbers(loader)) != whole
    with pytest.raises(ValueError, match="another data set"):
        terrane.Loader(terrane.Mix([sets["a"], sets["b"]], [1, 2]), 10).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("weights, samples, text", [
    ([1], None, "a weight above 0 for each"), ([1, 0], None, "above 0"), ([1, 5000], None, "less than 1/1024"),
    ([1, 1], 0, "samples must be"),
])
def test_wrong_mixes_are_refused(sets, weights, samples, text):
    with pytest.raises(ValueError, match=text):
        terrane.Mix([sets["a"], sets["b"]], weights, samples=samples)
    with pytest.raises(TypeError):
        terrane.Mix([sets["a"], "/b"])
    with pytest.raises(IndexError):
        terrane.Mix([sets["a"]]).source_of(300)


# --- buckets

def spread(batches):
    return sum(int(batch.entries["size"].max()) - int(batch.entries["size"].min()) for batch in batches) / len(batches)


def test_buckets_give_batches_of_about_the_same_length(sets):
    plain, sorted_ = (list(terrane.Loader(sets["a"], 10, seed=4, bucket=bucket)) for bucket in (0, 150))
    assert sorted(flat(batch.samples.tolist() for batch in sorted_)) == list(range(300))
    assert spread(sorted_) < 30 < 150 < spread(plain)
    lengths = [float(batch.entries["size"].mean()) for batch in sorted_[:15]]
    assert lengths != sorted(lengths)  # the batches of a bucket are shuffled
    negative = list(terrane.Loader(sets["a"], 10, seed=4, bucket=150, bucket_key=lambda entries: entries["label"]))
    assert sum(len(set(batch.labels.tolist())) == 1 for batch in negative) > 25


def test_ranks_share_the_steps_of_buckets(sets):
    ranks = [list(terrane.Loader(sets["a"], 10, seed=4, bucket=150, rank=rank, world=3)) for rank in range(3)]
    assert sorted(flat(batch.samples.tolist() for rank in ranks for batch in rank)) == list(range(300))
    for step in zip(*ranks, strict=True):
        sizes = [int(size) for batch in step for size in batch.entries["size"]]
        assert max(sizes) - min(sizes) < 90  # about 30 of 150 samples whose lengths are spread over 300


def test_buckets_go_on_where_they_were_with_other_ranks_and_batches(sets):
    loader = terrane.Loader(sets["a"], 10, seed=4, bucket=150)
    first = flat(batch.samples.tolist() for batch in itertools.islice(loader, 7))
    rest = []
    for rank in range(2):
        other = terrane.Loader(sets["a"], 8, bucket=64, rank=rank, world=2)
        other.load_state_dict(loader.state_dict())
        rest += flat(numbers(other))
    assert sorted(first + rest) == list(range(300))
    for wrong in (terrane.Loader(sets["a"], 10), terrane.Loader(sets["a"], 10, bucket=50)):
        state = {**loader.state_dict(), **({"run": 7} if wrong._bucket else {})}
        with pytest.raises(ValueError, match="buckets|impossible"):
            wrong.load_state_dict(state)


def test_wrong_buckets_are_refused(sets):
    for options in ({"bucket": -1}, {"bucket": 1.5}, {"bucket_key": len}):
        with pytest.raises(ValueError, match="bucket"):
            terrane.Loader(sets["a"], 10, **options)
    with pytest.raises(TypeError, match="array with an element"):
        list(terrane.Loader(sets["a"], 10, bucket=50, bucket_key=len))
