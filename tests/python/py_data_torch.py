#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Datasets of tarn.data in the loaders of others: PyTorch's DataLoader, whose
workers have the batches that tarn.data.Loader gives, torchdata's
StatefulDataLoader, which resumes them, and Grain; ranks are
torch.distributed's."""
import os
import sys

import py_kit as kit

try:
    import numpy  # noqa: F401, tensors become arrays of it
    import torch
    from torch.utils.data import DataLoader
except ImportError as e:
    kit.skip_all(f"{e.name} is not installed")
import tarn
import tarn.torch
from tarn import data

BATCH, UNTIL = 6, 47


def make(seed=9):
    return data.Dataset(
        data.Source.tokens(tarn.arange(1000), list(range(0, 1001, 8))), 16,
        windows="packed", seed=seed)


class Items:
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return {"x": i, "y": torch.tensor([i, i])}


def double(batch, seeds):
    return {"x": batch["tokens"].torch() * 2, "seeds": seeds}


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def main():
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))
    ranks(faces())
    daemon.terminate()
    daemon.wait()
    return kit.finish()


def faces():
    dataset = make()
    wanted = [plain(dataset.batch(range(g, min(g + BATCH, UNTIL)),
                                  segments=True))
              for g in range(0, UNTIL, BATCH)]
    for workers in (0, 1, 3):
        batches = tarn.torch.Batches(dataset, BATCH, rank=0, world=1,
                                     until=UNTIL, segments=True)
        loader = DataLoader(batches, batch_size=None, num_workers=workers)
        seen = list(loader)
        kit.equal([plain(b) for b in seen], wanted,
                  f"{workers} workers: the batches in order")
        kit.equal([plain(b) for b in loader], wanted, f"{workers}: and again")
        kit.ok(all(isinstance(b["tokens"], torch.Tensor) for b in seen),
               f"{workers}: of PyTorch's tensors")
        batches.position = 2 * BATCH
        kit.equal([plain(b) for b in loader], wanted[2:],
                  f"{workers}: from a position")
        parts = [[plain(b) for b in DataLoader(
            tarn.torch.Batches(dataset, BATCH, rank=r, world=2, until=UNTIL,
                               segments=True),
            batch_size=None, num_workers=workers)] for r in range(2)]
        kit.equal([{k: a[k] + b[k] for k in a} for a, b in zip(*parts)],
                  wanted, f"{workers}: two ranks have them together")
    doubled = [plain(b) for b in DataLoader(
        tarn.torch.Batches(dataset, BATCH, rank=0, world=1, until=UNTIL,
                           transform=double), batch_size=None, num_workers=2)]
    kit.equal([b["x"] for b in doubled],
              [[[2 * t for t in row] for row in b["tokens"]] for b in wanted],
              "a transform runs in the workers")
    kit.equal(sum((b["seeds"] for b in doubled), []),
              [data.sample_seed(9, g) for g in range(UNTIL)],
              "with the seeds of the samples")
    batches = tarn.torch.Batches(dataset, BATCH, rank=0, world=1, until=UNTIL,
                                 segments=True)
    walk = iter(batches)
    for _ in range(3):
        next(walk)
    other = tarn.torch.Batches(dataset, BATCH, rank=0, world=1, until=UNTIL,
                               segments=True)
    other.load_state_dict(batches.state_dict())
    kit.equal([plain(b) for b in other], wanted[3:],
              "a state is resumed without workers")
    kit.raises(ValueError, "both", "a rank without a world is refused",
               tarn.torch.Batches, dataset, BATCH, rank=1)
    kit.raises(ValueError, "seed", "one of another configuration is not",
               tarn.torch.Batches(make(5), BATCH, rank=0, world=1)
               .load_state_dict, batches.state_dict())
    try:
        from torchdata.stateful_dataloader import StatefulDataLoader
    except ImportError as e:
        kit.skipped("StatefulDataLoader", f"{e.name} is not installed")
    else:
        for workers in (0, 2):
            def loader_of(number=workers):
                return StatefulDataLoader(
                    tarn.torch.Batches(dataset, BATCH, rank=0, world=1,
                                       until=UNTIL, segments=True),
                    batch_size=None, num_workers=number)

            loader = loader_of()
            walk = iter(loader)
            before = [plain(next(walk)) for _ in range(4)]
            state = loader.state_dict()
            del walk, loader
            again = loader_of()
            again.load_state_dict(state)
            kit.equal(before + [plain(b) for b in again], wanted,
                      f"StatefulDataLoader resumes {workers} workers")

    # ---- a dataset with positions ----
    loader = DataLoader(dataset, batch_size=5, num_workers=2)
    seen = [plain(b) for b in loader]
    kit.equal(sum((b["tokens"] for b in seen), []),
              [s["tokens"].tolist() for s in dataset],
              "a dataset is one of PyTorch's, whose order is its own")
    items = data.Dataset(Items(), seed=3)
    with data.Loader(items, 8, rank=0, world=1, workers=1) as loader:
        batch = next(loader)
    kit.equal([[x, x] for x in plain(batch["x"])], plain(batch["y"]),
              "PyTorch's tensors in items are collated")
    collate = torch.utils.data.default_collate
    with data.Loader(items, 8, rank=0, world=1, collate=collate) as loader:
        kit.equal(plain(next(loader)["y"]), plain(batch["y"]),
                  "or by PyTorch's own function")
    try:
        from grain import python as grain
    except ImportError as e:
        kit.skipped("Grain", f"{e.name} is not installed")
    else:
        kit.ok(isinstance(dataset, grain.RandomAccessDataSource),
               "Grain takes it for a source")
        walk = grain.MapDataset.source(dataset).map(
            lambda sample: sample["tokens"].numpy()).batch(4)
        kit.equal(walk[1].tolist(),
                  dataset.batch(range(4, 8))["tokens"].tolist(),
                  "and reads its samples")

    return dataset


def ranks(dataset):
    if not torch.distributed.is_available():
        kit.skipped("torch.distributed", "this PyTorch has none")
        return
    torch.distributed.init_process_group(
        "gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    os.environ.update(RANK="3", WORLD_SIZE="4")
    loader = data.Loader(dataset, 8)
    kit.equal((loader.rank, loader.world), (0, 1),
              "ranks are those of torch.distributed")
    torch.distributed.destroy_process_group()
    loader = data.Loader(dataset, 8)
    kit.equal((loader.rank, loader.world), (3, 4), "else torchrun's")


if __name__ == "__main__":
    sys.exit(main())
