"""Libraries that a user may have beside ours: their names for people, with versions."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

NAMES: Final[Mapping[str, str]] = {
    "onnxruntime": "ONNX Runtime",
    "torch": "PyTorch",
    "openvino": "OpenVINO",
}  # by package


def with_version(package: str, name: str = "") -> str:
    """Return the name of an installed library with its version: `ONNX Runtime 1.32.0`.

    The library is not imported; "" if it is absent.

    Args:
        name: in place of the name in NAMES.
    """
    try:
        found = find_spec(package) is not None and version(package)
    except PackageNotFoundError:
        return ""
    return f"{name or NAMES[package]} {found.partition('+')[0]}" if found else ""
