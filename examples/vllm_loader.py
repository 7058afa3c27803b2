# SPDX-License-Identifier: MIT
"""A model loader for vLLM, for which a node reads a checkpoint once.

    vllm serve MODEL --load-format tarn

with this module imported, as a plugin of vLLM's (the entry point group
vllm.general_plugins) or by hand. The first worker has the daemon read the
files; the others, those of other engines, and the next start find the bytes in
memory. Each worker is given all tensors of the checkpoint, as views of that
one copy, and moves to its GPU what it makes its own: with tensor parallelism a
part of each.

--model-loader-extra-config '{"socket": PATH, "pool": NAME, "verify": true}'
names another daemon, a pool that several users share, or compares the
checksums of files that tarn saved; all are optional.
"""
import glob
import os

import tarn
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.base_loader import BaseModelLoader
from vllm.model_executor.model_loader.weight_utils import (
    download_weights_from_hf)

INDEX = "model.safetensors.index.json"


def files_of(folder):
    """The checkpoint's files: its index, which stands for all of its shards
    and for no other file that lies there, or what there is."""
    index = os.path.join(folder, INDEX)
    if os.path.exists(index):
        return [index]
    found = sorted(glob.glob(os.path.join(folder, "*.safetensors")))
    # Mistral's models have the same tensors twice, once under their own names.
    found = [path for path in found if "consolidated" not in
             os.path.basename(path)] or found
    if not found:
        raise FileNotFoundError(f"{folder} has no file *.safetensors")
    return found


@register_model_loader("tarn")
class TarnModelLoader(BaseModelLoader):
    def __init__(self, load_config):
        super().__init__(load_config)
        extra = dict(load_config.model_loader_extra_config or {})
        self.verify = extra.pop("verify", False)
        self.where = extra.pop("socket", None), extra.pop("pool", None)
        if extra:
            raise ValueError("model_loader_extra_config: tarn takes socket, "
                             f"pool and verify, not {', '.join(extra)}")

    def _folder(self, model_config):
        """Where the model is, after a download unless it is here."""
        if os.path.isdir(model_config.model):
            return model_config.model
        return download_weights_from_hf(
            model_config.model, self.load_config.download_dir,
            ["*.safetensors"], model_config.revision,
            ignore_patterns=self.load_config.ignore_patterns)

    def download_model(self, model_config):
        self._folder(model_config)

    def _weights(self, folder):
        """Each tensor with its name, copy-on-write, in the memory of the
        host."""
        store = tarn.Store(*self.where)
        for path in files_of(folder):
            loaded = store.load(path, verify=self.verify)
            for name in loaded:
                yield name, loaded[name].torch()

    def load_weights(self, model, model_config):
        # vLLM's models split, stack and convert what they are given, and copy
        # it to the device, one tensor after the other.
        done = model.load_weights(self._weights(self._folder(model_config)))
        if done is None or model_config.quantization is not None:
            return  # the model does not keep track, as in vLLM's own loader
        missing = {name for name, _ in model.named_parameters()} - done
        if missing:
            raise ValueError(f"{model_config.model} lacks {len(missing)} of "
                             f"the model's weights: {sorted(missing)[:5]}")
