#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""data_peers.py FOLDER [--documents N]: see data_peers.sh.

Each rank is a process of its own, started anew for each row. What it gives are
batches of 32 windows of 1,025 tokens, int32, of Megatron what it makes. A rank's private memory is that of it and its
workers, less what it had after its imports, without mapped files; what tarn's ranks share, the slots of
their stream, is the daemon's, once for the node.
"""
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time

try:
    import numpy as np
except ImportError:
    print("numpy is not installed: no figures")
    sys.exit(0)

import data_peers_corpus

SEQ, BATCH, FAR = 1024, 32, 10**9
MIB = int(os.environ.get("TARN_BENCH_MIB", 256))
SECONDS = float(os.environ.get("TARN_BENCH_SECONDS", 1))
RANKS = os.environ.get("TARN_BENCH_RANKS", "1 2 4").split()
DOCUMENTS = int(os.environ.get("TARN_BENCH_DOCUMENTS", 10**7))
TOKENS = MIB << 19
folder = sys.argv[1]
corpus = os.path.join(folder, "corpus")


# ---- the peers: batches of a rank, from position `at` on, without end -----------

def with_tarn(rank, world, at, name):
    from tarn import data
    yield from (b["tokens"].numpy() for b in data.Loader(
        data.Dataset(corpus, SEQ, seed=1), BATCH * world, rank=rank,
        world=world, shared=name, from_=at))


def with_loaded(rank, world, at, name):
    import tarn
    from tarn import data
    tokens = tarn.Store().load(corpus + ".safetensors")["tokens"]
    yield from (b["tokens"].numpy() for b in data.Loader(
        data.Dataset(data.Source.tokens(tokens), SEQ, seed=1), BATCH * world,
        rank=rank, world=world, shared=name + "-loaded", from_=at))


class Windows:
    """Those of the corpus, as views of the mapped file."""

    def __init__(self):
        self.tokens = np.memmap(corpus + ".bin", np.uint16, "r")

    def __len__(self):
        return (len(self.tokens) - 1) // SEQ

    def __getitem__(self, i):
        return self.tokens[i * SEQ:(i + 1) * SEQ + 1]


class Batches(Windows):
    """The same, a batch by one call of numpy."""

    def __getitems__(self, positions):
        first = np.array(positions) * SEQ
        return self.tokens[first[:, None] + np.arange(SEQ + 1)]


def collate(samples):
    import torch
    if not isinstance(samples, np.ndarray):
        samples = np.stack(samples)
    return torch.from_numpy(samples.astype(np.int32))


def for_ever(loader):
    while True:
        yield from loader


def torch_loader(dataset, rank, world, workers):
    from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
    sampler = (RandomSampler(dataset) if world == 1 else
               DistributedSampler(dataset, world, rank, seed=1))
    return for_ever(DataLoader(dataset, BATCH, sampler=sampler,
                               num_workers=workers, collate_fn=collate))


def with_torch(workers, dataset=Windows):
    return lambda rank, world, at, name: torch_loader(dataset(), rank, world,
                                                      workers)


def gpt_dataset(prefix, n, cache):
    from types import SimpleNamespace

    from megatron.core.datasets import gpt_dataset as gpt, utils
    os.makedirs(cache, exist_ok=True)
    config = gpt.GPTDatasetConfig(
        random_seed=1, sequence_length=SEQ, blend=([prefix], None),
        split="1,0,0", path_to_cache=cache, reset_position_ids=False,
        reset_attention_mask=False, eod_mask_loss=False,
        create_attention_mask=False, tokenizer=SimpleNamespace(
            eod=0, pad=-1, vocab_size=65536, unique_identifiers={"class": "x"}))
    indexed = gpt.GPTDataset.build_low_level_dataset(prefix, config)
    which = np.arange(len(indexed.sequence_lengths), dtype=np.int32)
    return gpt.GPTDataset(indexed, prefix, which, n, utils.Split.train, config)


def with_megatron(rank, world, at, name):
    from torch.utils.data import DataLoader
    dataset = gpt_dataset(corpus, (TOKENS - 1) // SEQ, folder + "/megatron")
    mine = [list(range(i + rank * BATCH, i + (rank + 1) * BATCH)) for i in
            range(0, len(dataset) - BATCH * world, BATCH * world)]
    loader = DataLoader(dataset, batch_sampler=mine)
    yield from (b["tokens"] for b in for_ever(loader))


def with_streaming(rank, world, at, name):
    import streaming
    from torch.utils.data import DataLoader
    dataset = streaming.StreamingDataset(
        local=folder + "/mds", shuffle=True, shuffle_algo="naive",
        batch_size=BATCH, num_canonical_nodes=1, shuffle_seed=1)
    if at:
        n = (TOKENS - 1) // SEQ
        dataset.load_state_dict({
            "epoch": at // n, "sample_in_epoch": at % n,
            "num_canonical_nodes": 1, "shuffle_seed": 1,
            "initial_physical_nodes": 1})
    yield from for_ever(DataLoader(
        dataset, BATCH, collate_fn=lambda s: collate([x["tokens"] for x in s])))


def with_litdata(rank, world, at, name):
    import litdata
    import torch
    if world > 1:
        torch.distributed.init_process_group("gloo")
    yield from for_ever(litdata.StreamingDataLoader(
        litdata.StreamingDataset(
            folder + "/litdata", shuffle=True, drop_last=True,
            item_loader=litdata.TokensLoader(block_size=SEQ + 1)),
        batch_size=BATCH))


class ToInt32:
    def __call__(self, samples):
        return np.stack(samples).astype(np.int32)


def with_grain(rank, world, at, name):
    from grain import python as grain
    source = Windows()
    loader = grain.DataLoader(
        data_source=source, worker_count=0,
        sampler=grain.IndexSampler(
            len(source), grain.ShardOptions(rank, world, drop_remainder=True),
            shuffle=True, num_epochs=None, seed=1),
        operations=[grain.Batch(BATCH, batch_fn=ToInt32())])
    iterator = iter(loader)
    if at:
        state = json.loads(iterator.get_state())
        state["last_seen_indices"] = {
            k: at for k in state["last_seen_indices"]}
        iterator.set_state(json.dumps(state).encode())
    yield from iterator


PEERS = {
    "tarn": (with_tarn, ["tarn.data"]),
    "tarn, loaded": (with_loaded, ["tarn.data"]),
    "torch": (with_torch(0), ["torch.utils.data"]),
    "torch, whole batches": (with_torch(0, Batches), ["torch.utils.data"]),
    "torch, 2 workers": (with_torch(2), ["torch.utils.data"]),
    "torch, 8 workers": (with_torch(8), ["torch.utils.data"]),
    "megatron-core": (with_megatron, ["torch.utils.data",
                                      "megatron.core.datasets.gpt_dataset"]),
    "mosaicml-streaming": (with_streaming, ["torch.utils.data", "streaming"]),
    "litdata": (with_litdata, ["torch", "litdata"]),
    "grain": (with_grain, ["grain.python"]),
}
FIRST_ONLY = ("torch, 8 workers",)
RESUMES = ("tarn", "tarn, loaded", "mosaicml-streaming", "grain")


# ---- what a process of its own does ----------------------------------------------

def private(pid="self"):
    """MiB that a process and its children have, without pages of files."""
    pages, children = 0, []
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            pages = sum(int(line.split()[1]) for line in f
                        if line.startswith("Pss_Anon:"))
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as f:
                children += f.read().split()
    except OSError:
        pass
    return pages / 1024 + sum(map(private, children))


def peak():
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f
                    if line.startswith("VmHWM")) / 1024


def tell(**figures):
    print(json.dumps(figures), flush=True)


def rank_main(who, rank, world, at, name):
    call, modules = PEERS[who]
    for module in modules:
        importlib.import_module(module)
    before, begun = private(), time.perf_counter()
    batches = call(int(rank), int(world), int(at), name)
    batch = next(batches)
    int(batch[-1][-1])
    now = time.perf_counter()
    tell(first=1e3 * (now - begun),
         started=1e3 * (now - float(os.environ["TARN_BENCH_BEGUN"])))
    if sys.stdin.readline() == "go\n":
        n, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < SECONDS:
            batch = next(batches)
            int(batch[-1][-1])
            n += len(batch)
        rate = n / (time.perf_counter() - begun)
        tell(rate=rate, private=private() - before)
        sys.stdin.readline() # the others have ended, too
    os._exit(0) # whatever threads it has


def open_main(who, n):
    prefix = folder + "/documents"
    if who == "tarn":
        from tarn import data
        before, high, begun = private(), peak(), time.perf_counter()
        dataset = data.Dataset(prefix, SEQ, seed=1)
    else:
        importlib.import_module("megatron.core.datasets.gpt_dataset")
        tokens = os.path.getsize(prefix + ".bin") // 2
        before, high, begun = private(), peak(), time.perf_counter()
        dataset = gpt_dataset(prefix, (tokens - 1) // SEQ, folder + "/build")
    seconds = time.perf_counter() - begun
    tell(seconds=seconds, private=private() - before, peak=peak() - high,
         samples=len(dataset))


def pack_main(who, n):
    length = 4096
    sizes = np.fromfile(folder + "/documents.idx", np.int32, int(n), offset=34)
    if who == "tarn":
        from tarn import data
        begun = time.perf_counter()
        dataset = data.Dataset(folder + "/documents", length, seed=1,
                               windows="packed", threads=1, side_car=False)
        seconds, tokens = time.perf_counter() - begun, int(sizes.sum())
        used = np.mean([np.mean(dataset.get(g, segments=True)["segments"]
                                .numpy() != 0) for g in range(2000)])
        tell(used=float(used), rate=tokens / seconds)
        return
    import grain
    sizes = sizes[:4000]
    items = grain.MapDataset.source(sizes).map(
        lambda n: {"tokens": np.zeros(min(n, length), np.int32)})
    packed = grain.experimental.FirstFitPackIterDataset(
        items.to_iter_dataset(), length_struct={"tokens": length},
        num_packing_bins=64)
    n = tokens = 0
    begun = time.perf_counter()
    for row in packed:
        n, tokens = n + 1, tokens + np.count_nonzero(
            row["tokens_segment_ids"])
    tell(used=tokens / n / length, rate=tokens / (time.perf_counter() - begun))


# ---- what is written ----------------------------------------------------------

def litdata_part(i):
    import torch
    windows, each = Windows(), 1024
    for k in range(i * each, min((i + 1) * each, len(windows))):
        yield torch.from_numpy(windows[k].astype(np.int32))


def write_main(who):
    windows = Windows()
    if who == "mosaicml-streaming":
        import streaming
        with streaming.MDSWriter(
                out=folder + "/mds", size_limit=64 << 20,
                columns={"tokens": f"ndarray:uint16:{SEQ + 1}"}) as out:
            for i in range(len(windows)):
                out.write({"tokens": np.array(windows[i])})
    else:
        import litdata
        litdata.optimize(
            litdata_part, list(range((len(windows) + 1023) // 1024)),
            folder + "/litdata", chunk_size=(SEQ + 1) * 16384, num_workers=1,
            item_loader=litdata.TokensLoader(block_size=SEQ + 1))
    tell(done=True)


# ---- the table ----------------------------------------------------------------

def start(*arguments, **environment):
    log = open(os.path.join(folder, "stderr"), "w+", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, __file__, folder, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        env={**os.environ, "HOME": folder, "TMPDIR": folder, **environment,
             "TARN_BENCH_BEGUN": str(time.perf_counter())})
    process.log = log
    return process


def answer(process):
    """Its next line of figures; others' lines are passed over."""
    for line in process.stdout:
        if line.startswith("{"):
            return json.loads(line)
    process.wait()
    process.log.seek(0)
    lines = process.log.read().strip().splitlines()
    raise RuntimeError(lines[-1] if lines else f"exit {process.returncode}")


