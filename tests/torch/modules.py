"""Small modules with seeded weights, each with example arguments: the oracle is torch itself."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Block(nn.Module):  # type: ignore[misc]
    """A residual block as in ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


class Inverted(nn.Module):  # type: ignore[misc]
    """An inverted residual as in MobileNet v2: 1x1, depthwise, 1x1."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = 3 * channels
        self.layers = nn.Sequential(
            nn.Conv2d(channels, wide, 1),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, padding=1, groups=wide),
            nn.ReLU6(),
            nn.Conv2d(wide, channels, 1),
        )

    def forward(self, x: Any) -> Any:
        return x + self.layers(x)


class Encoder(nn.Module):  # type: ignore[misc]
    """One layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.norm = nn.LayerNorm(32)
        self.feed = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def heads(self, x: Any) -> Any:
        return x.reshape(x.shape[0], x.shape[1], 4, 8).transpose(1, 2)

    def forward(self, x: Any) -> Any:
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        x = self.norm(x + (weights @ v).transpose(1, 2).reshape(x.shape))
        return x + self.feed(x)


class TwoResults(nn.Module):  # type: ignore[misc]
    """A dictionary, a tuple and constants as result, a keyword argument, a constant argument."""

    def forward(self, x: Any, power: int, *, scale: Any) -> Any:
        return {"scaled": x * scale, "pair": (x**power, None, scale), "power": power}


def convolutions() -> tuple[Any, tuple[Any, ...]]:
    tail = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    head = nn.Conv2d(3, 8, 3, stride=2, padding=1)
    model = nn.Sequential(head, nn.MaxPool2d(2), Block(8), Inverted(8), *tail)
    return model, (torch.randn(1, 3, 16, 16),)


def perceptron() -> tuple[Any, tuple[Any, ...]]:
    return nn.Sequential(nn.Linear(48, 64), nn.Tanh(), nn.Linear(64, 10), nn.Softmax(-1)), (
        torch.randn(4, 48),
    )


def encoder() -> tuple[Any, tuple[Any, ...]]:
    return Encoder(), (torch.randn(2, 6, 32),)


MODULES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "convolutions": convolutions, "perceptron": perceptron, "encoder": encoder,
}  # fmt: skip


def made(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a module in evaluation mode and its example arguments, always the same."""
    torch.manual_seed(0)
    module, args = MODULES[name]()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):  # the initial statistics change nothing
            nn.init.uniform_(part.running_mean, -0.5, 0.5)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    return module.eval(), args
