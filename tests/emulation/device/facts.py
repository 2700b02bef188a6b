"""Attributes of the emulated GPU, as the preset has them: `sm_90`."""

from collections.abc import Mapping
from typing import Final

from ansorpy.codegen.simt.device.functions import ATTRIBUTES
from ansorpy.gpus import PRESETS

ARCH: Final = "sm_90"
NAME: Final = "Emulated GPU"
PCI_ADDRESS: Final = "0000:00:00.0"
_BUS_BITS: Final = 5120
_GPU: Final = PRESETS[ARCH]
_VALUES: Final = {
    "max_threads_per_block": _GPU.max_threads_per_block,
    "warp": _GPU.warp,
    "clock_khz": int(_GPU.clock_hz / 1e3),
    "sms": _GPU.sms,
    "memory_clock_khz": int(_GPU.memory_bytes_per_s / (2e3 * _BUS_BITS / 8)),
    "memory_bus_bits": _BUS_BITS,
    "l2_bytes": _GPU.l2_bytes,
    "max_threads_per_sm": _GPU.max_threads_per_sm,
    "major": 9,
    "minor": 0,
    "shared_bytes_per_sm": _GPU.shared_bytes_per_sm,
    "registers_per_sm": _GPU.registers_per_sm,
    "shared_bytes_per_block": _GPU.shared_bytes_per_block,
    "max_blocks_per_sm": _GPU.max_blocks_per_sm,
    "shared_bytes_reserved": _GPU.shared_bytes_reserved,
}
ATTRIBUTE_VALUES: Final[Mapping[int, int]] = {
    number: _VALUES[name] for name, number in ATTRIBUTES.items()
}
