# SPDX-License-Identifier: MIT
from .._safetensors import SafetensorError as SafetensorError
from .data import Batches as Batches
from .files import (load as load, load_file as load_file,
                    load_model as load_model, save as save,
                    save_file as save_file, save_model as save_model)
from .loader import DataLoader as DataLoader, adopt as adopt
from .shared import share as share
