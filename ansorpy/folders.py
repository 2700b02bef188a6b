"""The data folder of a user: one rule for Python, the commands and the service."""

import os
from pathlib import Path
from typing import Final

from platformdirs import user_data_path

VARIABLE: Final = "ANSORPY_DATA_DIR"


def data_dir() -> Path:
    """Return the folder that ANSORPY_DATA_DIR names, else the data folder of the user."""
    return Path(os.environ.get(VARIABLE) or user_data_path("ansorpy"))
