# SPDX-License-Identifier: MIT
"""Module trees: the weights of a model as a tree of named tensors, bound to the
names of a store or of a file, with PyTorch's names for what it does.

    from tarn import nn

    class Bert(nn.Module):
        def forward(self, ids):
            e = self.embeddings.word_embeddings.weight
            for layer in self.encoder.layer:        # a list: "0", "1", ...
                q = layer.attention.self.query.weight
                ...

    m = Bert.open("model")          # the names model/... of this user's store
    y = m(ids)                      # one version of the weights
    if m.refresh():                 # a newer version, or none
        ...

Structure and state. The structure, modules and names, stays what it is once a
tree is made. The tensors are a state, which never changes: refresh, to and
load_state_dict put a new one in the place of the old one, in one step. A call of
a module, and a with block of Module.hold, use one state from the beginning to
the end, in their thread, whatever another thread refreshes meanwhile. So hot
swap happens between two calls, and each answer is of one version.

This is what tarn/nn.h is for C, made of the snapshots of a Store.
"""
import fnmatch
from collections import namedtuple

from . import _store, _tarn
from ._nn_tree import (Parameter, Tree, as_tensor, bytes_of, is_float, listed,
                       natural, shown, split)
from ._nn_versions import Versions

__all__ = ["Counts", "Module", "Parameter"]

Counts = namedtuple("Counts", "modules parameters buffers elements trainable "
                              "bytes")
Counts.__doc__ = """What Module.count counts: modules, parameters and buffers;
elements of the parameters, and those that are trainable; bytes of parameters
and buffers."""


