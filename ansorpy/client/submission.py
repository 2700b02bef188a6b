"""The arguments of `Client.submit`, and the request that they become."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from ansorpy.frontends.json.write import to_json
from ansorpy.te.dag import Dag
from ansorpy.tuner.option import Option
from ansorpy.tuner.options import TuneOptions, job_fields


@dataclass(frozen=True, slots=True)
class SubmitCall(TuneOptions):
    """The arguments of `Client.submit`: exactly one of `text` and `dags`, and options."""

    text: Annotated[str | None, Option("Tensor Comprehensions notation; or `dags`.")] = None
    dags: Annotated[Sequence[Dag] | None, Option("Dags; or `text`.")] = None
    bind: Annotated[
        Mapping[str, int], Option('Values of the symbols of the text: `{"N": 512}`.')
    ] = field(default_factory=dict, kw_only=True)
    target: Annotated[
        str,
        Option("KIND[:ARCH] or a digest, as `targets` tells them; any worker's unless given."),
    ] = field(default="", kw_only=True)
    priority: Annotated[int, Option("Jobs of a higher priority run first.")] = field(
        default=0, kw_only=True
    )
    idempotency_key: Annotated[
        str | None,
        Option(
            "The key of this call unless given; with a key of your own, the same request from"
            " another process makes no second job."
        ),
    ] = field(default=None, kw_only=True)

    def body(self) -> dict[str, Any]:
        """Return the JSON of the request."""
        return {
            "text": self.text,
            "dags": None if self.dags is None else [to_json(dag) for dag in self.dags],
            "bind": dict(self.bind),
            "target": self.target,
            "priority": self.priority,
            **job_fields(self),
        }
