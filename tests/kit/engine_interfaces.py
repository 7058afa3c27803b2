# SPDX-License-Identifier: MIT
"""The interfaces of SGLang and vLLM that the adapters in examples/ implement,
for machines that have neither: the classes that they derive from, with the
signatures of all that they override, and as much of the registries and of the
code that calls them as is needed to run them. install() puts a package into
sys.modules, where is_there() does not find the real one."""
import importlib.util
import pickle
import struct
import sys
import types
from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

# ---- SGLang 0.5.23 ----------------------------------------------------
# python/sglang/srt/weight_cache/transport.py, protocol.py


class WeightCacheTransportBackend(ABC):
    name: str

    @abstractmethod
    def prepare_export(self, state_tensors):
        """{name: (tensor, is_param)} to {name: entry}, a dict each."""

    @abstractmethod
    def send_fetch_state_response(self, conn, *, config, entries, pid,
                                  preloaded_weights_bytes=0):
        """Answers an engine over the socket conn."""

    @abstractmethod
    def recv_fetch_state_response(self, sock, result):
        """The engine's side: what recv_msg() has returned, completed."""

    @abstractmethod
    def import_tensor(self, entry):
        """A torch.Tensor."""


class TorchIpcTransportBackend:
    name = "torch_ipc"


class VmmFdTransportBackend(WeightCacheTransportBackend):
    """SGLang's own, which is not implemented there either."""
    name = "vmm_fd"

    def __init__(self):
        raise NotImplementedError("vmm_fd")

    @classmethod
    def can_export_state(cls, state_tensors):
        return False

    prepare_export = send_fetch_state_response = None
    recv_fetch_state_response = import_tensor = None


def choose_daemon_transport_backend(state_tensors):
    vmm_fd = sys.modules[SGLANG + ".transport"].VmmFdTransportBackend
    return vmm_fd() if vmm_fd.can_export_state(state_tensors) \
        else TorchIpcTransportBackend()


def get_client_transport_backend(name):
    if name != "vmm_fd":
        return TorchIpcTransportBackend()
    return sys.modules[SGLANG + ".transport"].VmmFdTransportBackend()


def send_msg(sock, obj):
    data = pickle.dumps(obj)
    sock.sendall(struct.pack("!I", len(data)) + data)


