# SPDX-License-Identifier: MIT
from .files import (load as load, load_file as load_file,
                    save_file as save_file)
from .loader import DataLoader as DataLoader, adopt as adopt
from .shared import share as share
