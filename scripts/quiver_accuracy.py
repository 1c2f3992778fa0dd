# SPDX-License-Identifier: Apache-2.0
"""Accuracy under order contracts: real trainings of small networks on generated data, for ./dev bench quiver --accuracy.

Images: ten classes, 8 x 8 pixels, a small CNN. The data set is packed shuffled, as `terrane dataset build` does, or sorted by
class, the hostile case. Sequences: four classes, 8 to 64 symbols, sorted by length; batches are padded to their longest
sequence, so samples of like length should be together: buckets.

The orders are those of terrane.Loader (terrane._order): global shuffle, and windows of 10%. `contiguous` is what Terrane does
not do: a window is a tenth of the data set from one place.
"""
import math
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor

from common import BUILD

IMAGES, SEQUENCES, UNIT = 81920, 40960, 1024  # UNIT: samples of a stripe, ORDER_UNIT of src/dataset/order.h
BATCH, SHARE = 128, 100_000  # of a window, in millionths
NOMINAL = 65536  # bytes of a sample, as far as windows depend on it
T_95 = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # Student's, two sides


def orders():
    """Name -> Order of the loader."""
    from terrane._order import GLOBAL, WINDOW, Order
    return {"global": Order(GLOBAL), "windows": Order(WINDOW, 0, SHARE),
            "windows, buckets": Order(WINDOW, UNIT, SHARE)}


def epoch_order(name, samples, seed, epoch):
    """The places of the samples of an epoch, in the order of reading."""
    import numpy
    from terrane._order import positions
    if name == "contiguous":
        window = samples // 10
        rng = numpy.random.default_rng((seed, epoch))
        return numpy.concatenate([rng.permutation(window) + w * window for w in range(10)])
    return positions(samples, samples * NOMINAL, orders()[name], seed, epoch, 0, samples).astype(numpy.int64)


def images(torch, count, generator):
    """Images of ten classes in equal numbers: a smooth shape of the class, moved by a pixel or two, and noise."""
    shapes = torch.nn.functional.interpolate(torch.randn(10, 1, 3, 3, generator=torch.Generator().manual_seed(1)), size=(8, 8),
                                             mode="bilinear")
    labels = torch.arange(count) % 10
    pixels = shapes[labels]
    for axis in (2, 3):
        moves = torch.randint(-1, 2, (count,), generator=generator)
        for move in (-1, 1):
            pixels[moves == move] = pixels[moves == move].roll(move, axis)
    return pixels + 1.3 * torch.randn(pixels.shape, generator=generator), labels


def sequences(torch, count, generator):
    """Sequences of four classes, sorted by length: walks through 16 symbols, whose steps depend on the class."""
    lengths = torch.randint(8, 65, (count,), generator=generator).sort().values
    labels = torch.randint(0, 4, (count,), generator=generator)
    steps = torch.rand(4, 16, 16, generator=torch.Generator().manual_seed(2)).pow(2)
    steps /= steps.sum(-1, keepdim=True)
    symbols = torch.zeros(count, 64, dtype=torch.long)
    symbols[:, 0] = torch.randint(0, 16, (count,), generator=generator)
    for i in range(1, 64):
        symbols[:, i] = torch.multinomial(steps[labels, symbols[:, i - 1]], 1, generator=generator)[:, 0]
    return symbols, lengths, labels


def image_net(torch):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))


def fit(torch, model, forward, labels, order_of, epochs, rate):
    """Trains for some epochs with SGD; the rate falls to 0 in a straight line."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    steps = epochs * (len(labels) // BATCH)
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(1 - step / steps, 0))
    for epoch in range(epochs):
        for chosen in torch.from_numpy(order_of(epoch)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(forward(chosen), labels[chosen]).backward()
            optimizer.step()
            plan.step()


def train_images(packing, order, seed):
    """Returns the accuracy in percent on images that were not trained on."""
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    data, labels = images(torch, IMAGES, torch.Generator().manual_seed(100 + seed))
    test, truth = images(torch, 10000, torch.Generator().manual_seed(99))
    place = labels.sort(stable=True).indices if packing == "sorted" else \
        torch.randperm(IMAGES, generator=torch.Generator().manual_seed(seed))
    data, labels = data[place], labels[place]
    model = image_net(torch)
    fit(torch, model, lambda chosen: model(data[chosen]), labels, lambda epoch: epoch_order(order, IMAGES, seed, epoch), 3, 0.05)
    with torch.no_grad():
        return 100 * (model(test).argmax(1) == truth).double().mean().item(), 0.0


def sequence_net(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.symbols, self.steps, self.out = nn.Embedding(16, 16), nn.Conv1d(16, 32, 2), nn.Linear(32, 4)

        def forward(self, symbols, lengths):
            found = torch.relu(self.steps(self.symbols(symbols).transpose(1, 2)))
            inside = (torch.arange(found.shape[2]) < (lengths - 1)[:, None])[:, None]
            return self.out((found * inside).sum(2) / (lengths - 1)[:, None])
    return Net()


def train_sequences(_, order, seed):
    """Returns the error rate in percent, and the share of padding in what was computed."""
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    data, lengths, labels = sequences(torch, SEQUENCES, torch.Generator().manual_seed(100 + seed))
    test, test_lengths, truth = sequences(torch, 10000, torch.Generator().manual_seed(99))
    model = sequence_net(torch)
    computed = 0

    def forward(chosen):
        nonlocal computed
        longest = int(lengths[chosen].max())
        computed += longest * len(chosen)
        return model(data[chosen, :longest], lengths[chosen])
    epochs = 4
    fit(torch, model, forward, labels, lambda epoch: epoch_order(order, SEQUENCES, seed, epoch), epochs, 0.5)
    with torch.no_grad():
        wrong = 100 * (model(test, test_lengths).argmax(1) != truth).double().mean().item()
    return wrong, 100 * (1 - epochs * int(lengths.sum()) / computed)


CASES = [(train_images, "shuffled", "global"), (train_images, "shuffled", "windows"),
         (train_images, "sorted", "global"), (train_images, "sorted", "windows"), (train_images, "sorted", "contiguous"),
         (train_sequences, "by length", "global"), (train_sequences, "by length", "windows"),
         (train_sequences, "by length", "windows, buckets"), (train_sequences, "by length", "contiguous")]


def interval(values):
    """Mean and half of its confidence interval of 95%."""
    return statistics.mean(values), T_95[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


def start(path):
    sys.path.insert(0, path)


def accuracy(seeds):
    """Yields (what, packing, order, mean, half interval, padding) of each case."""
    python = str(BUILD / "release" / "python")
    if seeds not in T_95:
        sys.exit("--seeds: must be from 3 to 10")
    with ProcessPoolExecutor(2, initializer=start, initargs=(python,)) as pool:
        runs = {case: [pool.submit(case[0], case[1], case[2], seed) for seed in range(1, seeds + 1)] for case in CASES}
        for (train, packing, order), started in runs.items():
            results = [run.result() for run in started]
            mean, half = interval([value for value, _ in results])
            what = "images, accuracy" if train is train_images else "sequences, error rate"
            yield what, packing, order, mean, half, statistics.mean(padding for _, padding in results)
