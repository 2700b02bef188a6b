"""The arguments of `Client.submit` and `Client.tune_model`, and the request of a job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from ansorpy.client.model import Job
from ansorpy.frontends.json.write import to_json
from ansorpy.model.options import ModelJobOptions
from ansorpy.progress import ignore
from ansorpy.te.bindings import bound_as_json
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.option import Option
from ansorpy.tuner.options.tune_options import job_fields, values


@dataclass(frozen=True, slots=True)
class SubmitCall(ModelJobOptions):
    """The arguments of `Client.submit`: one of `text`, `dags`, `model`, `graph`, and options."""

    text: Annotated[
        str | None, Option("Tensor Comprehensions notation; or `dags`, or `model`.")
    ] = None
    dags: Annotated[Sequence[Dag] | None, Option("Dags; or `text`, or `model`.")] = None
    model: Annotated[
        str | None, Option("sha256 of a model of the service (`put_model`); or `text`, or `dags`.")
    ] = field(default=None, kw_only=True)
    graph: Annotated[
        Mapping[str, Any] | None,
        Option("A model without weights, as in a .graph.json; or `text`, or `dags`, or `model`."),
    ] = field(default=None, kw_only=True)
    bind: Annotated[
        Mapping[str, float | str],
        Option('Values of symbols of the text or the model: `{"N": 512}`, or `{"N": "1..512"}`.'),
    ] = field(default_factory=dict, kw_only=True)
    shapes: Annotated[
        Mapping[str, Sequence[int]],
        Option("Shapes of inputs of the model by name: {'x': (1, 3, 224, 224)}."),
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
        body = {
            "text": self.text,
            "dags": None if self.dags is None else [to_json(dag) for dag in self.dags],
            "bind": bound_as_json(self.bind),
            "target": self.target,
            "priority": self.priority,
            **job_fields(self),
        }
        if self.model is not None:
            body["model"] = self.model
        if self.graph is not None:
            body["graph"] = dict(self.graph)
        if self.shapes:
            body["shapes"] = {name: list(shape) for name, shape in self.shapes.items()}
        if self.hosted:
            body["hosted"] = True
        if self.trials_per_task is not None:
            body["budget"]["trials_per_task"] = self.trials_per_task
        return body


@dataclass(frozen=True, slots=True)
class TuneModelCall(ModelJobOptions):
    """The arguments of `Client.tune_model`."""

    model: Annotated[Path | str, Option("A file of ONNX, without external data.")]
    out: Annotated[Path | str, Option("The bundle if the name ends in .zip, else its folder.")] = (
        field(default=".", kw_only=True)
    )
    bind: Annotated[
        Mapping[str, float | str],
        Option("Values of symbolic extents and scalar inputs by name: {'batch': 1}, {'n': '1..8'}"),
    ] = field(default_factory=dict, kw_only=True)
    shapes: Annotated[
        Mapping[str, Sequence[int]], Option("Shapes of inputs by name: {'x': (1, 3, 224, 224)}.")
    ] = field(default_factory=dict, kw_only=True)
    target: Annotated[
        str,
        Option("KIND[:ARCH] or a digest, as `targets` tells them; any worker's unless given."),
    ] = field(default="", kw_only=True)
    priority: Annotated[int, Option("Jobs of a higher priority run first.")] = field(
        default=0, kw_only=True
    )
    keep_weights_home: Annotated[
        bool,
        Option(
            "Send the graph without weights and names, and join them here with the bundle, which"
            " is then verified on this machine."
        ),
    ] = field(default=False, kw_only=True)
    on_change: Annotated[
        Callable[[Job], object], Option("Called with the job whenever it has changed.")
    ] = field(default=ignore, kw_only=True)

    def submission(self, **source: Any) -> SubmitCall:
        """Return the call that submits the model: a stored one with its extents, or a graph."""
        return SubmitCall(
            **source,
            target=self.target,
            priority=self.priority,
            **values(self, ModelJobOptions),
        )

    @property
    def bundle(self) -> Path:
        """The path of the bundle."""
        place = Path(self.out)
        return place if place.suffix == ".zip" else place / f"{Path(self.model).stem}.zip"