class Module(Versions):
    """A module of a tree: parameters, buffers and child modules, each an
    attribute under its name: m.encoder.layer[0].attention.query.weight. A list
    is a module whose children are "0", "1", and so on: it has [i], len() and
    iteration. m["encoder.layer.0"] takes any path, also where a name is one of
    the methods here.

    Subclasses define forward, which a call runs with one state of the tree.
    open() makes a tree from published names, open_file() from a file; by hand,
    attributes that are set to Tensors become parameters (integers: buffers),
    and those that are set to modules become children.

    All walks are in natural order: "2" before "10". Any thread may call,
    refresh and convert; nothing may be added to a tree meanwhile."""

    def __init__(self):
        self.__dict__.update(_tree=Tree(), _parent=None, _name="",
                             _children={}, _own={})

    # -- making trees --

    @classmethod
    def open(cls, name, store=None, *, prefix="", buffers=(), is_buffer=None,
             modules=None):
        """Makes a tree from the published names that begin with NAME/, as they
        stand at one moment. Its tensors are the shared ones, and refresh()
        finds newer versions. Without a store it is default_store().

        prefix: only paths that begin so, without it ("bert."). Buffers are
        integers, tensors whose path ends with one of buffers
        ("running_mean"), or, if it is there, what is_buffer(path, tensor)
        says. modules: which class a module has, by patterns of its path:
        {"encoder.layer.*": Layer}; others are Modules, and the root is of this
        class. The classes' __init__ is not called.

        NotFoundError: there are no such names. ValueError: a name has an empty
        part, or is one of a tensor and of a module."""
        store = _store.default_store() if store is None else store
        whole = f"{name}/{prefix}"
        snapshot = store.snapshot(whole)
        found = {n.removeprefix(whole): t for n, t in snapshot.items()}
        self = cls._build(found, whole, buffers, is_buffer, modules)
        tree = self._tree
        tree.store, tree.prefix = store, whole
        state = tree.state
        state.commit = state.seen = snapshot.version
        versions = snapshot.versions
        for parameter, tensor in state.tensors.items():
            version = versions[whole + parameter.path]
            state.sources[parameter] = version, tensor
        return self

    @classmethod
    def open_file(cls, file, *, store=None, prefix="", buffers=(),
                  is_buffer=None, modules=None):
        """Makes a tree from a File or a path, which is mapped; with a store it
        is loaded there, once for all processes. The rest is as for open()."""
        if store is not None:
            file = store.load(file)
        elif not isinstance(file, _store.File):
            file = _store.File(file)
        found = {n.removeprefix(prefix): t for n, t in file.items()
                 if n.startswith(prefix)}
        return cls._build(found, f"{file.path}: {prefix}", buffers, is_buffer,
                          modules)

    @classmethod
    def _build(cls, found, what, buffers, is_buffer, modules):
        if not found:
            raise _tarn.NotFoundError(2, f"{what}: there is no tensor of that "
                                         "prefix")
        if isinstance(buffers, str):
            raise TypeError(f"buffers is one str; it wants several: "
                            f"[{buffers!r}]")
        self = cls.__new__(cls)
        Module.__init__(self)
        for path in sorted(found, key=lambda p: [natural(n)
                                                 for n in p.split(".")]):
            tensor = found[path]
            if is_buffer is not None:
                buffer = is_buffer(path, tensor)
            else:
                buffer = (not is_float(tensor.dtype) and
                          tensor.dtype != "C64" or
                          f".{path}".endswith(tuple(f".{b}" for b in buffers)))
            *way, name = split(path)
            self._way(way, modules)._put(name, tensor, buffer)
        return self

    def _way(self, names, modules=None):
        """The module at the end of a path, made where it is not there."""
        module = self
        for name in names:
            if name in module._own:
                raise ValueError(f"{module._own[name].path!r} is a tensor, so "
                                 "there cannot be modules below it")
            if name not in module._children:
                module._adopt(name, module._child_class(name, modules)())
            module = module._children[name]
        return module

    def _child_class(self, name, modules):
        path = f"{self._path()}.{name}".removeprefix(".")
        for pattern, cls in (modules or {}).items():
            # A star is one name, or a part of one.
            if pattern.count(".") == path.count(".") and \
                    fnmatch.fnmatchcase(path, pattern):
                def make():
                    child = cls.__new__(cls)
                    Module.__init__(child)
                    return child
                return make
        return Module

    def _check_new(self, name, kind):
        if not name or "." in name:
            raise ValueError(f"{name!r} is no name of a {kind}: it is empty or "
                             "has a dot")
        if kind == "tensor" and name in self._children or \
                kind == "module" and name in self._own:
            raise ValueError(f"{name!r} is a tensor or a module already")

    @staticmethod
    def _sorted(names):
        return dict(sorted(names.items(), key=lambda item: natural(item[0])))

    def _put(self, name, tensor, buffer):
        self._check_new(name, "tensor")
        parameter, state = Parameter(self, name, tensor, bool(buffer)), \
            self._tree.state
        state.tensors[parameter] = tensor
        for of in (state.tensors, state.wishes, state.sources):
            of.pop(self._own.get(name), None)
        self.__dict__["_own"] = self._sorted({**self._own, name: parameter})
        return parameter

    def _adopt(self, name, child):
        self._check_new(name, "module")
        if child._parent is not None or child._tree.store is not None:
            raise ValueError(f"{name!r} is a module of another tree, or bound "
                             "to a store")
        root = self
        while root is not None:
            if root is child:
                raise ValueError(f"{name!r} would be a module below itself")
            root = root._parent
        mine, other = self._tree, child._tree
        for of in ("tensors", "wishes", "sources"):
            getattr(mine.state, of).update(getattr(other.state, of))
        for module in child.modules():
            module.__dict__["_tree"] = mine
        child.__dict__.update(_parent=self, _name=name)
        self.__dict__["_children"] = self._sorted({**self._children,
                                                   name: child})

    def register_parameter(self, name, tensor):
        """Adds a parameter: a Tensor or an array; returns its Parameter."""
        return self._put(name, as_tensor(tensor), False)

    def register_buffer(self, name, tensor):
        """Adds a buffer: a Tensor or an array; returns its Parameter."""
        return self._put(name, as_tensor(tensor), True)

    def add_module(self, name, module):
        """Adds a child: a Module that is no other's."""
        self._adopt(name, module)

    # -- attributes --

    def __getattr__(self, name):
        # What is set by object's own means is found before this.
        if "_own" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name!r}: its "
                                 "__init__ must call super().__init__() first")
        own = self._own.get(name)
        if own is not None:
            return self._tree.present().tensors[own]
        try:
            return self.__dict__["_children"][name]
        except KeyError:
            raise AttributeError(self._has_no(name)) from None

    def __setattr__(self, name, value):
        if isinstance(value, Module):
            self._adopt(name, value)
        elif isinstance(value, _tarn.Tensor):
            self._put(name, value, not is_float(value.dtype) and
                      value.dtype != "C64")
        elif name in self._own or name in self._children:
            raise TypeError(f"{name!r} is a tensor or a module, and "
                            f"{type(value).__name__} is none")
        else:
            object.__setattr__(self, name, value)

    def __dir__(self):
        return [*super().__dir__(), *self._own, *self._children]

    def __getitem__(self, key):
        """A child of a list by its index, or what is at a path."""
        if isinstance(key, str):
            *way, name = split(key)
            module = self.get_submodule(".".join(way))
            if name in module._own or name in module._children:
                return getattr(module, name) if name in module._own else \
                    module._children[name]
            raise _tarn.NotFoundError(2, module._has_no(name))
        index = range(len(self))[key]
        return self._children[str(index)]

    def __len__(self):
        """How many children a list has: "0", "1", ... without a gap."""
        n = 0
        while str(n) in self._children:
            n += 1
        return n

    def __bool__(self):
        return True

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def _has_no(self, name):
        there = [*self._own, *self._children]
        return (f"{type(self).__name__} {self._path()!r} has no tensor or "
                f"module {name!r}; it has {listed(there) or 'none'}")

    def _path(self):
        names = []
        module = self
        while module._parent is not None:
            names.append(module._name)
            module = module._parent
        return ".".join(reversed(names))

    def _state(self):
        return self._tree.present()

    # -- walking --

    def named_modules(self, prefix=""):
        """Paths and modules: this one, as prefix, then those below."""
        yield prefix, self
        for name, child in self._children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix
                                           else name)

    def modules(self):
        """This module and all below."""
        return (module for _, module in self.named_modules())

    def named_children(self):
        """Names and modules of the children alone."""
        return iter(self._children.items())

    def children(self):
        """The children alone."""
        return iter(self._children.values())

    def handles(self, recurse=True):
        """Paths and Parameters, of parameters and buffers."""
        for path, module in self.named_modules():
            for name, parameter in module._own.items():
                yield f"{path}.{name}" if path else name, parameter
            if not recurse:
                return

    def _named(self, buffers, recurse, remove_duplicate):
        state, seen = self._state(), set()
        for path, parameter in self.handles(recurse):
            tensor = state.tensors[parameter]
            if parameter.is_buffer is not buffers:
                continue
            if remove_duplicate:
                key = bytes_of(tensor)
                if key in seen:
                    continue
                seen.add(key)
            yield path, tensor

    def named_parameters(self, recurse=True, remove_duplicate=True):
        """Paths and Tensors of the parameters, tied ones once."""
        return self._named(False, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """Tensors of the parameters, tied ones once."""
        return (tensor for _, tensor in self.named_parameters(recurse))

    def named_buffers(self, recurse=True, remove_duplicate=True):
        """Paths and Tensors of the buffers, tied ones once."""
        return self._named(True, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """Tensors of the buffers, tied ones once."""
        return (tensor for _, tensor in self.named_buffers(recurse))

    def get_submodule(self, path):
        """The module at a path; "" is this one. NotFoundError."""
        module = self
        for name in path.split(".") if path else ():
            if name not in module._children:
                raise _tarn.NotFoundError(2, module._has_no(name))
            module = module._children[name]
        return module

    def get_handle(self, path):
        """The Parameter of a tensor at a path, which is valid for later
        versions too. NotFoundError."""
        way, _, name = path.rpartition(".")
        module = self.get_submodule(way)
        if name not in module._own:
            raise _tarn.NotFoundError(2, module._has_no(name))
        return module._own[name]

    def apply(self, fn):
        """Calls fn for all modules, the children first; returns this one."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def count(self, tied=False):
        """How much there is: Counts. Tensors that several paths share count
        once, unless tied is true."""
        state, seen, n = self._state(), set(), [0] * 5
        for _, parameter in self.handles():
            tensor = state.tensors[parameter]
            key = bytes_of(tensor)
            if key in seen and not tied:
                continue
            seen.add(key)
            n[4] += tensor.nbytes
            n[1 if parameter.is_buffer else 0] += 1
            if not parameter.is_buffer:
                n[2] += tensor.size
                n[3] += tensor.size if parameter.requires_grad else 0
        return Counts(sum(1 for _ in self.modules()), *n)

    def requires_grad_(self, requires_grad=True):
        """Marks all parameters at and below this module; returns it."""
        for _, parameter in self.handles():
            if not parameter.is_buffer:
                parameter.requires_grad = requires_grad
        return self

    # -- calls and states --

    def forward(self, *args, **keywords):
        """What a call does: subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args, **keywords):
        """Runs forward with one state of the tree."""
        with self.hold():
            return self.forward(*args, **keywords)

    # -- text --

    def __repr__(self):
        return "\n".join(self._lines(self._state(), ""))

    def _lines(self, state, label):
        inside = [f"({name}): {shown(state.tensors[p])}"
                  f"{' buffer' if p.is_buffer else ''}"
                  for name, p in self._own.items()]
        # Neighbours that look the same are one line of PyTorch's kind.
        runs = []
        for name, child in self._children.items():
            lines = child._lines(state, "")
            if runs and runs[-1][2] == lines and name.isdigit() and \
                    runs[-1][1].isdigit():
                runs[-1][1] = name
                runs[-1][3] += 1
            else:
                runs.append([name, name, lines, 1])
        for first, last, lines, n in runs:
            head = (f"({first}): " if n == 1 else f"({first}-{last}): {n} x ")
            inside += [head + lines[0], *lines[1:]]
        name = label + type(self).__name__
        if not inside:
            return [f"{name}()"]
        return [f"{name}(", *(f"  {line}" for line in inside), ")"]

    def __reduce__(self):
        raise TypeError("a Module is not pickled; open it in the other process")
