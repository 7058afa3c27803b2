# SPDX-License-Identifier: MIT
"""A tarn.data.Dataset in PyTorch's own loaders."""
from torch.utils.data import IterableDataset, get_worker_info

from .._data_loader import Plan, Work, _ranks
from .._dataset import parts_of


def _to_torch(value):
    if hasattr(value, "torch"):
        return value.torch()
    if isinstance(value, dict):
        return {key: _to_torch(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_to_torch(part) for part in value)
    return value


class Batches(IterableDataset):
    """The batches of a rank, for a loader of PyTorch's that makes none itself:

        batches = tarn.torch.Batches(dataset, global_batch=512)
        loader = torch.utils.data.DataLoader(batches, batch_size=None,
                                             num_workers=4)

    They are dicts of PyTorch's tensors, in the same order for any number of
    workers, each of which reads its own: worker w of W has the steps w, w + W
    and so on. rank, world, store, until, the parts of a batch, decode, cache,
    transform, per and collate are tarn.data.Loader's, which reads ahead in C and
    can share what it reads; this is for programs whose loader must be PyTorch's.

    An iteration begins at position, which is from_ until it is set: a job that
    counts its steps goes on with any number of ranks and workers by
    batches.position = steps * 512. state_dict and load_state_dict are what
    torchdata's StatefulDataLoader asks for, of each worker: its states are of a
    loader with as many workers."""

    def __init__(self, dataset, global_batch, *, rank=None, world=None,
                 from_=0, until=None, positions=False, segments=False,
                 cu_seqlens=False, document=False, transform=None, per="batch",
                 collate=None, decode=None, cache=None, store=None):
        super().__init__()
        if (rank is None) != (world is None):
            raise ValueError("Batches: rank and world are given both, or "
                             "neither")
        if rank is None:
            rank, world = _ranks()[:2]
        self.dataset, self.position = dataset, from_
        self._plan = Plan(global_batch, rank, world, until)
        self._parts = dict(positions=positions, segments=segments,
                           cu_seqlens=cu_seqlens, document=document)
        if dataset._item and parts_of(**self._parts):
            raise ValueError("Batches: records and items of Python have no "
                             "positions, segments, cu_seqlens and document")
        self._work = Work(dataset, transform, per, collate, decode, cache,
                          store, parts_of(**self._parts))
        self._next = from_  # the position of this copy's next batch
        self._resumed = None  # the worker and the position of a state

    def _read(self, first, n):
        batch = None if self.dataset._item else self.dataset.batch(
            range(first, first + n), **self._parts)
        return _to_torch(self._work(first, n, batch))

    def _skip(self, g, n):
        """The position n steps after g, or where the end is."""
        for _ in range(n):
            step = self._plan.at(g)
            if step is None:
                break
            g = step[2]
        return g

    def __iter__(self):
        info = get_worker_info()
        turn, workers = (0, 1) if info is None else (info.id, info.num_workers)
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            g = self._skip(self.position, turn)  # the others' first ones
        elif resumed[:2] == (turn, workers):
            g = resumed[2]
        else:
            raise ValueError(
                f"Batches: the state is of worker {resumed[0]} of {resumed[1]}, "
                f"and this is worker {turn} of {workers}; set position instead")
        self._next = g
        try:
            while (step := self._plan.at(g)) is not None:
                batch = self._read(*step[:2])
                g = self._next = self._skip(g, workers)
                yield batch
        finally:
            self._work.flush()

    def state_dict(self):
        """The position of this worker's next batch, and the configuration."""
        info = get_worker_info()
        return {"data": self.dataset.state(self._next),
                "worker": 0 if info is None else info.id,
                "workers": 1 if info is None else info.num_workers}

    def load_state_dict(self, state):
        """The next iteration begins there. ValueError: the state is of another
        configuration."""
        self._next = self.dataset.resume(state["data"])
        self._resumed = state["worker"], state["workers"], self._next