def alone(*arguments):
    process = start(*arguments)
    try:
        return answer(process)
    finally:
        process.stdin.close()
        process.wait()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ranks(who, world, at=0):
    """Of `world` ranks what each tells: until the first batch, then its rate."""
    common = {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world),
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    name = f"peers-{world}-{at}"
    all_ = [start("rank", who, r, world, at, name, RANK=str(r),
                  LOCAL_RANK=str(r), **common) for r in range(world)]
    try:
        seen = [answer(p) for p in all_]
        if not at and who not in FIRST_ONLY:
            for p in all_:
                p.stdin.write("go\n")
                p.stdin.flush()
            for p, figures in zip(all_, seen):
                figures.update(answer(p))
        return seen
    except RuntimeError:
        for p in all_:
            p.kill()
        raise
    finally:
        for p in all_:
            p.stdin.close()
            p.wait()


def installed(who):
    for module in PEERS[who][1]:
        try:
            if importlib.util.find_spec(module.split(".")[0]) is None:
                return f"{module.split('.')[0]} is not installed"
        except ImportError as e:
            return str(e)
    return None


def skip(who, why):
    print(f"{who:22} skipped: {str(why)[:150]}", flush=True)


def rates(usable):
    rows = {}
    for who in usable:
        try:
            if who in ("mosaicml-streaming", "litdata"):
                alone("write", who)
            if who in ("megatron-core", "tarn, loaded"):
                ranks(who, 1, 1) # its index is there, or what it loads
            rows[who] = [ranks(who, int(world)) for world in RANKS[
                :1 if who in FIRST_ONLY else None]]
            far = ranks(who, 1, FAR)[0] if who in RESUMES else {}
            rows[who][0][0]["far"] = far.get("first")
        except RuntimeError as e:
            rows.pop(who, None)
            skip(who, e)
    return rows


