#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Weights that are swapped under running servers.

A trainer publishes the weights again and again. Servers follow them, as many
as you like: start some with "serve", then one with "train".

A version is a set of tensors that appears in one moment, and a server takes a
snapshot of it. A server that is in the midst of an answer keeps the weights
that it began with; their memory is used again when the last server has let go
of them.
"""
import argparse

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
        # All three in one commit: no reader sees some old and some new.
        store.publish({f"{prefix}/weight": weight, f"{prefix}/bias": bias,
                       f"{prefix}/step": tarn.tensor([step])})
        print(f"step {step}: loss {loss(weight, bias, x, y):.6f}", flush=True)


def newest(store, prefix, seen):
    """Waits for a version newer than the one seen, and takes hold of all its
    names as they stood at one moment."""
    store.wait(f"{prefix}/step", newer_than=seen)
    found = store.snapshot(f"{prefix}/")
    return (found.versions[f"{prefix}/step"],
            [found[f"{prefix}/{name}"] for name in NAMES])


def serve(store, prefix, versions):
    x, y = questions(seed=1)
    seen = step = 0
    while step < versions:
        seen, (weight, bias, at) = newest(store, prefix, seen)
        step = at.tolist()[0]
        # The arrays are the shared memory itself, and keep it.
        answer = loss(weight.numpy(), bias.numpy(), x, y)
        print(f"step {step}: loss {answer:.6f}", flush=True)


def count(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return int(text)


def main():
    roles = {"train": train, "serve": serve}
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=roles)
    parser.add_argument("prefix", metavar="PREFIX",
                        help="what the names of the weights begin with")
    parser.add_argument("versions", metavar="VERSIONS", type=count,
                        help="how many there are")
    given = parser.parse_args()
    roles[given.role](tarn.Store(), given.prefix, given.versions)


if __name__ == "__main__":
    main()
