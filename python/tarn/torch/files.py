# SPDX-License-Identifier: MIT
"""Files of tensors as PyTorch's users know them from safetensors.torch: the
same calls, and one disk read for all processes of a machine."""
from collections.abc import Mapping

import torch

from .. import _conversions, _parts, _safetensors, _store
from . import devices


def load_file(filename, device="cpu", *, backend="mmap", views=None,
              via="file", group=None, name=None, node=None, store=None,
              timeout=300):
    """The tensors of a file (safetensors, .npy, or the index of a sharded
    checkpoint) as a dict of PyTorch's, loaded once for all processes that ask
    for it. They are copy-on-write: what is written to them stays in them, see
    tarn.Tensor.cow. A device other than the CPU gets a copy.
    backend is one of safetensors' names, which mean the same here.
    SafetensorError: it is no such file.

    A GPU reads the file itself, without a daemon, into memory of tarn's: one
    piece, of which the tensors are views, and which torch.cuda's statistics do
    not count. It stays as long as one of them does. RuntimeError: PyTorch has
    no CUDA.

    views loads parts of tensors, such as {"wte": "[0:512]"}, and via="host"
    copies them from memory that all processes share, so that many of them,
    each with a device and a part, read the file once: see tarn.load.

    group, a process group of torch.distributed that has gloo, loads the file on
    several nodes at once: all its ranks call this. Ranks with the same store
    are a node; each node reads a part of the file and gets the rest from the
    others, and then publishes all tensors as the set name, the file's absolute
    path without the first slash. A later call finds the set and reads nothing.
    Tensors of which no rank of a node has a view, since views says None, are
    neither sent to that node nor in its set, and those of which no rank at all has
    one are not read: so each node gets the experts, or the layers, of its ranks.
    store is this rank's, the default one by default; node tells nodes apart
    that have one host name. After timeout seconds every rank that still waits
    raises TimeoutError; ConnectionError: a rank has ended; ValueError: the nodes'
    files differ; OSError: what went wrong on another rank. No set is published
    then, except whole ones. The group cannot be used after the first two. See
    tarn-nodes(7)."""
    _safetensors.check_backend(backend)
    device = devices.checked(device, "load_file")  # a wrong one comes first
    if group is not None:
        return _moved(_load_together(filename, group, views, name=name,
                                     node=node, store=store, timeout=timeout),
                      device)
    with _safetensors.errors():
        if devices.is_reached(device):
            loaded = _store.load(filename, device=str(device), views=views,
                                 via=via)
        else:
            loaded = _store.load(filename, via=via).own()
            if views is not None:
                loaded = loaded.parts(views)
    return _moved(loaded, device)


class _Together(dict):
    """The tensors that a group has loaded."""

    def torch(self):
        return _conversions.each(self, _conversions.to_torch)


def _load_together(filename, group, views, **options):
    from . import nodes  # torch.distributed takes a while to import

    found, _ = nodes.load(filename, group, views=views, **options)
    if isinstance(views, Mapping):
        views = {name: v for name, v in views.items() if name in found}
    return _Together(found if views is None else
                     _parts.views_of(found, views))


def load(data, device="cpu"):
    """The same of the bytes of such a file, without a daemon."""
    device = devices.checked(device, "load")
    file = _safetensors.open_bytes(data)
    if devices.is_reached(device):
        file = _store.load_to(file, str(device))
    return _moved(file, device)


def _moved(tensors, device):
    """As PyTorch's; .to does nothing for what is there."""
    found = tensors.torch()
    if device.type == "cpu":
        return found
    return {name: t.to(device) for name, t in found.items()}


def save_file(tensors, filename, metadata=None, *, background=False,
              shard_bytes=None):
    """Saves a dict of PyTorch's tensors as a safetensors file, whole or not at
    all; metadata is a dict of strings. The tensors need not be contiguous, nor
    on the CPU. As safetensors does, it refuses tensors whose bytes overlap,
    since they would no longer be tied in the file. background copies them, once,
    also from a device, and returns a tarn.Saving; and an index has shards: see
    tarn.save."""
    _check(tensors)
    # What is saved in the background is copied anyway, from where it is.
    return _store.save(filename, _plain(tensors, not background), metadata,
                       background=background, shard_bytes=shard_bytes)


def save(tensors, metadata=None):
    """The bytes of the file that save_file makes."""
    _check(tensors)
    return _safetensors.save_bytes(_plain(tensors, True), metadata)


