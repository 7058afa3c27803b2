# SPDX-License-Identifier: MIT
"""The tensors of a tree as they change (tarn.nn): newer versions, state in and
out, dtypes and devices. Each change makes a state from the present one and puts
it in the place of that, in one step; a call holds one."""
import contextlib
import time
from collections import namedtuple

from . import _store, _tarn
from ._nn_tree import (Differences, as_tensor, bytes_of, is_device, is_float,
                       natural, shown)

_SLICE = .02  # seconds until a change of other names is noticed

Keys = namedtuple("Keys", "missing_keys unexpected_keys")


class Versions:
    """The part of a Module that changes what its tensors are."""

    @contextlib.contextmanager
    def hold(self):
        """with m.hold(): this thread sees one state of the whole tree inside,
        whatever is refreshed. Its tensors are held as long."""
        held = self._tree.held
        if getattr(held, "state", None) is not None:
            yield self  # an outer call or block has it already
            return
        held.state = self._tree.state
        try:
            yield self
        finally:
            held.state = None

    @property
    def version(self):
        """The commit that left the present tensors, as Snapshot.version; 0 for
        a tree that is bound to no names."""
        return self._state().commit

    def _change(self, change):
        """Puts change(a copy of the state) in the place of that; None: there
        is nothing to do."""
        while True:
            base = self._tree.state
            state = change(base)
            if state is None:
                return False
            if self._tree.swap(base, state.convert()):
                return True

    # -- newer versions --

    def _root(self):
        module = self
        while module._parent is not None:
            module = module._parent
        return module

    def _newer(self, base):
        """The state of a newer version, not yet converted; None: none."""
        tree = self._tree
        if tree.store is None:
            raise ValueError("the tree is not bound to the names of a store; "
                             "open it by Module.open")
        # No names: the present commit alone. Equal commits have equal names.
        if tree.store.snapshot(names=[]).version == base.seen:
            return None
        snapshot = tree.store.snapshot(tree.prefix)
        found = {n.removeprefix(tree.prefix): t for n, t in snapshot.items()}
        state = base.copy()
        found, different = self._root()._match(found, state)
        # The store is not asked for what was added to its tree by hand.
        names = {parameter.path for parameter in base.sources}
        different.missing = [p for p in different.missing if p in names]
        if different.missing or different.unexpected or different.mismatched:
            raise ValueError(different.sentence(
                f"refresh: {tree.prefix} has changed"))
        newer, versions = False, snapshot.versions
        for parameter, tensor in found.items():
            version = versions[tree.prefix + parameter.path]
            was, old = base.sources.get(parameter, (0, None))
            newer = (newer or was != version or
                     bytes_of(old) != bytes_of(tensor))
            state.tensors[parameter] = tensor
            state.sources[parameter] = version, tensor
        if not newer:
            base.seen = snapshot.version
            return None
        state.commit = state.seen = snapshot.version
        return state

    def refresh(self):
        """Replaces all tensors of the whole tree by a newer version, which one
        commit left, and returns True; False: there is none. What to() has
        asked for is done to the new tensors first. Tensors and modules that
        were added to the tree by hand, as adapters are, stay.

        ValueError: names were added or removed, or a tensor has another shape
        or dtype: the sentence lists them, and the tree stays as it was."""
        return self._change(self._newer)

    def wait(self, timeout=None):
        """Sleeps until there is something for refresh() to do; timeout is in
        seconds: TimeoutError. A publication of the whole set ends it at once,
        one of some of its names 20 ms later at most."""
        tree = self._tree
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            state = tree.state
            try:
                if self._newer(state) is not None:
                    return
            except ValueError:
                if tree.store is None:
                    raise
                return  # refresh says what is wrong
            left = _SLICE if end is None else end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{tree.prefix} has no newer version after "
                                   f"{timeout} s")
            parameter, (version, _) = next(iter(state.sources.items()))
            try:
                tree.store.wait(tree.prefix + parameter.path,
                                min(left, _SLICE), version)
            except TimeoutError:
                pass

    # -- state in and out --

    def state_dict(self, prefix=""):
        """A dict of all paths and Tensors, of parameters and buffers."""
        state = self._state()
        return {prefix + path: state.tensors[parameter]
                for path, parameter in self.handles()}

    def _match(self, found, state):
        """The Tensors of a mapping by the Parameters at and below this module,
        and how the two differ."""
        different, matched = Differences(), {}
        there = dict(self.handles())
        for path in sorted(found, key=natural):
            tensor, parameter = found[path], there.get(path)
            if parameter is None:
                different.unexpected.append(path)
                continue
            wish = state.wishes.get(parameter, (None, None))[0]
            if tensor.shape != parameter._shape or \
                    str(tensor.dtype) not in (parameter._dtype, wish):
                different.mismatched.append(
                    f"{path} is {shown(tensor)}, not {parameter._dtype}"
                    f"{list(parameter._shape)}")
            matched[parameter] = tensor
        different.missing = [path for path, parameter in there.items()
                             if parameter not in matched]
        return matched, different

    def load_state_dict(self, state_dict, strict=True):
        """Takes the tensors (or arrays) of a mapping in the place of those of
        the same paths, in one step; they are shared, not copied. Returns
        missing_keys and unexpected_keys.

        strict: every path must be in both. Without it missing ones keep their
        tensors, and unexpected ones are left out. ValueError lists what
        differs, another shape or dtype in any case; nothing was changed then."""
        found = {path: as_tensor(t) for path, t in state_dict.items()}
        result = []

        def change(base):
            state = base.copy()
            matched, different = self._match(found, state)
            if different.mismatched or strict and (different.missing or
                                                   different.unexpected):
                raise ValueError(different.sentence("load_state_dict"))
            state.tensors.update(matched)
            result[:] = different.missing, different.unexpected
            return state
        self._change(change)
        return Keys(*result)

    def save(self, path, metadata=None, **options):
        """Saves the tensors at and below this module: tarn.save."""
        _store.save(path, self.state_dict(), metadata, **options)

    def publish(self, name, store=None, **options):
        """Publishes them as NAME/PATH, in one moment: Store.publish. With
        replace="NAME/" they are all that is below NAME afterwards."""
        store = _store.default_store() if store is None else store
        return store.publish(self.state_dict(f"{name}/"), **options)

    def to(self, device=None, dtype=None):
        """Replaces the tensors at and below this module by those of another
        dtype, on another device, or both, as Tensor.to makes them; and those
        of all later versions. Integers keep their dtype. A dtype may be the
        only argument. Returns this module."""
        if dtype is None and device is not None and not is_device(device):
            device, dtype = None, device
        if dtype is not None:
            dtype = str(_tarn.Dtype(dtype))
            if not is_float(dtype):
                raise ValueError(f"to: dtype {dtype} is not a floating one")

        def change(base):
            state = base.copy()
            for _, parameter in self.handles():
                was = state.wishes.get(parameter, (None, None))
                state.wishes[parameter] = (dtype or was[0],
                                           was[1] if device is None
                                           else device)
            return state
        self._change(change)
        return self
