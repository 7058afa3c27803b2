#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Weights that are swapped under running servers.

    hotswap.py train PREFIX VERSIONS   publishes the weights again and again
    hotswap.py serve PREFIX VERSIONS   follows them; as many as you like

A version is a set of tensors that appears in one moment. A server that is in
the midst of an answer keeps the weights that it began with; their memory is
used again when the last server has let go of them.
"""
import sys

import numpy
import tarn

NAMES = ("weight", "bias", "step")


def questions(seed):
    """What is asked, and what there is to be learned."""
    random = numpy.random.default_rng(seed)
    x = random.standard_normal((512, 32))
    return x, x @ numpy.linspace(-1, 1, 32 * 4).reshape(32, 4) + 0.5


def loss(weight, bias, x, y):
    return ((x @ weight + bias - y) ** 2).mean()


def train(store, prefix, versions):
    x, y = questions(seed=1)
    weight, bias = numpy.zeros((32, 4)), numpy.zeros(4)
    for step in range(1, versions + 1):
        error = x @ weight + bias - y
        weight -= 0.1 * x.T @ error / len(x)
        bias -= 0.1 * error.mean(axis=0)
        # All three in one commit: nobody sees some old and some new.
        store.publish({f"{prefix}/weight": weight, f"{prefix}/bias": bias,
                       f"{prefix}/step": tarn.tensor([step])})
        print(f"step {step}: loss {loss(weight, bias, x, y):.6f}", flush=True)


def newest(store, prefix, seen):
    """Waits for a version newer than the one seen, and takes hold of it. Its
    names are looked up one by one; if it was replaced meanwhile, once more."""
    while True:
        store.wait(f"{prefix}/step", newer_than=seen)
        version = store.version(f"{prefix}/step")
        found = [store[f"{prefix}/{name}"] for name in NAMES]
        if store.version(f"{prefix}/step") == version:
            return version, found


def serve(store, prefix, versions):
    x, y = questions(seed=1)
    seen = step = 0
    while step < versions:
        seen, (weight, bias, at) = newest(store, prefix, seen)
        step = at.tolist()[0]
        # The arrays are the shared memory itself, and keep it.
        answer = loss(weight.numpy(), bias.numpy(), x, y)
        print(f"step {step}: loss {answer:.6f}", flush=True)


def main():
    roles = {"train": train, "serve": serve}
    if len(sys.argv) != 4 or sys.argv[1] not in roles:
        sys.exit("usage: hotswap.py train|serve PREFIX VERSIONS")
    roles[sys.argv[1]](tarn.Store(), sys.argv[2], int(sys.argv[3]))


if __name__ == "__main__":
    main()
