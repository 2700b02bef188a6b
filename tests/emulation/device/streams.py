"""Functions of the emulated driver on its stream, graphs and events."""

import time
from ctypes import c_float

from tests.emulation.device.state import (
    CAPTURE_INVALIDATED,
    CAPTURE_UNSUPPORTED,
    INVALID_HANDLE,
    INVALID_VALUE,
    SUCCESS,
    DeviceState,
    put,
)


class StreamCalls(DeviceState):
    """The functions on the stream, graphs and events."""

    def _stream_create(self, out: int, flags: int) -> int:
        return self._new(out, "stream") if flags in (0, 1) else INVALID_VALUE

    def _stream_synchronize(self, stream: int) -> int:
        if self._objects.get(stream) != "stream":
            return INVALID_HANDLE
        if self._recorded is not None:
            self._spoiled = True
            return CAPTURE_UNSUPPORTED
        return self._settled()

    def _stream_begin_capture(self, stream: int, mode: int) -> int:
        if self._objects.get(stream) != "stream" or mode not in (0, 1, 2):
            return INVALID_VALUE
        if self._recorded is not None:
            return CAPTURE_UNSUPPORTED
        self._recorded, self._spoiled = [], False
        return SUCCESS

    def _stream_end_capture(self, stream: int, out: int) -> int:
        work, self._recorded = self._recorded, None
        if work is None or self._objects.get(stream) != "stream":
            return INVALID_VALUE
        if self._spoiled:
            return CAPTURE_INVALIDATED
        return self._new(out, ("graph", tuple(work)))

    def _graph_instantiate_with_flags(self, out: int, graph: int, flags: int) -> int:
        kind, work = self._objects.get(graph, ("", ()))
        if kind != "graph" or flags:
            return INVALID_VALUE
        return self._new(out, ("executable", work))

    def _graph_launch(self, graph: int, stream: int) -> int:
        kind, work = self._objects.get(graph, ("", ()))
        if kind != "executable" or self._objects.get(stream) != "stream":
            return INVALID_HANDLE
        for one in work:
            self._do(one)
        return SUCCESS

    def _graph_destroy(self, graph: int) -> int:
        return SUCCESS if self._objects.pop(graph, None) else INVALID_HANDLE

    _graph_exec_destroy = _graph_destroy

    def _event_create(self, out: int, flags: int) -> int:
        return self._new(out, [0.0]) if not flags else INVALID_VALUE

    def _event_record(self, event: int, stream: int) -> int:
        if self._objects.get(stream) != "stream":
            return INVALID_HANDLE
        place = self._objects[event]

        def work() -> int:
            place[0] = time.perf_counter()
            return SUCCESS

        return self._do(work)

    def _event_synchronize(self, event: int) -> int:
        return self._settled() if event in self._objects else INVALID_HANDLE

    def _event_elapsed_time(self, out: int, start: int, end: int) -> int:
        (first,), (last,) = self._objects[start], self._objects[end]
        if not first or not last:
            return INVALID_HANDLE
        return put(out, c_float, 1e3 * (last - first))

    def _event_destroy(self, event: int) -> int:
        return SUCCESS if self._objects.pop(event, None) else INVALID_HANDLE
