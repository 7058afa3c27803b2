# SPDX-License-Identifier: MIT
"""What dcp.async_save copies before it returns, for writers of this package.

PyTorch's own stager copies to memory that the kernel has to find and clear for each
save. These copies go to the memory of the last ones, which the kernel may have
meanwhile (tarn.save in the background has the same): a save stops its caller for
about as long as a copy to memory that is there takes."""
import copy

import torch

from .. import _conversions, _saving

try:
    from torch.distributed.checkpoint.staging import AsyncStager
except ImportError:  # PyTorch before 2.6 stages by itself
    AsyncStager = object
try:
    from torch.distributed.tensor import DTensor
except ImportError:
    DTensor = ()


class _Copies(dict):
    """By their addresses. A process to which a writer is sent gets the state that
    it shall save, and no copies."""

    def __reduce__(self):
        return _Copies, ()


def _local(values):
    """The tensors among them, of sharded ones what this rank has."""
    for value in values:
        if DTensor and isinstance(value, DTensor):
            value = value.to_local()
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            yield value


class Stager(AsyncStager):
    """A writer that is the stager of its own saves."""

    _synchronize_after_execute = False  # stage() has copied all

    def stage(self, state_dict):
        """The same state, whose tensors are copies in memory of the host: what is
        trained may go on. Any later save of this process uses their memory again,
        once this writer has written them."""
        places = _saving._spare.take_all()
        # Those of a save that is not written yet, or failed, are its own alone.
        self._copies = _Copies()
        return self._copied(state_dict, places)

    def synchronize_staging(self):
        """stage() has waited already."""

    def close(self):
        """Nothing is left to end."""

    def _end_staging(self, planner, written):
        """These tensors are in the store, and this rank reads nothing any more of
        the state that its planner has, of which others may have written the rest.
        Those of them that are copies are free."""
        copies = getattr(self, "_copies", {})
        state = getattr(planner, "state_dict", None) or {}
        found = [copies.pop(t.data_ptr(), None)
                 for t in (*written, *_local(state.values()))]
        _saving._spare.give([copy for copy in found if copy is not None])

    def _copied(self, value, places):
        if isinstance(value, dict):
            return {k: self._copied(v, places) for k, v in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self._copied(v, places) for v in value)
        if DTensor and isinstance(value, DTensor):
            return DTensor.from_local(
                self._copy(value.to_local(), places), value.device_mesh,
                value.placements, run_check=False, shape=value.shape,
                stride=value.stride())
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            return self._copy(value, places)
        return copy.deepcopy(value)

    def _copy(self, tensor, places):
        tensor = tensor.detach()
        if tensor.layout != torch.strided or tensor.device.type == "meta" or \
                not tensor.numel() or tensor.is_conj() or tensor.is_neg():
            return tensor.clone()  # which the writer may refuse
        try:
            made = _saving._copy(tensor, places)
        except (TypeError, NotImplementedError):  # a dtype that tarn has not
            return tensor.clone()
        staged = _conversions.to_torch(made)
        self._copies[staged.data_ptr()] = made
        return staged
