# SPDX-License-Identifier: MIT
"""Weights from a trainer to vLLM's workers through the store, as one version.

In vLLM, with this module imported as a plugin:

    LLM(..., weight_transfer_config=WeightTransferConfig(backend="tarn"))

In the trainer, on each rank:

    engine = WeightTransferTrainerFactory.trainer_init(
        TarnTrainerInitInfo(rank=rank, prefix="policy"),
        client=HTTPVLLMWeightSyncClient(url), source=ModuleSource(model))
    engine.send_weights()                      # after each step

All tensors of a round become visible in one moment. Workers that read an older
version keep it until they are done; so do engines that start meanwhile, and
any other reader: the newest weights stay there under PREFIX/NAME, without the
trainer. With device=None the weights travel through the memory of the host,
which all workers of the node share; with device="cuda:0", the trainer's, they
stay on it, for workers of the same GPU.
"""
from dataclasses import dataclass
from typing import ClassVar

import tarn
from vllm.distributed.weight_transfer.base import (
    TrainerInitInfo, TrainerWeightTransferEngine, WeightTransferEngine,
    WeightTransferInitInfo, WeightTransferUpdateInfo)
from vllm.distributed.weight_transfer.factory import (
    WeightTransferEngineFactory, WeightTransferTrainerFactory)
from vllm.model_executor.model_loader.mtp_validation import (
    disable_mtp_completeness_check)
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload, initialize_layerwise_reload)

ALIGN = 256  # of each tensor
BUCKET = 64 << 20  # bytes of a storage in which tensors lie together


@dataclass
class TarnInitInfo(WeightTransferInitInfo):
    """What the trainer tells each worker once. The socket and the pool are
    those of the trainer's store."""
    prefix: str
    socket: str | None = None
    pool: str | None = None


@dataclass
class TarnUpdateInfo(WeightTransferUpdateInfo):
    """The versions that a round has published, by name without the prefix."""
    versions: dict[str, int]


@dataclass
class TarnTrainerInitInfo(TrainerInitInfo):
    backend: ClassVar[str] = "tarn"
    prefix: str = "policy"
    device: str | None = None
    socket: str | None = None
    pool: str | None = None


class TarnWeightTransferEngine(
        WeightTransferEngine[TarnInitInfo, TarnUpdateInfo]):
    """In a worker."""
    init_info_cls = TarnInitInfo
    update_info_cls = TarnUpdateInfo

    def init_transfer_engine(self, init_info):
        self.prefix = init_info.prefix
        self.store = tarn.Store(init_info.socket, init_info.pool)

    def start_weight_update(self):
        initialize_layerwise_reload(self.model)

    def finish_weight_update(self):
        finalize_layerwise_reload(self.model, self.model_config)

    def receive_weights(self, update_info):
        versions = {f"{self.prefix}/{name}": version
                    for name, version in update_info.versions.items()}
        found = self.store.snapshot(names=list(versions))
        wrong = [name for name in versions
                 if found.versions[name] != versions[name]]
        if wrong:
            raise ValueError(f"{wrong[0]} has the version "
                             f"{found.versions[wrong[0]]}, and the trainer "
                             f"sent {versions[wrong[0]]}: another one "
                             f"publishes below {self.prefix}/")
        with disable_mtp_completeness_check():
            self.model.load_weights((name, found[f"{self.prefix}/{name}"]
                                     .torch()) for name in update_info.versions)

    def shutdown(self):
        self.store = None


class TarnTrainerWeightTransferEngine(
        TrainerWeightTransferEngine[TarnTrainerInitInfo]):
    """In the trainer, on each rank; the first one publishes."""
    init_info_cls = TarnTrainerInitInfo

    @classmethod
    def trainer_init(cls, init_info, *, client, source=None):
        if source is None:
            raise ValueError("tarn sends whole models: it needs a source")
        engine = cls(client=client, source=source,
                     is_sender=init_info.is_sender, rank=init_info.rank)
        engine.prefix, engine.device = init_info.prefix, init_info.device
        if engine.is_sender:
            engine.store = tarn.Store(init_info.socket, init_info.pool)
            client.init_weight_transfer_engine(
                {"prefix": engine.prefix, "socket": engine.store.socket,
                 "pool": engine.store.pool or None})
        return engine

    def _room(self, size):
        """So many bytes in a storage of the store's, which publishing does not
        copy. A publication has 64 storages at most, so tensors share them, and
        the more there are, the larger they get."""
        size = -(-size // ALIGN) * ALIGN
        if size > self.left.shape[0]:
            bucket = BUCKET << min(self.storages // 8, 8)
            self.storages += 1
            made = self.store.create([max(size, bucket)], "U8")
            if size >= bucket:
                return made
            self.left = made
        room, self.left = self.left[:size], self.left[size:]
        return room

    def _kept(self, tensor):
        """In memory of the store's; what is to stay on the device publish()
        copies there, all at once."""
        source = tarn.from_numpy(tensor.detach())
        if self.device is not None:
            return source.to(self.device)
        room = self._room(source.nbytes)[:source.nbytes]
        return room.bitcast(source.dtype).reshape(source.shape).copy_(source)

    def send_weights(self):
        # Each rank takes part in the collectives behind iter_full().
        made, self.storages, self.left = {}, 0, tarn.zeros(0, dtype="U8")
        for name, tensor in self.source.iter_full():
            if self.is_sender:
                made[f"{self.prefix}/{name}"] = self._kept(tensor)
        if not self.is_sender:
            return
        versions = self.store.publish(made, replace=f"{self.prefix}/")
        del made, self.left
        self.client.start_weight_update()
        self.client.update_weights({"versions": {
            name[len(self.prefix) + 1:]: n for name, n in versions.items()}})
        self.client.finish_weight_update()


WeightTransferEngineFactory.register_engine("tarn", TarnWeightTransferEngine)
WeightTransferTrainerFactory.register_engine(
    "tarn", TarnTrainerWeightTransferEngine)
