"""Reading and simplifying models of tenants: in a child process, confined and bounded."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, Final

from pydantic import ValidationError

from ansorpy.errors import GraphError, RunError
from ansorpy.graph.remedies import as_fields
from ansorpy.importers.child import ChildAnswer, ReadLimits, ask_child
from ansorpy.importers.limits import read_request
from ansorpy.measure.sandbox.isolation import Mode, isolation_for
from ansorpy.server.jobs.errors import NotInstalledError
from ansorpy.server.schemas.model import ModelFacts, SimplifyReport
from ansorpy.server.service import model_child
from ansorpy.server.service.model_child import SIMPLIFIED
from ansorpy.server.service.slots import Slots
from ansorpy.te.bindings import Bound

MAX_REFUSAL: Final = 500  # characters
GROWTH: Final = 2  # times the model that the simplified file may take
CHILD: Final = model_child.__name__


@dataclass(frozen=True)
class ModelReader:
    """Children that read models; `readers` bounds their number, `slots` the simplifications."""

    sandbox: Mode
    limits: ReadLimits
    slots: Slots
    readers: BoundedSemaphore = field(default_factory=partial(BoundedSemaphore, 2))

    def check_installed(self) -> None:
        """Raise NotInstalledError if no model can be read here."""
        try:
            isolation_for(self.sandbox)
        except RunError as error:
            raise NotInstalledError(str(error)) from error

    def describe(self, path: Path) -> ModelFacts:
        """Return the facts of a model file, alone in its folder.

        Raises:
            GraphError: the file is no model, or a limit ended its reader.
        """
        with self.readers:
            answer = self._ask("describe", path, read_request(hosted=True), 0)
        reply = _objects(answer)
        if "facts" not in reply:
            raise GraphError(_told(answer, reply))
        reason = as_fields(answer.refusal or str(reply.get("refusal", "")))
        try:
            return ModelFacts.model_validate(
                {**reply["facts"], "refusal": reason[:MAX_REFUSAL] or None}
            )
        except (TypeError, ValidationError):
            raise GraphError(_told(answer, {})) from None

    def simplify(
        self,
        path: Path,
        bind: Bound,
        shapes: Mapping[str, Sequence[int]],
        exact: bool,
    ) -> tuple[SimplifyReport, Path]:
        """Return the report, and the simplified file beside the model, which is alone there.

        Raises:
            GraphError: the model cannot be read, both models differ, or a limit ended the child.
        """
        request = {**read_request(bind, shapes), "exact": exact}
        written_bytes = GROWTH * path.stat().st_size + (1 << 20)
        with self.readers:
            answer = self._ask("simplify", path, request, written_bytes)
        found = _objects(answer)
        made = path.with_name(SIMPLIFIED)
        if answer.refusal or "report" not in found or not made.is_file() or made.is_symlink():
            raise GraphError(_told(answer, found))
        try:
            return SimplifyReport.model_validate(found["report"]), made
        except ValidationError:
            raise GraphError(_told(answer, {})) from None

    def _ask(
        self, function: str, path: Path, request: Mapping[str, Any], written_bytes: int
    ) -> ChildAnswer:
        isolation = isolation_for(self.sandbox)
        folder = str(path.parent)
        orders = isolation.orders(
            folder=folder, programs=False, binds=False, reads=(), early="", seeds=""
        )

        def wrap(command: list[str]) -> list[str]:
            return isolation.wrap(command, "/", 0, early=folder)

        return ask_child(
            f"{CHILD}:{function}", path, {**request, "sandbox": dict(orders)}, self.limits,
            written_bytes=written_bytes, wrap=wrap,
        )  # fmt: skip


def _objects(answer: ChildAnswer) -> dict[str, Any]:
    """Return the objects of all lines as one; lines that are none are left out."""
    objects: dict[str, Any] = {}
    for line in answer.lines:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict):
            objects.update(told)
    return objects


def _told(answer: ChildAnswer, reply: Mapping[str, Any]) -> str:
    told = answer.refusal or reply.get("error")
    if isinstance(told, str):
        return as_fields(told)
    return "cannot read the model because its reader gave no answer; expected another model"