def print_rates(rows):
    whole = {who: [sum(r["rate"] for r in seen) for seen in by_world]
             for who, by_world in rows.items() if who not in FIRST_ONLY}
    best = [max([v[i] for who, v in whole.items() if not who.startswith("tarn")] or [0])
            for i in range(len(RANKS))]
    print("\nsamples/s of all ranks, of the best peer's, and MiB of a rank:")
    print(f"{'':22}" + "".join(f"{w + ' ranks':>25}" for w in RANKS))
    for who, values in whole.items():
        print(f"{who:22}" + "".join(
            f"{v:11.0f} {v / b if b else 0:5.2f} "
            f"{max(r['private'] for r in seen):7.1f}"
            for v, b, seen in zip(values, best, rows[who])))
    print("\nms until the first batch:\n"
          f"{'':22}{'imported':>10} {'started':>10} {'at 10^9':>10}")
    for who, by_world in rows.items():
        one = by_world[0][0]
        far = f"{one['far']:10.1f}" if one.get("far") else f"{'-':>10}"
        print(f"{who:22}{one['first']:10.1f} {one['started']:10.1f} {far}",
              flush=True)


def print_each(title, heads, what, who, n, line):
    """One line for each of them that there is."""
    print(f"\n{title}:\n{'':22}{heads}")
    for name in who:
        try:
            print(f"{name:22}{line(alone(what, name, n))}", flush=True)
        except RuntimeError as e:
            skip(name, e)


