"""Run the kernels of a zip for a GPU: NumPy arrays are copied, arrays of the device are not.

The texts of `harness.py`, `codegen/simt/driver.py`, `device_arrays.py` and this file, each below
its marker line, are copied into the zip as `driver.py`.
"""

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ansorpy.artifact.device_arrays import DeviceArray, device_view
from ansorpy.artifact.harness import (
    READY,
    Array,
    Runner,
    TensorSpec,
    Test,
    fresh,
    matched,
    reference_of,
    refill,
    stored_dtype,
    usable,
)
from ansorpy.codegen.simt.driver import (
    NO_CODE,
    Device,
    DeviceMemory,
    Driver,
    DriverError,
    Module,
    bound_launch,
)

# --- device runner: the same in every zip for a GPU ---

MOST = {  # limits of a launch, the same for all architectures
    "blocks": 2**31 - 1,
    "threads": 1024,
    "shared_bytes": 227 * 1024,
    "dynamic_bytes": 227 * 1024,
}
DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
MOST_BUFFERS, MOST_LAUNCHES = 4096, 4096
MOST_BYTES = 1 << 40  # bytes of all buffers


def checked_table(cuda: Any) -> tuple[list[TensorSpec], list[Any]]:
    """Return the buffers and the launches of a manifest, after a check of every number.

    Raises:
        ValueError: names the field that no kernel for a GPU has.
    """
    _require(isinstance(cuda, Mapping), "buffers")
    buffers: Any = cuda.get("buffers")
    launches: Any = cuda.get("launches")
    _require(_is_list(buffers, MOST_BUFFERS), "buffers")
    _require(_is_list(launches, MOST_LAUNCHES), "launches")
    tensors = [_buffer(one) for one in buffers]
    _require(len({tensor.name for tensor in tensors}) == len(tensors), "buffers")
    total = sum(math.prod(tensor.shape) * stored_dtype(tensor.dtype).itemsize for tensor in tensors)
    _require(total <= MOST_BYTES, "buffers")
    for k, launch in enumerate(launches):
        _require(isinstance(launch, Mapping) and launch.get("name") == f"phase{k}", "launches.name")
        for name, most in MOST.items():
            least = 0 if name.endswith("bytes") else 1
            _require(_is_number(launch.get(name), least, most), f"launches.{name}")
        _require(launch["dynamic_bytes"] <= launch["shared_bytes"], "launches.dynamic_bytes")
        _require(type(launch.get("ahead")) is bool, "launches.ahead")
        given = launch.get("arguments")
        _require(_is_list(given, MOST_BUFFERS), "launches.arguments")
        known = all(_is_number(at, 0, len(tensors) - 1) for at in given)
        _require(known, "launches.arguments")
    return tensors, list(launches)


def _buffer(entry: Any) -> TensorSpec:
    roles = ("input", "weight", "constant", "output", "scratch")
    _require(isinstance(entry, Mapping) and isinstance(entry.get("name"), str), "buffers.name")
    _require(entry.get("dtype") in DTYPES, "buffers.dtype")
    _require(entry.get("role") in roles, "buffers.role")
    shape, span = entry.get("shape"), entry.get("span")
    _require(
        _is_list(shape, 64) and all(_is_number(n, 0, MOST_BYTES) for n in shape), "buffers.shape"
    )
    _require(
        span is None or (_is_list(span, 2) and [type(end) for end in span] == [int, int]),
        "buffers.span",
    )
    return TensorSpec(
        entry["name"], entry["dtype"], tuple(shape), entry["role"], tuple(span) if span else None
    )


def _require(holds: bool, field: str) -> None:
    if not holds:
        raise ValueError(f"the manifest has no usable cuda.{field}")


def _is_list(value: Any, most: int) -> bool:
    return isinstance(value, list) and len(value) <= most


