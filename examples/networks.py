# SPDX-License-Identifier: MIT
"""networks.py WEIGHTS OUT: the networks that tutorials build from nothing, on
tensors of tarn: a perceptron with two layers, attention with several heads, layer
normalisation by hand; and a tree of modules that holds them. WEIGHTS is a
safetensors file with mlp.*, attention.*, norm.*, and the inputs x.mlp and
x.attention; OUT gets what comes out. networks.c does the same in C."""
import sys

import tarn
from tarn import nn

HEADS = 8


class MLP(nn.Module):
    """784 to 128 to 10, for pictures of digits."""

    def forward(self, x):
        h = x.flatten(1).linear(self.fc1.weight, self.fc1.bias).relu()
        return h.linear(self.fc2.weight, self.fc2.bias).softmax(-1)


class Attention(nn.Module):
    """Each head looks at its own part of the features."""

    def forward(self, x):
        batch, length, width = x.shape
        # [batch, length, width] as [batch, heads, length, width / heads]: a
        # view, as is the way back.
        q, k, v = (x.linear(p.weight, p.bias).split(2, HEADS, -1)
                   .transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = (q @ k.transpose(2, 3)) / (width // HEADS) ** 0.5
        mixed = (scores.softmax(-1) @ v).transpose(1, 2)
        return mixed.reshape(batch, length, width).linear(
            self.out.weight, self.out.bias)


class Norm(nn.Module):
    """What layer_norm does, step by step; sizes of 1 are repeated."""

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, correction=0, keepdim=True)
        return (x - mean) / (var + 1e-5).sqrt() * self.weight + self.bias


def main(weights, out):
    tree = nn.Module.open_file(weights, modules={
        "mlp": MLP, "attention": Attention, "norm": Norm})
    inputs = tarn.open(weights)
    x = inputs["x.attention"]
    y = tree.attention(x)
    tarn.save(out, {"mlp": tree.mlp(inputs["x.mlp"]), "attention": y,
                    "norm": tree.norm(x + y)})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: networks.py WEIGHTS.safetensors OUT.safetensors")
    main(*sys.argv[1:])
