# SPDX-License-Identifier: MIT
"""The corpora of data_peers.py: 2-byte tokens, as Megatron has them."""
import json

import numpy as np


def write_index(prefix, sizes):
    """As Megatron does: sizes, addresses and documents, after 34 bytes."""
    n = len(sizes)
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + np.uint64(1).tobytes() + b"\10" +
                np.array([n, n + 1], np.uint64).tobytes())
        sizes.astype(np.int32).tofile(f)
        ends = np.cumsum(sizes, dtype=np.int64) * 2
        np.concatenate([[0], ends[:-1]]).astype(np.int64).tofile(f)
        np.arange(n + 1, dtype=np.int64).tofile(f)
    return int(ends[-1])


def lengths(n):
    """Log-normal ones, of 600 tokens on average."""
    rng = np.random.default_rng(1)
    return 1 + np.exp(rng.normal(np.log(600) - 0.5, 1, n)).astype(np.int64)


def write_corpus(prefix, tokens):
    """Random tokens, and the same again as safetensors."""
    sizes = lengths(tokens // 600 + 1000)
    ends = np.cumsum(sizes)
    k = int(np.searchsorted(ends, tokens))
    sizes = sizes[:k + 1]
    sizes[k] -= ends[k] - tokens
    write_index(prefix, sizes[sizes > 0])
    values = np.random.default_rng(2).integers(1, 50000, tokens, np.uint16)
    values.tofile(prefix + ".bin")
    header = json.dumps({"tokens": {"dtype": "U16", "shape": [tokens],
                                    "data_offsets": [0, 2 * tokens]}}).encode()
    header += b" " * (-len(header) % 64)
    with open(prefix + ".safetensors", "wb") as f:
        f.write(np.uint64(len(header)).tobytes() + header)
        values.tofile(f)


def write_documents(prefix, n):
    """The tokens are a hole."""
    size = write_index(prefix, lengths(n))
    with open(prefix + ".bin", "wb") as f:
        f.truncate(size)
