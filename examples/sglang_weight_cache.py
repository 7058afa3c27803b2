# SPDX-License-Identifier: MIT
"""tarn as the transport "vmm_fd" of SGLang's weight cache.

The daemon of that cache loads and quantizes the weights once, and engines map
them when they start. Its own transport ties the engines to the daemon: if it
dies, so do they. With this one the memory is the store's, and the daemon and
the engines may be replaced in any order. Each of them calls install() before
it begins:

    import sglang_weight_cache
    sglang_weight_cache.install()

The names are PREFIX/DEVICE/EXPORT/TENSOR; PREFIX is $TARN_SGLANG_PREFIX or
"sglang". A daemon that exports to the same device removes what was there, so
the daemons of two models need two prefixes; engines that have it keep it.
"tarn rm" frees what no daemon will replace.
"""
import os
import uuid
from contextlib import suppress

import tarn
import torch
from sglang.srt.weight_cache import transport
from sglang.srt.weight_cache.protocol import send_msg

# What is on the device twice while the daemon exports. Each group has an
# allocation of its own, of whole granules of 2 MiB.
GROUP = 512 << 20


def groups(tensors):
    """The tensors in parts of that size; those that share memory, as tied ones
    do, come into the same one, and share memory in the store, too."""
    group, size, last = {}, 0, None
    for name, tensor in sorted(tensors.items(),
                               key=lambda item: start(item[1])):
        if size >= GROUP and start(tensor) != last:
            yield group
            group, size = {}, 0
        if start(tensor) != last:
            size += tensor.untyped_storage().nbytes()
        group[name], last = tensor, start(tensor)
    yield group


def start(tensor):
    return tensor.untyped_storage().data_ptr()


class TarnTransportBackend(transport.WeightCacheTransportBackend):
    """Tensors of one device, published by the daemon and mapped by engines."""
    name = transport.VMM_FD_BACKEND

    # The daemon needs its own copy of the weights no longer. Keep it, and the
    # device has all of them twice.
    frees_source = True

    def __init__(self):
        self.store, self.found = tarn.Store(), {}

    @classmethod
    def can_export_state(cls, state_tensors):
        """One device, and layouts and dtypes that tarn has, and a daemon."""
        if len({t.device for t, _ in state_tensors.values()}) != 1:
            return False
        with suppress(OSError, TypeError, ValueError, BufferError):
            for tensor, _ in state_tensors.values():
                tarn.from_numpy(tensor)  # copies nothing
            tarn.Store()
            return True
        return False

    def prepare_export(self, state_tensors):
        device = str(next(iter(state_tensors.values()))[0].device)
        prefix = os.environ.get("TARN_SGLANG_PREFIX", "sglang")
        self.store.publish({}, replace=f"{prefix}/{device}/")
        prefix = f"{prefix}/{device}/{uuid.uuid4().hex[:8]}/"
        for group in groups({prefix + name: tensor for name, (tensor, _)
                             in state_tensors.items()}):
            self.store.publish(group)
            self._free(group, device)
        return {name: {"name": prefix + name,
                       "shape": list(tensor.shape),
                       "dtype": str(tensor.dtype).replace("torch.", ""),
                       "is_param": is_param}
                for name, (tensor, is_param) in state_tensors.items()}

    def _free(self, group, device):
        if self.frees_source:
            for tensor in group.values():
                tensor.untyped_storage().resize_(0)
            if device != "cpu":
                torch.cuda.empty_cache()  # or PyTorch keeps it for itself

    def send_fetch_state_response(self, conn, *, config, entries, pid,
                                  preloaded_weights_bytes=0):
        send_msg(conn, {"status": "ok", "config": config, "entries": entries,
                        "pid": pid, "transport_backend": self.name,
                        "preloaded_weights_bytes": preloaded_weights_bytes})

    def recv_fetch_state_response(self, sock, result):
        """Takes hold of all the tensors at one moment."""
        names = [entry["name"] for entry in result["entries"].values()]
        try:
            self.found = self.store.snapshot(names=names)
        except tarn.NotFoundError as e:
            raise RuntimeError("another daemon has exported other weights "
                               f"meanwhile: {e}") from None
        # The engine would end with the daemon of that pid: it need not.
        return {**result, "pid": None}

    def import_tensor(self, entry):
        """The memory itself on a device; copy-on-write in that of the host."""
        tensor = self.found[entry["name"]].torch()
        if list(tensor.shape) != entry["shape"]:
            raise RuntimeError(f"{entry['name']}: it has the shape "
                               f"{list(tensor.shape)}, not {entry['shape']}")
        return tensor


def install():
    """In the place of SGLang's own, which is not implemented: its functions
    that choose a transport look it up by this name."""
    transport.VmmFdTransportBackend = TarnTransportBackend
