# SPDX-License-Identifier: MIT
"""Batches a second through tarn.torch.DataLoader beside PyTorch's own, with
the same dataset, the same workers and the same batches.

The samples lie in memory, so that what is measured is the loader: collating,
handing over, and what the pages cost. The first batches of an epoch are not
counted; when the very first came, since the iterator was asked for, is told for
itself. Both take turns; what counts is the median of the rounds. CPU is that
of the parent and its workers. The parent looks at one element of a batch.

    python3 py_loader.py [CASE...]      images, digits, detection
"""
import os
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore", ".*This DataLoader will create.*")
try:
    import torch
except ImportError:
    print("torch is not installed: no reference")
    sys.exit(0)
import tarn.torch

ROUNDS = int(os.environ.get("TARN_BENCH_ROUNDS", 5))
TICK = os.sysconf("SC_CLK_TCK")


class Images(torch.utils.data.Dataset):
    """3 x 224 x 224 floats, batches of 32: 18 MiB."""
    batch, batches, warm, wanted = 32, 60, 16, 2.0
    collate = None

    def __init__(self):
        self.samples = torch.rand(16, 3, 224, 224)

    def __len__(self):
        return self.batch * self.batches

    def __getitem__(self, i):
        return self.samples[i % 16], i % 1000


class Digits(Images):
    """1 x 28 x 28 floats, batches of 256: 0.8 MiB."""
    batch, batches, warm, wanted = 256, 200, 20, 1.0

    def __init__(self):
        self.samples = torch.rand(1024, 1, 28, 28)

    def __getitem__(self, i):
        return self.samples[i % 1024], i % 10


class Detection(Images):
    """114 objects: four images, their numbers, 112 arrays of 2 to 3 kB."""
    batch, batches, warm, wanted = 4, 100, 20, 1.6

    def __init__(self):
        self.images = torch.rand(16, 3, 64, 64)
        self.boxes = [[torch.rand(100 + i + j, 5) for j in range(28)]
                      for i in range(16)]

    def __getitem__(self, i):
        return self.images[i % 16], i, self.boxes[i % 16]

    @staticmethod
    def collate(samples):
        return (torch.stack([s[0] for s in samples]),
                torch.tensor([s[1] for s in samples]),
                [box for s in samples for box in s[2]])


CASES = {"images": Images, "digits": Digits, "detection": Detection}


def cpu(pids):
    """Seconds that processes have run."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def measure(kind, dataset, workers):
    """(batches a second, CPU ms a batch, most descriptors, ms until the first
    batch)"""
    loader = kind(dataset, dataset.batch, num_workers=workers,
                  collate_fn=dataset.collate)
    begun = time.perf_counter()
    iterator, most = iter(loader), 0
    pids = [os.getpid(), *(w.pid for w in iterator._workers)]
    next(iterator)
    first = time.perf_counter() - begun
    for _ in range(dataset.warm - 1):
        next(iterator)
    begun, before = time.perf_counter(), cpu(pids)
    count, last = dataset.batches - dataset.warm - 2 * workers, 0.
    for _ in range(count):
        batch = next(iterator)
        last += float(batch[0].view(-1)[-1])
    seconds, used = time.perf_counter() - begun, cpu(pids) - before
    most = len(os.listdir("/proc/self/fd"))
    return count / seconds, used / count * 1e3, most, first * 1e3


def compare(name, dataset, workers):
    kinds = {"torch": torch.utils.data.DataLoader,
             "tarn": tarn.torch.DataLoader}
    seen = {who: [] for who in kinds}
    for _ in range(ROUNDS):
        for who, kind in kinds.items():
            seen[who].append(measure(kind, dataset, workers))
    rate, used, most, first = {}, {}, {}, {}
    for who, rounds in seen.items():
        columns = list(zip(*rounds))
        rate[who] = statistics.median(columns[0])
        used[who] = statistics.median(columns[1])
        most[who] = max(columns[2])
        first[who] = statistics.median(columns[3])
        print(f"{name}, {workers} worker{'s'[:workers > 1]}: {who:5} "
              f"{rate[who]:8.1f} batches/s, {used[who]:6.2f} ms of CPU each, "
              f"{most[who]} descriptors, the first after {first[who]:.0f} ms")
    print(f"{name}, {workers} worker{'s'[:workers > 1]}: "
          f"{rate['tarn'] / rate['torch']:.2f} x (wanted: "
          f"{dataset.wanted:.1f}), {used['tarn'] / used['torch']:.2f} of the "
          f"CPU, the first after {first['tarn'] / first['torch']:.2f} of the "
          "time", flush=True)


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        dataset = CASES[name]()
        for workers in (1, 2, 4):
            compare(name, dataset, workers)


if __name__ == "__main__":
    main()
