"""The frame of a section: the device, a control kernel, rows in JSON, each with the card's state.

A row is timed by replays of a graph. One sample of the control kernel lies between any two
samples; its spread tells how steady the card was. With the emulated driver a row has no
figure: its seconds stand under `emulated_s`, and nothing prints them.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from ansorpy.codegen.simt import device
from ansorpy.codegen.simt.device.facts import facts_of
from ansorpy.codegen.simt.device.kernel import DeviceCode
from ansorpy.loopir.nodes import Buffer
from ansorpy.measure.backend import DEVICE, TimedCall
from ansorpy.measure.verify.inputs import Array
from ansorpy.target import GpuTarget
from ansorpy.te.tensor_data import storage
from benchmarks.common import commit, today
from benchmarks.cuda.kernels import Candidate, Prebuilt, candidates
from benchmarks.cuda.operators import SMALL_CANDIDATES, Operator
from benchmarks.cuda.sensors import Sensors, library_call
from benchmarks.cuda.texts import Floor, multiply_adds
from tests.emulation import device as emulation

SAMPLES: Final = 20  # samples of a row, each between two of the control kernel
SAMPLE_S: Final = 2e-4  # least length of a sample: an event has a resolution of half a microsecond
BUDGET_S: Final = 2.0  # length of all samples of a row: long rows have fewer, three at least
HOPELESS: Final = 5.0  # times the best of an operator, from which a candidate has three samples
LEAST: Final = 3
EMULATED: Final = "tests.emulation.device"
CONTROL: Final = "control"
Row = dict[str, Any]


def control(sms: int) -> Floor:
    """Return the control kernel: multiply-adds on all SMs for about 30 us; 0 SMs: one block."""
    return multiply_adds(8 * sms, 64) if sms else multiply_adds(1, 1)


class Bench:
    """A section under way.

    Args:
        out: folder of the result `SECTION.json`.
        emulated: use the emulated driver, on small sizes.
        prebuilt: folder of kernels made beforehand.
    """

    def __init__(self, section: str, out: Path, emulated: bool, prebuilt: Path | None) -> None:
        self.section, self.out, self.emulated = section, out, emulated
        self.start_s = time.monotonic()
        self.backend = EMULATED if emulated else DEVICE
        self.module: Any = emulation if emulated else device
        self.driver = self.module.driver()
        self.facts = facts_of(self.driver, self.driver.device)
        self._sensors = Sensors(None if emulated else library_call(), self.facts.pci_address)
        self._prebuilt = Prebuilt(prebuilt) if prebuilt else None
        self._rows: list[Row] = []
        self._arrays: WeakKeyDictionary[TimedCall, Sequence[Array]] = WeakKeyDictionary()
        floor = control(0 if emulated else self.facts.gpu.sms)
        self._control = self.bound(self.floor_code(floor, CONTROL))
        self._write("running")

    @property
    def target(self) -> GpuTarget:
        """The target of the GPU."""
        return self.facts.target

    def floor_code(self, floor: Floor, name: str) -> DeviceCode:
        """Return the images of a kernel of known work."""
        if self._prebuilt and self._prebuilt.has(name):
            return self._prebuilt.read(name)[0].code
        return self.module.build_texts(floor.code, self.target.cpu)  # type: ignore[no-any-return]

    def candidates(self, operator: Operator) -> tuple[Candidate, ...]:
        """Return own kernels of an operator."""
        if self._prebuilt and self._prebuilt.has(operator.name):
            return self._prebuilt.read(operator.name)
        count = SMALL_CANDIDATES if self.emulated else operator.candidates
        dag = operator.dag(self.emulated)
        return candidates(operator.name, dag, self.target, count, self.module.build_texts)

    def bound(self, code: DeviceCode, arrays: Sequence[Array] = ()) -> TimedCall:
        """Return kernels as a call on arrays, random numbers if none are given.

        Zeros would be faster: a card takes less power for them, and keeps higher clocks.
        """
        held = list(arrays) or self.arrays_of(code)
        call: TimedCall = self.module.load(code).bind([one.ctypes.data for one in held])
        self._arrays[call] = held
        return call

    @staticmethod
    def arrays_of(code: DeviceCode) -> list[Array]:
        """Return an array of random numbers for every buffer."""
        return [_filled(one) for one in code.buffers]

    def time(
        self,
        name: str,
        call: TimedCall,
        work: Mapping[str, float],
        best_s: float | None = None,
        **more: object,
    ) -> float:
        """Time a call with warm and with flushed L2, add its row, and return its warm median.

        Args:
            work: of a call, by name and unit, such as `flop` or `memory_bytes`; rates follow.
            best_s: the best of the operator: a call that is far slower has fewer samples.
        """
        call.seconds(1)  # the first replay uploads the graph
        once_s = max(call.seconds(1), 1e-9)
        hopeless = best_s is not None and once_s > HOPELESS * best_s
        most = 2 if self.emulated else SAMPLES
        afford = LEAST if hopeless else max(LEAST, int(BUDGET_S / once_s))
        samples = min(most, afford)
        loops = 1 if self.emulated else max(1, ceil(SAMPLE_S / once_s))
        cold = call.cold()
        controls, warm, flushed = [], [], []
        for _ in range(samples):
            controls.append(self._control.seconds(loops) / loops)
            warm.append(call.seconds(loops) / loops)
            controls.append(self._control.seconds(loops) / loops)
            flushed.append(cold.seconds(1))
        controls.append(self._control.seconds(loops) / loops)
        row = {
            "warm": self._times(warm, work, loops),
            "flushed": self._times(flushed, work, 1),
            "control": self._times(controls, {}, loops),
            "hopeless": hopeless,
            **more,
        }
        self.add(name, row)
        return median(warm)

    def _times(self, times: Sequence[float], work: Mapping[str, float], loops: int) -> Row:
        told: Row = {"samples": len(times), "loops": loops}
        if self.emulated:
            return {**told, "times": "emulated", "emulated_s": median(times)}
        middle = median(times)
        rates = {f"{unit}_per_s": amount / middle for unit, amount in work.items()}
        spread = {"median_s": middle, "least_s": min(times), "most_s": max(times)}
        return {**told, **spread, **rates}

    def add(self, name: str, row: Mapping[str, object]) -> None:
        """Add a row with the state of the card now, and write the file."""
        card = asdict(self._sensors.read())
        small = {"size": "small"} if self.emulated else {}  # the name tells the full size
        self._rows.append({"name": name, **small, **row, "card": card})
        self._write("running")

    def end(self) -> None:
        """Write that the section is complete."""
        self._write("complete")

    def _write(self, state: str) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        found = {
            "section": self.section,
            "state": state,
            "emulated": self.emulated,
            "date": today(),
            "commit": commit(),
            "device": {**asdict(self.facts), "driver_version": self._sensors.driver()},
            "rows": self._rows,
        }
        path = self.out / f"{self.section}.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(found, indent=1))
        part.rename(path)


@lru_cache(maxsize=4)  # candidates of an operator share them; only the device writes to copies
def _filled(buffer: Buffer) -> Array:
    """Return an array for a buffer: floats from -0.5 to 0.5, or small integers."""
    rng, dtype = np.random.default_rng(0), storage(buffer.dtype)
    if buffer.dtype in ("float32", "float64"):
        return np.asarray(rng.random(buffer.extents, dtype) - dtype.type(0.5))
    return rng.integers(0, 4, buffer.extents).astype(dtype)
