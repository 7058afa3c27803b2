#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small GPT, trained by one or more ranks on tokens in Megatron's format:

    torchrun --nproc-per-node 2 pretrain.py FOLDER [--steps N]

FOLDER gets the corpus, made up the first time, a checkpoint every few steps, and
a log with a line for each step: its number, the position of the global order
after it, and the hash of the global batch. A run that was killed goes on from its
checkpoint, with any number of ranks, and repeats the batches since then bit for
bit.

The lines that feed it are in batches() and save(): a Dataset of the corpus, a
Loader whose batches all ranks of the node share, and its state in the
checkpoint."""
import argparse
import hashlib
import os
import random
import struct

import torch
import torch.distributed as dist
from tarn import data
from torch import nn
from torch.nn import functional as F

VOCABULARY, SEQ_LEN, BATCH, WIDTH, HEADS, LAYERS = 256, 64, 12, 32, 2, 2
SAVE_EVERY = 4


def make_corpus(path, documents=400):
    """Documents of sequences that count up, by a step of their own."""
    draw = random.Random(1)
    lengths = [min(2 + int(draw.paretovariate(0.8) * 8), 500)
               for _ in range(documents)]
    with open(path + ".bin", "wb") as f:
        for n in lengths:
            start, step = draw.randrange(1, 256), draw.randrange(1, 9)
            f.write(struct.pack(f"<{n}H", *((start + i * step) % VOCABULARY
                                            for i in range(n))))
    starts = [2 * sum(lengths[:i]) for i in range(documents)]
    with open(path + ".new", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents,
                                             documents + 1))
        f.write(struct.pack(f"<{documents}i", *lengths))
        f.write(struct.pack(f"<{documents}q", *starts))
        f.write(struct.pack(f"<{documents + 1}q", *range(documents + 1)))
    os.rename(path + ".new", path + ".idx")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, 2))
        seen = F.scaled_dot_product_attention(q, k, v, mask)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(SEQ_LEN, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for embedding in self.tokens, self.places:
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens, positions, segments):
        """Each token sees those before it, of its own document."""
        mask = (segments[:, :, None] == segments[:, None]).tril()[:, None]
        x = self.tokens(tokens) + self.places(positions)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.tokens.weight.T


def loss_of(model, batch):
    tokens, positions, segments = (
        batch[name].torch().long() for name in ("tokens", "positions",
                                                "segments"))
    wanted = tokens[:, 1:].clone()
    # The first token of a document follows from none, and padding is none.
    wanted[(segments[:, 1:] != segments[:, :-1]) | (segments[:, 1:] == 0)] = -1
    seen = model(tokens[:, :-1], positions[:, :-1], segments[:, :-1])
    return F.cross_entropy(seen.flatten(0, 1), wanted.flatten(),
                           ignore_index=-1, reduction="sum") / tokens.numel()


def batches(folder, state):
    dataset = data.Dataset(os.path.join(folder, "corpus"), SEQ_LEN, seed=7,
                           windows="packed")
    # Rank and world are those of torch.distributed.
    name = os.path.basename(os.path.abspath(folder))
    return data.Loader(dataset, BATCH, state=state, positions=True,
                       segments=True, shared=f"pretrain/{name}")


def save(path, step, model, optimizer, loader):
    torch.save({"step": step, "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict()}, path + ".new")
    os.rename(path + ".new", path)


def hash_of(batch):
    """Of the batches of all ranks, in their order: the global batch."""
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, batch["tokens"].numpy().tobytes())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:32]


def train(folder, steps):
    path = os.path.join(folder, "checkpoint")
    torch.manual_seed(0)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    step, state = 0, None
    if os.path.exists(path):
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, state = saved["step"], saved["loader"]
    first = dist.get_rank() == 0
    with batches(folder, state) as loader, \
            open(os.path.join(folder, "log"), "a", encoding="ascii") as log:
        while step < steps:
            batch = next(loader)
            digest, loss = hash_of(batch), loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()
            step += 1
            if first:
                log.write(f"{step} {loader.position} {digest}\n")
                log.flush()
                if step % SAVE_EVERY == 0:
                    save(path, step, model, optimizer, loader)
        if first:
            print(f"step {step}: loss {loss.item():.3f}")


def main():
    parser = argparse.ArgumentParser(
        description="Trains a small GPT, and goes on where it was killed.")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        corpus = os.path.join(options.folder, "corpus")
        if dist.get_rank() == 0 and not os.path.exists(corpus + ".idx"):
            os.makedirs(options.folder, exist_ok=True)
            make_corpus(corpus)
        dist.barrier()
        train(options.folder, options.steps)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