def recv_msg(sock):
    def exactly(n):
        data = b""
        while len(data) < n:
            part = sock.recv(n - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return data

    return pickle.loads(exactly(*struct.unpack("!I", exactly(4))))


SGLANG = "sglang.srt.weight_cache"
PARTS_SGLANG = {
    SGLANG + ".transport": {
        "WeightCacheTransportBackend": WeightCacheTransportBackend,
        "VmmFdTransportBackend": VmmFdTransportBackend,
        "VMM_FD_BACKEND": "vmm_fd",
        "choose_daemon_transport_backend": choose_daemon_transport_backend,
        "get_client_transport_backend": get_client_transport_backend},
    SGLANG + ".protocol": {"send_msg": send_msg, "recv_msg": recv_msg},
}

# ---- vLLM 0.33.0: loaders ---------------------------------------------
# vllm/config/load.py, vllm/model_executor/model_loader/__init__.py,
# base_loader.py, weight_utils.py


@dataclass
class LoadConfig:
    load_format: str = "auto"
    download_dir: str | None = None
    ignore_patterns: list | None = None
    model_loader_extra_config: dict = field(default_factory=dict)


class BaseModelLoader(ABC):
    def __init__(self, load_config):
        self.load_config = load_config

    @abstractmethod
    def download_model(self, model_config):
        """Gets the files."""

    @abstractmethod
    def load_weights(self, model, model_config):
        """Into a model that exists."""

    def load_model(self, vllm_config, model_config, prefix=""):
        model = vllm_config.create_model()
        self.load_weights(model, model_config)
        return model


_loaders = {}


def register_model_loader(load_format):
    def register(loader):
        _loaders[load_format] = loader
        return loader

    return register


def get_model_loader(load_config):
    return _loaders[load_config.load_format](load_config)


def download_weights_from_hf(model_name_or_path, cache_dir, allow_patterns,
                             revision=None, subfolder=None,
                             ignore_patterns=None):
    raise OSError(f"there is no network for {model_name_or_path}")


# ---- vLLM 0.33.0: weight transfer -------------------------------------
# vllm/distributed/weight_transfer/base.py, factory.py


class WeightTransferInitInfo(ABC):
    """Base of dataclasses; so are the next two."""


class WeightTransferUpdateInfo(ABC):
    pass


@dataclass
class TrainerInitInfo:
    backend: ClassVar[str]
    rank: int = field(kw_only=True)

    @property
    def is_sender(self):
        return self.rank == 0


TInitInfo = TypeVar("TInitInfo")
TUpdateInfo = TypeVar("TUpdateInfo")


class WeightTransferEngine(ABC, Generic[TInitInfo, TUpdateInfo]):
    def __init__(self, config, vllm_config, device, model):
        self.config, self.vllm_config = config, vllm_config
        self.model_config = vllm_config.model_config
        self.device, self.model = device, model

    def parse_init_info(self, init_dict):
        return self.init_info_cls(**init_dict)

    def update_weights(self, update_info):
        self.receive_weights(self.update_info_cls(**update_info))

    @abstractmethod
    def init_transfer_engine(self, init_info):
        """Once."""

    @abstractmethod
    def start_weight_update(self):
        """Before each round."""

    @abstractmethod
    def finish_weight_update(self):
        """After it."""

    @abstractmethod
    def receive_weights(self, update_info):
        """Loads them into self.model."""

    @abstractmethod
    def shutdown(self):
        """Frees what the engine holds."""


class TrainerWeightTransferEngine(ABC, Generic[TInitInfo]):
    def __init__(self, *, client, source=None, is_sender=True, rank=0):
        self.client, self.source = client, source
        self.is_sender, self.rank = is_sender, rank

    @classmethod
    @abstractmethod
    def trainer_init(cls, init_info, *, client, source=None):
        """An engine that is ready, on each rank."""

    @abstractmethod
    def send_weights(self):
        """A round, on each rank."""


class WeightTransferEngineFactory:
    _registry = {}

    @classmethod
    def register_engine(cls, name, module_path_or_cls, class_name=None):
        cls._registry[name] = module_path_or_cls

    @classmethod
    def create_engine(cls, config, vllm_config, device, model):
        return cls._registry[config.backend](config, vllm_config, device,
                                             model)


class WeightTransferTrainerFactory:
    _registry = {}

    @classmethod
    def register_engine(cls, name, module_path_or_cls, class_name=None):
        cls._registry[name] = module_path_or_cls

    @classmethod
    def trainer_init(cls, init_info, *, client, source=None):
        return cls._registry[init_info.backend].trainer_init(
            init_info, client=client, source=source)


# The model is told, so that a test sees the order.


def initialize_layerwise_reload(model):
    model.reloads.append("begin")


def finalize_layerwise_reload(model, model_config):
    model.reloads.append("end")


LOADER = "vllm.model_executor.model_loader"
TRANSFER = "vllm.distributed.weight_transfer"
PARTS_VLLM = {
    "vllm.config.load": {"LoadConfig": LoadConfig},
    LOADER: {"register_model_loader": register_model_loader,
             "get_model_loader": get_model_loader},
    LOADER + ".base_loader": {"BaseModelLoader": BaseModelLoader},
    LOADER + ".weight_utils": {
        "download_weights_from_hf": download_weights_from_hf},
    LOADER + ".mtp_validation": {
        "disable_mtp_completeness_check": nullcontext},
    LOADER + ".reload": {
        "initialize_layerwise_reload": initialize_layerwise_reload,
        "finalize_layerwise_reload": finalize_layerwise_reload},
    TRANSFER + ".base": {c.__name__: c for c in (
        WeightTransferInitInfo, WeightTransferUpdateInfo, TrainerInitInfo,
        WeightTransferEngine, TrainerWeightTransferEngine)},
    TRANSFER + ".factory": {c.__name__: c for c in (
        WeightTransferEngineFactory, WeightTransferTrainerFactory)},
}

# ---- in their places --------------------------------------------------


def module(name):
    """A package too, for what is below it."""
    if name not in sys.modules:
        made = types.ModuleType(name)
        made.__path__ = []
        sys.modules[name] = made
        parent, _, leaf = name.rpartition(".")
        if parent:
            setattr(module(parent), leaf, made)
    return sys.modules[name]


def is_there(parts):
    """Can the real package be imported?"""
    return importlib.util.find_spec(next(iter(parts)).split(".")[0]) \
        is not None


def install(parts):
    for name, members in parts.items():
        vars(module(name)).update(members)
