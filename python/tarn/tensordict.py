# SPDX-License-Identifier: MIT
"""TensorDicts whose rows are in the store: memory that many processes read and
write, and replay buffers in it.

    from tarn.tensordict import Storage, Writer     # for torchrl
    rb = TensorDictReplayBuffer(storage=Storage(1_000_000, "replay"),
                                writer=Writer(), batch_size=256)
    rb.extend(rollout)                   # in as many actors as you like
    batch = rb.sample()                  # in the learner

    td = tarn.tensordict.create("table", row, 100_000)  # without torchrl
    td[7], td[8:10] = row, rows          # and in any other process
    tarn.tensordict.open("table")[7]     # is the same memory

A leaf of a TensorDict is a tensor of the store: store["table/next/obs"] is
td["next", "obs"]. It needs tensordict, and Storage and Writer need torchrl.
"""
from . import _td_rows

__all__ = ["Storage", "Writer", "create", "open"]


def __getattr__(name):
    if name in ("Storage", "Writer"):
        from . import _td_storage  # which brings torchrl
        return getattr(_td_storage, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def create(name, example, length, *, store=None):
    """A TensorDict of length rows like example, all 0, whose leaves are in the
    store's memory: what is written to them, td[i] = row, td[i:j] = rows or
    td["key"][i] = value, all processes see that open() it.

    example is one row: a TensorDict, a dict of tensors, or a spec of torchrl;
    its values do not matter. The TensorDict is locked: keys cannot be added.
    Its memory is taken now, and stays until the names end:
    store.publish({}, replace="NAME/"). multiprocessing sends its leaves by
    reference. Nothing orders the writes of several processes: a reader may find
    a row half written, and rows that a process was writing when it died stay
    so. Storage has rows that are whole.

    FileExistsError: there is one of that name. TypeError: a value is no tensor,
    or of a dtype that the store has not. MemoryError: there is no room.
    ValueError: length is less than 1, or there is no tensor. Any thread."""
    spec = _td_rows.Spec.of(example, length)
    return _td_rows.make(_td_rows.store_of(store), _td_rows.checked_name(name),
                         spec).td


def open(name, example=None, length=None, *, store=None):
    """The TensorDict that create() made, or the rows of a Storage, in this or
    another process; locked, and over the same memory. With example and length,
    ValueError says what of it is otherwise.

    NotFoundError: there is none of that name. PermissionError: this user may
    only read it. Any thread."""
    found = _td_rows.open_rows(_td_rows.store_of(store),
                               _td_rows.checked_name(name))
    if example is not None:
        _td_rows.check(found, _td_rows.Spec.of(
            example, found.length if length is None else length))
    elif length is not None and length != found.length:
        raise ValueError(f"{name!r} has {found.length} rows, not {length}")
    return found.td
