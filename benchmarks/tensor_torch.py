"""int8 and bfloat16 products in torch: a process of its own with a protocol of lines.

Run by a Python that has torch; imports nothing of ansorpy. Reads `{"n": 512}` first, then one JSON
list of names per line; answers each with `{name: seconds of the fastest call}`.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

SECONDS = 0.3  # seconds of one visit


def calls(n: int, torch: Any) -> dict[str, Callable[[], object]]:
    """Return the calls by name, without those that this build of torch lacks."""
    torch.manual_seed(0)
    a8 = torch.randint(-128, 128, (n, n), dtype=torch.int8)
    b8 = torch.randint(-128, 128, (n, n), dtype=torch.int8)
    a16 = torch.rand(n, n).to(torch.bfloat16)
    b16 = torch.rand(n, n).to(torch.bfloat16)

    def quantized() -> Callable[[], object]:
        weight = torch.quantize_per_tensor(b8.float(), 1.0, 0, torch.qint8)
        packed = torch.ops.quantized.linear_prepack(weight, None)
        given = torch.quantize_per_tensor(a8.float() + 128.0, 1.0, 128, torch.quint8)
        return lambda: torch.ops.quantized.linear(given, packed, 1000.0, 0)

    makers: dict[str, Callable[[], Callable[[], object]]] = {
        "int8 _int_mm": lambda: lambda: torch._int_mm(a8, b8),
        "int8 quantized linear, prepacked": quantized,
        "bfloat16 mm": lambda: lambda: torch.mm(a16, b16),
    }
    working = {}
    for name, make in makers.items():
        try:
            call = make()
            call()
            working[name] = call
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            print(f"{name}: {str(error)[:200]}", file=sys.stderr)
    return working


def fastest(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest call of a visit."""
    call()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def main() -> None:
    """Answer until standard input ends."""
    torch: Any = importlib.import_module("torch")
    settings = json.loads(sys.stdin.readline())
    torch.set_num_threads(settings["threads"])
    known = calls(settings["n"], torch)
    print(json.dumps({"names": list(known), "version": torch.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps({name: fastest(known[name]) for name in json.loads(line)}), flush=True)


if __name__ == "__main__":
    main()
