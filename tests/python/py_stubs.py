#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The type stubs name what the module has, and nothing else; all of it has a
docstring. (A stub that lags behind is believed by editors and type checkers.)
"""
import ast
import importlib
import inspect
import os
import sys

import py_kit as kit

import tarn
from tarn import _channel, _follow, _tarn


def names_of(body):
    found = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            found |= {a.asname for a in node.names if a.asname}
    return {n for n in found if not n.startswith("_")}


def stub(name):
    with open(os.path.join(kit.FOLDER, "tarn", name), encoding="utf-8") as f:
        return ast.parse(f.read()).body


def described(node):
    """The parameters that the stub has: their names, and whether they are
    wanted by position, by either, or by name."""
    a = node.args
    kinds = (a.posonlyargs, a.args, [a.vararg], a.kwonlyargs, [a.kwarg])
    found = [(arg.arg, kind) for kind, args in enumerate(kinds)
             for arg in args if arg]
    if found and found[0][0] == "self":
        found[0] = "self", 0  # in C it is never a name
    return found


def signed(function):
    """The parameters that help() and editors are told."""
    return [(p.name, int(p.kind))
            for p in inspect.signature(function).parameters.values()]


def differing(where, body):
    """What has another signature than its only one in the stub."""
    return [(node.name, signed(getattr(where, node.name)), described(node))
            for node in body if isinstance(node, ast.FunctionDef) and
            not node.decorator_list and not node.name.startswith("_") and
            signed(getattr(where, node.name)) != described(node)]


def public(object_):
    return {n for n in dir(object_) if not n.startswith("_")}


native = stub("_tarn.pyi")
# Methods that compute are there when tarn.ops is.
try:
    from tarn import ops
except ImportError as e:
    ops = None
    kit.skipped("operations of Tensor", str(e))
else:
    kit.equal(sorted(set(ops.__all__) ^ names_of(stub("ops.pyi"))), [],
              "the stub of tarn.ops has its names")
    kit.equal(differing(ops, stub("ops.pyi")), [],
              "its functions have the signatures of their stubs")
    from tarn import array_api
    kit.equal(sorted(set(array_api.__all__) ^
                     (names_of(stub("array_api.pyi")) - {"Any"})), [],
              "the stub of tarn.array_api has its names")
    kit.equal(differing(array_api, stub("array_api.pyi")), [],
              "its functions have the signatures of their stubs, too")
computing = {"masked_fill_", "masked_scatter_", "index_copy_", "scatter_",
             *(names_of(stub("ops.pyi")) - {"gather"})}
kit.equal(sorted(public(_tarn) ^
                 (names_of(native) - {"Number", "Shape", "DtypeLike"})), [],
          "_tarn.pyi has the names of _tarn")
kit.equal(sorted({n for n in tarn.__all__ if not n.startswith("_")} ^
                 names_of(stub("__init__.pyi"))), [],
          "__init__.pyi has the names of tarn.__all__")
kit.equal([n for n in tarn.__all__ if not hasattr(tarn, n)], [],
          "the names of tarn.__all__ exist")
kit.equal(differing(_tarn, native), [],
          "functions have the signatures of their stubs")
classes = [n for n in native if isinstance(n, ast.ClassDef)]
for node in classes:
    here = getattr(_tarn, node.name)
    there = set().union(*(public(base) for base in here.__bases__))
    missing = (public(here) - there) ^ names_of(node.body)
    if ops is None and node.name == "Tensor":
        missing -= computing
    kit.equal(sorted(missing), [],
              f"the stub of {node.name} has its methods")
    kit.equal(sorted(n for n in public(here) - there
                     if not getattr(here, n).__doc__),
              [], f"each method of {node.name} has a docstring")
    body = [n for n in node.body
            if hasattr(here, getattr(n, "name", "__doc__"))]
    kit.equal(differing(here, body), [],
              f"the methods of {node.name} have the stub's signatures")
for node in [n for n in stub("_channel.pyi") if isinstance(n, ast.ClassDef)]:
    here = public(getattr(_channel, node.name))
    kit.equal(sorted(here ^ (names_of(node.body) - {"channel"})), [],
              f"the stub of {node.name} has its methods")
for node in [n for n in stub("_follow.pyi") if isinstance(n, ast.ClassDef)]:
    here = getattr(_follow, node.name)
    there = set().union(*(public(base) for base in here.__bases__))
    kit.equal(sorted((public(here) - there) ^ names_of(node.body)), [],
              f"the stub of {node.name} has its methods")
kit.ok(len(classes) >= 2, "there are stubs of two classes or more")
kit.equal([n for n in sorted(public(tarn)) if callable(getattr(tarn, n)) and
           not getattr(tarn, n).__doc__], [], "each function has a docstring")
for module in ("tarn.data", "tarn.nn", "tarn.numpy", "tarn.torch",
               "tarn.torch.dcp", "tarn.torch.dcp_folder"):
    path = module.replace(".", "/").removeprefix("tarn/")
    try:
        there = importlib.import_module(module)
    except ImportError as e:
        kit.skipped(module, f"{e.name} is not installed")
        continue
    if hasattr(there, "__path__"):
        path += "/__init__"
    here = names_of(stub(path + ".pyi")) - {"Any"}
    kit.equal(sorted(here ^ set(there.__all__)), [],
              f"the stub of {module} has its names")
    for node in stub(path + ".pyi") if module in ("tarn.data",
                                                  "tarn.nn") else ():
        if isinstance(node, ast.ClassDef) and node.name in (
                "Dataset", "Loader", "Module", "Parameter", "Source"):
            # Attributes are instances', and not seen here.
            named = names_of([n for n in node.body
                              if not isinstance(n, ast.AnnAssign)])
            kit.equal(sorted(public(getattr(there, node.name)) ^ named), [],
                      f"the stub of {node.name} has its methods")
    kit.equal([n for n in there.__all__ if not getattr(there, n).__doc__], [],
              "the names of the module have docstrings")
for node in stub("_safe_open.pyi"):
    if isinstance(node, ast.ClassDef):
        here = getattr(sys.modules["tarn._safe_open"], node.name)
        kit.equal(sorted(public(here) ^ names_of(node.body)), [],
                  f"the stub of {node.name} has its methods")
kit.finish()