def print_opening(n, usable):
    print_each(
        f"{n} documents are opened",
        f"{'ms':>10} {'private MiB':>12} {'peak, MiB':>10}", "open",
        [who for who in ("tarn", "megatron-core") if who in usable], n,
        lambda seen: f"{1e3 * seen['seconds']:10.1f} {seen['private']:12.2f} "
                     f"{seen['peak']:10.1f}")


def print_packing(n, usable):
    print_each(
        f"{n} documents are packed into sequences of 4,096",
        f"{'used':>10} {'M tokens/s':>12}", "pack",
        [who for who in ("tarn", "grain") if who in usable], n,
        lambda seen: f"{100 * seen['used']:8.2f} % {seen['rate'] / 1e6:12.1f}")


def main():
    n = int(sys.argv[3]) if sys.argv[2:3] == ["--documents"] else DOCUMENTS
    usable = []
    for who in PEERS:
        why = installed(who)
        if why:
            skip(who, why)
        else:
            usable.append(who)
    data_peers_corpus.write_corpus(corpus, TOKENS)
    print_rates(rates(usable))
    data_peers_corpus.write_documents(folder + "/documents", n)
    print_opening(n, usable)
    print_packing(n, usable)


if __name__ == "__main__":
    what = {"rank": rank_main, "open": open_main, "pack": pack_main,
            "write": write_main}.get(sys.argv[2] if sys.argv[2:] else "")
    if what:
        what(*sys.argv[3:])
    else:
        main()
