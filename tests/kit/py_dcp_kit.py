# SPDX-License-Identifier: MIT
"""For tests of torch.distributed.checkpoint: jobs of several ranks, each a process
that runs the test's own file, and a state to save."""
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

PATIENCE_S = 300  # a job takes seconds; one that hangs is to fail


def end_of(rank, at):
    """Its exit status; None: it was still running then, and is killed."""
    try:
        return rank.wait(max(at - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        rank.kill()
        rank.wait()
        return None


def run_ranks(script, job, n):
    """Whether all ranks of a job went well."""
    meeting = os.path.join(os.environ["TMPDIR"], f"{job}{n}")
    found = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    ranks = [subprocess.Popen([sys.executable, script, job, str(r), str(n),
                               meeting], env=found) for r in range(n)]
    at = time.monotonic() + PATIENCE_S
    good = [end_of(r, at) for r in ranks] == [0] * n
    if os.path.exists(meeting):  # the last rank removes it, or does not
        os.remove(meeting)
    return good


def be_rank(jobs, job, rank, n, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}",
                            rank=int(rank), world_size=int(n))
    jobs[job]()
    dist.destroy_process_group()
    # Threads of PyTorch 2.15 abort some processes of a group when the interpreter
    # ends: "terminate called without an active exception".
    sys.stdout.flush()
    os._exit(0)


def state_of(k):
    return {"net": {"w": torch.arange(12.).reshape(3, 4) * k,
                    "t": (torch.arange(6) * k).reshape(2, 3).t(),
                    "b": torch.tensor([k, -k], dtype=torch.bfloat16),
                    "flags": torch.tensor([True, False]),
                    "c": torch.tensor([1 + 2j]) * k,
                    "none": torch.zeros(0, 3), "one": torch.tensor(k)},
            "a/b@0:%": torch.full((2,), float(k)),
            "steps": [k, {"lr": k / 8}], "note": f"of {k}"}


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


# ---- tensors that are sharded among ranks ----


def _mesh_and_whole():
    from torch.distributed.device_mesh import init_device_mesh
    return (init_device_mesh("cpu", (dist.get_world_size(),)),
            torch.arange(7 * 9.).reshape(7, 9))


def sharded_state():
    """What the ranks of a job save together."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh, whole = _mesh_and_whole()
    return {"rows": distribute_tensor(whole, mesh, [Shard(0)]),
            "columns": distribute_tensor(whole * 2, mesh, [Shard(1)]),
            "all": distribute_tensor(whole * 3, mesh, [Replicate()]),
            "step": 7}


def check_sharded(load):
    """load(state) fills what was saved so, cut otherwise."""
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh, whole = _mesh_and_whole()
    state = {n: distribute_tensor(torch.zeros(7, 9), mesh, [Shard(d)])
             for n, d in (("rows", 1), ("columns", 0), ("all", 1))}
    state["step"] = 0
    load(state)
    for times, name in enumerate(("rows", "columns", "all"), 1):
        found = state[name].full_tensor()
        assert torch.equal(found, whole * times), (name, found)
    assert state["step"] == 7, state
