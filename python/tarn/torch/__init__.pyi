# SPDX-License-Identifier: MIT
from .files import load_file as load_file, save_file as save_file