def _is_number(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


class LoadedModule:
    """The loaded kernels of a zip on a device, and their launches.

    Args:
        folder: an unpacked zip.
        number: of the device.

    Raises:
        DriverError: no driver, no device, or the driver takes neither the cubin nor the PTX.
        ValueError: the manifest is damaged.
    """

    def __init__(self, folder: Path, number: int = 0) -> None:
        cuda = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["cuda"]
        self.tensors, self.launches = checked_table(cuda)
        self.device = Device(Driver(), number)
        self.device.enter()
        self.code, self.module = self._loaded(folder)
        self.kernels = [
            self.module.kernel(launch["name"], launch["dynamic_bytes"]) for launch in self.launches
        ]

    def _loaded(self, folder: Path) -> tuple[str, Module]:
        """Return the name and the module of the code for the device: a cubin if one fits."""
        major, minor = self.device.capability
        for other in range(minor, -1, -1):  # a cubin runs on later minor versions, too
            path = folder / f"kernel.sm_{major}{other}.cubin"
            if path.exists():
                try:
                    return path.name, Module(self.device, path.read_bytes())
                except DriverError as error:
                    if error.code != NO_CODE:
                        raise
        return "kernel.ptx", Module(self.device, (folder / "kernel.ptx").read_bytes())

    def bound(self, addresses: Mapping[str, int], ahead: bool) -> list[Callable[[], None]]:
        """Return the launches over buffers at these addresses, by name."""
        return [
            bound_launch(
                self.device.driver.call, kernel, launch["blocks"], launch["threads"],
                launch["dynamic_bytes"],
                [addresses[self.tensors[at].name] for at in launch["arguments"]],
            )
            for kernel, launch in zip(self.kernels, self.launches, strict=True)
            if launch["ahead"] is ahead
        ]  # fmt: skip


class DeviceCall:
    """A call of the kernels on these arrays; arrays of the host are copied.

    Args:
        room: by name, memory of the device that may be reused.
    """

    def __init__(
        self, runner: "DeviceRunner", room: dict[str, Any], inputs: Sequence[Any], out: Any
    ) -> None:
        self.kernels, self.room, self.out = runner.kernels, room, out
        self.kernels.device.enter()
        given = out if isinstance(out, tuple) else (out,) * (out is not None)
        _counted(runner.inputs, inputs, "")
        if out is not None:
            _counted(runner.outputs, given, " in out")
        self.addresses: dict[str, int] = {}
        self.kept: list[Any] = [inputs, given]  # their memory stays while a kernel may use it
        self.sources: list[tuple[TensorSpec, Array]] = []  # arrays of the host
        self.targets: dict[str, Array] = {}
        for tensor, array in zip(runner.inputs, inputs, strict=True):
            if not self._lies_there(tensor, array, ""):
                self.sources += matched([tensor], [array])
        self.on_device = len(self.sources) < len(runner.inputs)
        self.results = [tensor for tensor in runner.outputs if out is None]
        for tensor, array in zip(runner.outputs, given, strict=False):
            if not self._lies_there(tensor, array, " in out"):
                self.targets[tensor.name] = _target(tensor, array)
                self.results.append(tensor)
        self._require_apart(runner)
        self._reserve()
        self.launches = self.kernels.bound(self.addresses, ahead=False)
        if runner.weighted or READY not in room:  # work on weights and constants only is done once
            self._prepare(runner.constants)
            room[READY] = True

    def _prepare(self, constants: Mapping[str, Array]) -> None:
        for name, values in constants.items():
            self.room[name].fill_from(values.ctypes.data)
        self._fill(weights=True)
        for launch in self.kernels.bound(self.addresses, ahead=True):
            launch()

    def _lies_there(self, tensor: TensorSpec, array: Any, place: str) -> bool:
        """Note the address of an array of the device; return whether it is one."""
        found = device_view(tensor, array, place)
        if found is not None:
            self.addresses[tensor.name] = found.address
            self.kept.append(found)
        return found is not None

    def _require_apart(self, runner: "DeviceRunner") -> None:
        """Refuse a target on the device that overlaps another array: kernels read it meanwhile."""
        lying = [t for t in (*runner.inputs, *runner.outputs) if t.name in self.addresses]
        for target in [tensor for tensor in lying if tensor in runner.outputs]:
            start, size = self.addresses[target.name], _size_bytes(target)
            for other in lying:
                at = self.addresses[other.name]
                if other is not target and at < start + size and start < at + _size_bytes(other):
                    raise ValueError(
                        f"cannot run because {target.name} in out overlaps {other.name}; expected"
                        " memory of its own"
                    )

    def _reserve(self) -> None:
        """Give every other buffer its memory in the room."""
        for tensor in self.kernels.tensors:
            if tensor.name in self.addresses:
                continue
            if tensor.name not in self.room:
                memory = DeviceMemory(self.kernels.device, _size_bytes(tensor))
                self.room[tensor.name] = memory
            self.addresses[tensor.name] = self.room[tensor.name].address

    def _fill(self, weights: bool) -> None:
        for tensor, array in self.sources:
            if (tensor.role == "weight") is weights:
                source = np.ascontiguousarray(array)
                self.room[tensor.name].fill_from(source.ctypes.data)

    def __call__(self) -> Any:
        """Run; return the results when they are complete."""
        self.kernels.device.enter()
        self._fill(weights=False)
        for launch in self.launches:
            launch()
        self.kernels.device.synchronize()
        found = tuple(self._result(tensor, self.room[tensor.name]) for tensor in self.results)
        if self.out is not None:
            return self.out
        return found if len(found) > 1 else found[0]

    def _result(self, tensor: TensorSpec, memory: DeviceMemory) -> Any:
        """Return the array in `out`, or a new result, on the device if an input lay so."""
        target = self.targets.get(tensor.name)
        if target is None and self.on_device:
            result = DeviceArray(self.kernels.device, tensor)
            result.memory.copy_from(memory)
            return result
        whole = (
            target if target is not None and usable(target) else fresh(tensor.shape, tensor.dtype)
        )
        memory.copy_to(whole.ctypes.data)
        if target is not None:
            refill(target, whole)
        return whole


def _size_bytes(tensor: TensorSpec) -> int:
    return math.prod(tensor.shape) * int(stored_dtype(tensor.dtype).itemsize)


def _counted(tensors: Sequence[TensorSpec], given: Sequence[Any], place: str) -> None:
    if len(given) != len(tensors):
        matched(tensors, given, place)


def _target(tensor: TensorSpec, array: Any) -> Array:
    name = f"cannot run because {tensor.name} in out"
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is neither a NumPy array nor an array of the device")
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only; expected an array to write to")
    return matched([tensor], [array], " in out")[0][1]


class DeviceRunner(Runner):
    """Calls the kernels of a folder on arrays of the host or of the device.

    The driver is opened at the first call, so that a machine without a GPU can import the file.

    Args:
        folder: an unpacked zip.
        number: of the device.
    """

    def __init__(self, folder: Path, number: int = 0) -> None:
        super().__init__(**_facts(folder, _on_the_device, _on_the_device))
        self.folder, self.number, self.lock = folder, number, threading.Lock()
        self._kernels: LoadedModule | None = None

    @property
    def kernels(self) -> LoadedModule:
        """The loaded kernels."""
        with self.lock:
            if self._kernels is None:
                self._kernels = LoadedModule(self.folder, self.number)
            return self._kernels

    def run(self, *inputs: Any, out: Any = None) -> Any:
        """Return the output array, or a tuple if there are several, when they are complete.

        Every thread keeps its memory for intermediates, and for copies of arrays, between calls.

        Args:
            inputs: NumPy arrays, which are copied to the device, or contiguous arrays of the
                device (`__cuda_array_interface__` or DLPack), which are read in place.
            out: the array (or tuple of arrays) to write to and return. Unless given: new ones,
                `DeviceArray` if an input lies on the device, else of NumPy.

        Raises:
            DriverError: no driver, no device, or a call of the driver failed.
            TypeError: another number of arrays, another dtype, or `out` is neither kind of array.
            ValueError: another shape, a strided array of the device, or a read-only `out`.
        """
        return DeviceCall(self, self.rooms.__dict__, inputs, out)()

    def prepare(self, *inputs: Any, out: Any = None) -> Callable[[], Any]:
        """Return a function without arguments that runs on these very arrays, as `run` does.

        Work that depends on weights and constants only is done here, once; arrays may change in
        place between calls, weights may not. Nothing is copied if all arrays lie on the device.
        """
        return DeviceCall(self, {}, inputs, out)

    def bench(self, seconds: float = 1.0) -> list[float]:
        """Return wall times of calls on arrays of the device in seconds, fastest first."""
        device = self.kernels.device
        device.enter()
        drawn = self.random_inputs(np.random.default_rng(0))
        inputs = [
            DeviceArray(device, tensor).filled(array)
            for tensor, array in zip(self.inputs, drawn, strict=True)
        ]
        call = self.prepare(*inputs, out=tuple(DeviceArray(device, t) for t in self.outputs))
        call()
        times_s: list[float] = []
        end_s = time.perf_counter() + seconds
        while len(times_s) < 5 or time.perf_counter() < end_s:
            begin_s = time.perf_counter()
            call()
            times_s.append(time.perf_counter() - begin_s)
        return sorted(times_s)


def host_runner(folder: Path, launch: Callable[..., None], ahead: Callable[..., None]) -> Runner:
    """Return a Runner of functions that take arrays of the host, for the kernels of a folder."""
    return Runner(**_facts(folder, launch, ahead))


def _facts(folder: Path, launch: Callable[..., None], ahead: Callable[..., None]) -> dict[str, Any]:
    """Return the arguments of a Runner by the manifest of a folder."""
    facts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    tensors, _ = checked_table(facts["cuda"])
    stored = facts["verification"]
    low, high = stored["inputs"]
    return {
        "tensors": tensors,
        "inputs": [one["name"] for one in facts["inputs"]],
        "outputs": [one["name"] for one in facts["outputs"]],
        "constants": _constants(folder, facts["constants"], tensors),
        "launch": launch,
        "ahead": ahead,
        "reference": lambda *arrays: reference_of(folder)(*arrays),
        "test": Test(low, high, tuple(stored["tolerances"]), stored["exact_on_integers_up_to"]),
        "flop": facts["flop"],
    }


def _on_the_device(*_: Array) -> None:
    raise RuntimeError("kernels for a GPU take addresses of the device; call run or prepare")


def _constants(
    folder: Path, listed: Sequence[str], tensors: Sequence[TensorSpec]
) -> dict[str, Array]:
    names = [tensor.name for tensor in tensors if tensor.role == "constant"]
    if not names:
        return {}
    with np.load(folder / "constants.npz", allow_pickle=False) as stored:
        return {name: stored[f"c{listed.index(name)}"] for name in names}