def _plain(tensors, on_cpu):
    """Without gradients, and moved to the CPU, or where they are."""
    found = {name: t.detach() for name, t in tensors.items()}
    return {name: t.cpu() for name, t in found.items()} if on_cpu else found


def _check(tensors):
    """ValueError or RuntimeError: they cannot be saved."""
    if not isinstance(tensors, dict):
        raise ValueError("save_file: a dict of names and tensors is wanted, "
                         f"not {type(tensors).__name__}")
    for name, t in tensors.items():
        if not isinstance(t, torch.Tensor):
            raise ValueError(f"save_file: {name!r} is no tensor but "
                             f"{type(t).__name__}")
        if t.layout != torch.strided:
            raise ValueError(f"save_file: {name!r} is {t.layout}; "
                             "use .to_dense()")
    _refuse_overlaps(tensors)


# ---- modules ----


def _is_dense(t):
    return t.layout == torch.strided and t.numel() > 0 and \
        t.device.type != "meta"


def _groups(state):
    """The names of a state dict whose tensors share memory: tied parameters,
    and views of one."""
    ranges = sorted(((str(t.device), *_range(t), name)
                     for name, t in state.items() if _is_dense(t)),
                    key=lambda r: (r[0], r[1], -r[2], r[3]))
    groups, end = [], None
    for device, start, stop, name in ranges:
        if end is not None and end[0] == device and start < end[1]:
            groups[-1].append((start, stop, name))
            end = device, max(end[1], stop)
        else:
            groups.append([(start, stop, name)])
            end = device, stop
    return [g for g in groups if len(g) > 1]


def _left_out(state, preferred=()):
    """Which names of tensors that share memory are left out of a file, and for
    which one: that has all of the memory; of several the first in the
    alphabet, or one that is preferred."""
    out = {}
    for group in _groups(state):
        start = min(g[0] for g in group)
        stop = max(g[1] for g in group)
        whole = sorted(name for a, b, name in group
                       if (a, b) == (start, stop) and
                       _is_packed(state[name]))
        if not whole:
            names = ", ".join(sorted(repr(g[2]) for g in group))
            raise RuntimeError(f"save_model: {names} share memory, and none of "
                               "them has all of it; save a .clone() of each")
        kept = next((n for n in whole if n in preferred), whole[0])
        out.update({name: kept for _, _, name in group if name != kept})
    return out


def _is_packed(t):
    start, stop = _range(t)
    return stop - start == t.numel() * t.element_size()


def save_model(model, filename, metadata=None, force_contiguous=True):
    """Saves a module's state. Of parameters that share memory, tied ones, one
    is saved; the metadata tells which one stands for another, and load_model
    ties them again. (What is not contiguous is saved in C order always.)"""
    state = model.state_dict()
    left_out = _left_out(state)
    save_file({name: t for name, t in state.items() if name not in left_out},
              filename, {**left_out, **(metadata or {})} or None)


def load_model(model, filename, strict=True, device="cpu", *, backend="mmap"):
    """Loads a file into a module, by copying into its parameters; returns the
    names that the file lacks, and those that the module does. strict: an
    exception instead. Parameters of the module that share memory need one
    tensor of the file. (load_state_dict(load_file(...), assign=True) copies
    nothing, and unties them.)"""
    found = load_file(filename, device, backend=backend)
    left_out = _left_out(model.state_dict(), found)
    missing, unexpected = model.load_state_dict(found, strict=False)
    missing = set(missing)
    for name in left_out:
        if name in missing:
            missing.remove(name)
        else:
            unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"    {what} key(s) in state_dict: " +
                 ", ".join(f'"{n}"' for n in sorted(names))
                 for what, names in (("Missing", missing),
                                    ("Unexpected", unexpected)) if names]
        raise RuntimeError("\n".join([
            "Error(s) in loading state_dict for "
            f"{type(model).__name__}:", *lines]))
    return missing, unexpected


# ---- memory ----


def _range(t):
    """The addresses of its first byte and behind its last."""
    last = sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
    return t.data_ptr(), t.data_ptr() + (last + 1) * t.element_size()


def _refuse_overlaps(tensors):
    ranges = []
    for name, t in tensors.items():
        if t.numel() and t.device.type != "meta":
            ranges.append((str(t.device), *_range(t), name))
    ranges.sort()
    for a, b in zip(ranges, ranges[1:]):
        if a[0] == b[0] and b[1] < a[2]:
            raise RuntimeError(
                f"save_file: {a[3]!r} and {b[3]!r} share memory; save one of "
                "them, or a .clone()")
