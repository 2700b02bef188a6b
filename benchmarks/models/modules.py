"""The torch modules of the ladder, for `ansorpy bench --module FILE:NAME`: weights as exported.

The caller seeds torch with `ladder.SEED` before each call, as the export does.
"""

from typing import Any, Final

from benchmarks.models.ladder import bert, vision
from benchmarks.models.ladder import gpt2 as _gpt2
from benchmarks.models.ladder import minilm as _minilm

NAMES: Final = ("resnet18", "mobilenet_v2", "resnet50", "minilm", "gpt2", "bert_base")


def resnet18() -> Any:
    """Return ResNet-18."""
    return vision("resnet18")()[0]


def mobilenet_v2() -> Any:
    """Return MobileNet v2."""
    return vision("mobilenet_v2")()[0]


def resnet50() -> Any:
    """Return ResNet-50."""
    return vision("resnet50")()[0]


def minilm() -> Any:
    """Return all-MiniLM-L6-v2."""
    return _minilm()[0]


def gpt2() -> Any:
    """Return GPT-2."""
    return _gpt2()[0]


def bert_base() -> Any:
    """Return BERT."""
    return bert()[0]
