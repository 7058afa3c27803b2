#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What copy and pickle make of tensors, files and stores, and what workers that
are no forks get of them: a tensor's bytes, a file by its path, a store and what
was loaded by where the daemon is."""
import copy
import gc
import multiprocessing
import os
import pickle
import sys

import py_kit as kit

import tarn

T = tarn.tensor


def again(t, protocol):
    return pickle.loads(pickle.dumps(t, protocol))


def reads(store):
    status = store.status()
    return status["loads"] - status["loads_cached"]


def look(things):
    """In another process: what came, and of what kind it is there."""
    store, loaded, file, tensor, view = things
    return (store["named"].tolist(), loaded["w"].storage_kind,
            loaded["w"].tolist(), file["w"].storage_kind, tensor.tolist(),
            view.tolist(), tensor.readonly, os.getpid())


def main():
    tmp = os.environ["TMPDIR"]
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))
    path = os.path.join(tmp, "m.safetensors")
    w = tarn.arange(12, dtype="F32").reshape(3, 4)

    # ---- tensors ----
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        good = []
        for dtype in tarn.dtypes:
            for shape in ((), (0,), (4,), (2, 0, 8), (2, 3, 4)):
                try:
                    t = tarn.full(shape, 1, dtype)
                except ValueError:
                    continue  # part of a byte
                u = again(t, protocol)
                good.append((u.shape, u.dtype, u.readonly, tarn.equal(t, u))
                            == (shape, dtype, False, True))
        kit.ok(len(good) > 80 and all(good), f"pickled by protocol {protocol}: "
               f"{len(good)} tensors come back", good)
    u = again(w, 5)
    u[0, 0] = 9
    kit.equal(w[0, 0], 0.0, "a tensor that was pickled is a copy")
    kit.equal(again(w.T[::-1, 1:], 5).tolist(), w.T[::-1, 1:].tolist(),
              "a tensor with steps is unpickled in C order")
    sealed = tarn.from_numpy(b"abc")
    kit.equal([(again(t, p).readonly, again(t, p).tolist())
               for t in (sealed, sealed[::2]) for p in (2, 5)],
              [(True, [97, 98, 99])] * 2 + [(True, [97, 99])] * 2,
              "a read-only tensor is unpickled read-only")
    beside = []
    data = pickle.dumps(w, 5, buffer_callback=beside.append)
    shared = pickle.loads(data, buffers=beside)
    w[2, 3] = 70
    kit.equal((len(beside), shared[2, 3], len(data) < 300), (1, 70., True),
              "by protocol 5 the bytes may travel out of band")
    w[2, 3] = 11
    nested = {"a": w, "b": [w, w[0]]}
    deep = copy.deepcopy(nested)
    kit.ok(copy.copy(w) is w, "copy of a tensor that never changes is itself")
    kit.equal((deep["a"] is deep["b"][0], tarn.same_storage(deep["a"], w),
               tarn.equal(deep["a"], w), deep["b"][1].tolist()),
              (True, False, True, w[0].tolist()),
              "deepcopy of a tensor has other bytes")

    # ---- what has a name ----
    tarn.save(path, {"w": w})
    os.chdir(tmp)
    file, direct = tarn.open("m.safetensors"), tarn.open(path, map=False)
    store, loaded = tarn.Store(), tarn.load("m.safetensors")
    store.publish("named", T([1, 2, 3]))
    os.chdir("/")
    f, d = again(file, 5), copy.deepcopy(direct)
    kit.equal((type(f), f.path, f["w"].storage_kind, f["w"].tolist()),
              (tarn.File, path, "mapped", w.tolist()),
              "a pickled file is opened again by its path")
    kit.equal((d["w"].storage_kind, d["w"].tolist()), ("file", w.tolist()),
              "a pickled file that is not mapped is opened in the same way")
    kit.equal((again(file["w"], 5).tolist(), again(direct["w"], 2).tolist()),
              (w.tolist(), w.tolist()),
              "a tensor of a file is pickled by value")
    s, m = again(store, 5), again(loaded, 2)
    kit.equal((type(s), s.socket, s.pool, s["named"].tolist()),
              (tarn.Store, store.socket, store.pool, [1, 2, 3]),
              "a pickled store is opened again")
    kit.ok(again(store, 2) is s and copy.copy(store) is s,
           "a pickled store is opened once")
    kit.equal((type(m), m["w"].storage_kind, m["w"].tolist(),
               reads(store)),
              (tarn.Loaded, "shared", w.tolist(), 1),
              "a pickled load is not loaded anew")
    kit.equal(len(pickle.dumps(loaded)) < 1000, True,
              "a loaded file is pickled by its name")

    # ---- to other processes ----
    things = store, loaded, file, w, loaded["w"][1:, ::2]
    for how in ("spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(1) as pool:
            *seen, pid = pool.apply(look, (things,))
        kit.equal((seen, pid != os.getpid()),
                  ([[1, 2, 3], "shared", w.tolist(), "mapped", w.tolist(),
                    w[1:, ::2].tolist(), False], True),
                  f"a worker started by {how} gets all of them")
    kit.equal(reads(store), 1, "all workers share one load")

    del store, loaded, s, m, things
    gc.collect()
    os.unlink(path)
    daemon.terminate()
    kit.equal(daemon.wait(), 0, "the daemon ends without error")
    return kit.finish()


if __name__ == "__main__":
    sys.exit(main())
