#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loaders of tarn.data in Lightning and accelerate: their checkpoints have the
loader's state, and a job that is resumed gets the batches that come next."""
import logging
import os
import shutil
import sys
import warnings

import py_kit as kit

try:
    import torch
except ImportError as e:
    kit.skip_all(f"{e.name} is not installed")
import tarn
import tarn.torch
from tarn import data

BATCH, UNTIL = 6, 60
folder = os.environ["TMPDIR"]
warnings.filterwarnings("ignore")


def dataset():
    return data.Dataset(
        data.Source.tokens(tarn.arange(1000), list(range(0, 1001, 8))), 16,
        windows="packed", seed=3)


def to_torch(batch):
    return {name: tensor.torch() for name, tensor in batch.items()}


def loader(**how):
    return data.Loader(dataset(), BATCH, rank=0, world=1, transform=to_torch,
                       **how)


def tokens(batches):
    return [batch["tokens"].tolist() for batch in batches]


def lightning_test():
    try:
        import lightning
    except ImportError as e:
        return kit.skipped("Lightning", f"{e.name} is not installed")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(17, 1)

        def training_step(self, batch, i):
            seen.append(batch)
            return self.layer(batch["tokens"].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-3)

    def fit(steps, resumed=None):
        """The tokens of the steps, and the trainer."""
        seen.clear()
        trainer = lightning.Trainer(
            max_steps=steps, accelerator="cpu", logger=False,
            enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=folder)
        trainer.fit(Model(), loader(steps=10), ckpt_path=resumed)
        return tokens(seen), trainer

    path = os.path.join(folder, "lightning.ckpt")
    whole = fit(25)[0]
    first, trainer = fit(13)
    trainer.save_checkpoint(path)
    kit.equal(whole, tokens(loader(until=25 * BATCH)),
              "Lightning's epochs of ten steps follow each other")
    kit.equal(first + fit(25, path)[0], whole,
              "one that is resumed within an epoch gets what comes next")
    os.unlink(path)


def accelerate_test():
    try:
        from accelerate import Accelerator, DataLoaderConfiguration
        from torchdata.stateful_dataloader import StatefulDataLoader
    except ImportError as e:
        return kit.skipped("accelerate", f"{e.name} is not installed")
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(
            use_stateful_dataloader=True))
    wanted = tokens(loader(until=UNTIL))

    def prepared(workers):
        return accelerator.prepare(StatefulDataLoader(
            tarn.torch.Batches(dataset(), BATCH, rank=0, world=1, until=UNTIL),
            batch_size=None, num_workers=workers))

    for workers in (0, 2):
        batches = prepared(workers)
        walk = iter(batches)
        first = tokens(next(walk) for _ in range(4))
        state = batches.state_dict()
        del walk, batches
        again = prepared(workers)
        again.load_state_dict(state)
        kit.equal(first + tokens(again), wanted,
                  f"accelerate resumes Batches with {workers} workers")
    batches, path = loader(until=UNTIL), os.path.join(folder, "accelerate")
    accelerator.register_for_checkpointing(batches)
    first = tokens(next(batches) for _ in range(4))
    accelerator.save_state(path)
    rest = tokens(batches)
    kit.equal(first + rest, wanted, "a Loader needs no preparing")
    accelerator.load_state(path)
    kit.equal(tokens(batches), rest, "its state is in accelerate's checkpoint")


lightning_test()
accelerate_test()
for name in os.listdir(folder):  # what these packages keep, too
    left = os.path.join(folder, name)
    shutil.rmtree(left) if os.path.isdir(left) else os.unlink(left)
sys.exit(kit.finish())
