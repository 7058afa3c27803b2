# SPDX-License-Identifier: MIT
"""What a training job is fed with: samples in any order, resumed exactly, on any
number of ranks.

    from tarn import data

    corpus = data.Dataset("corpus_text_document", seq_len=4096, seed=42)
    loader = data.Loader(corpus, global_batch=512, shared="train")
    for batch in loader:                    # this rank's part of each step
        tokens = batch["tokens"].torch()    # [n, 4097], a view
        ...
        state = loader.state_dict()         # for the checkpoint

What comes at a position of the global order depends on the configuration and
the position alone. So the state of a job is one number beside the
configuration's hash, and a job that was saved with 8 ranks goes on with 6, none
of its samples twice and none missing, also where sources are mixed and
documents are packed.

Records, of tar shards (WebDataset's), columns and Arrow files, are samples, too:

    images = data.Dataset([["a-0.tar", "a-1.tar"], "b.tar"], weights=[3, 1])
    loader = data.Loader(images, 256, transform=decode, per="sample", workers=8)

    def decode(record):                     # in a worker process
        return {"image": load_jpeg(memoryview(record["jpg"])),
                "label": int(bytes(record["cls"]))}

A Dataset is sources, cut into samples; a Loader gives their batches, read ahead,
and once for all ranks of a node; with transform and workers they are made in
worker processes. man tarn-data has the idea; tarn data cat prints what a rank
gets. tarn.torch.data has a dataset for PyTorch's own loaders.
"""
from . import _tarn
from ._data_cache import Cache
from ._data_collate import collate
from ._data_loader import Loader
from ._data_records import Record, arrow
from ._dataset import Dataset, PythonSource, sample_seed

Source = _tarn._Source


def order(seed, epoch, n, g):
    """The sample at position g of an epoch of n samples (up to 2^63), all of
    which are shuffled: a function of these numbers alone, without a table."""
    return _tarn._data_order(seed, epoch, n, g)


def rank_part(global_batch, rank, world):
    """(first, n): a rank takes the n positions from first on of each global
    batch. All parts are as large as each other, or one larger, and together,
    in the order of ranks, they are the batch."""
    return _tarn._data_rank_part(global_batch, rank, world)


__all__ = ["Cache", "Dataset", "Loader", "PythonSource", "Record", "Source",
           "arrow", "collate", "order", "rank_part", "sample_seed"]
