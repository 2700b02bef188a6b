"""Models: facts, pages, requests and reports of a simplification."""

from typing import Annotated, Final

from pydantic import AfterValidator, Discriminator, Field, Tag

from ansorpy.errors import SpecError
from ansorpy.server.schemas.base import Digest, Whole, Wire, integral
from ansorpy.te.bindings import FORMS, MOST_CHARS, range_of, range_parts, range_text

MAX_NAME: Final = 200
FILE_NAME: Final = r"^[^\x00-\x1f\x7f/\\]{0,128}$"
Bound = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Number = Annotated[float, Field(ge=-(2**31), le=2**31), AfterValidator(integral)]


def _checked_range(text: str) -> str:
    """Return the text of a range in the form that equal ranges share."""
    try:
        range_parts(text)
    except ValueError:
        raise ValueError(f"a number, or a range such as {FORMS}") from None
    try:
        return range_text(range_of("N", text))
    except SpecError as error:  # it has numbers of the request, no words
        raise ValueError(str(error).rpartition("; expected ")[2]) from None


Range = Annotated[
    str,
    Field(max_length=MOST_CHARS, description=f"A range that each call decides: {FORMS}."),
    AfterValidator(_checked_range),
]
# One kind of value is checked, so that a mistake is reported once.
Value = Annotated[
    Annotated[Number, Tag("number")] | Annotated[Range, Tag("range")],
    Discriminator(lambda value: "range" if isinstance(value, str) else "number"),
]
Bindings = Annotated[dict[Bound, Value], Field(max_length=64)]
Extents = Annotated[list[Annotated[int, Whole, Field(ge=0, le=2**31 - 1)]], Field(max_length=16)]


class ModelTensor(Wire):
    """An input or output of a model."""

    name: str
    dtype: str
    shape: list[int | str] = Field(description="Extents; symbolic ones by name.")


class ModelFacts(Wire):
    """Facts of an ONNX file, as a confined child process read them."""

    node_count: int
    operators: dict[str, int] = Field(
        description="Number of nodes by operator; the most frequent operators."
    )
    inputs: list[ModelTensor] = Field(description="The first inputs; weights are none.")
    outputs: list[ModelTensor] = Field(description="The first outputs.")
    input_count: int
    output_count: int
    refusal: str | None = Field(
        description="Reason why the model cannot be compiled as it is, without values of symbolic"
        " extents; null if it can."
    )


class ModelReply(ModelFacts):
    """A model: size, time of the first PUT, facts."""

    sha256: str
    name: str = Field(default="", description="Name of its file; empty if no upload told it.")
    size_bytes: int
    created_s: float


class ModelSummary(Wire):
    """One row of the list of models."""

    sha256: str
    name: str = Field(default="", description="As of the model.")
    size_bytes: int
    created_s: float
    node_count: int
    refused: bool = Field(description="Whether the model has a refusal.")


class ModelPage(Wire):
    """One page of models, newest first."""

    models: list[ModelSummary]
    next: int | None = Field(description="`before` of the next page; null at the end.")


class SimplifyRequest(Wire):
    """A stored model to simplify, with values of its symbolic extents."""

    model: Digest = Field(description="The digest of a model of /v1/models.")
    bind: Bindings = Field(
        default_factory=dict, description="Values of symbolic extents and scalar inputs."
    )
    shapes: Annotated[dict[Bound, Extents], Field(max_length=64)] = Field(
        default_factory=dict, description="Shapes of inputs."
    )


class PassFired(Wire):
    """The sites of a pass over all rounds, and the number of nodes that are gone."""

    name: str
    sites: int
    nodes_removed: int = Field(description="Negative if a pass adds nodes for later passes.")


class SimplifyReport(Wire):
    """The nodes of a model before and after the passes that fired, and the check of both files."""

    before: dict[str, int] = Field(description="Number of nodes by operator.")
    after: dict[str, int]
    fired: list[PassFired] = Field(description="In the order of their first change.")
    compared_by: str = Field(description="The evaluator of the comparison.")
    error: float = Field(
        description="Largest difference of an output on random inputs, as a share of its largest"
        " element."
    )
    error_of_original: float | None = Field(
        description="Against float64, if `error` is large: then the roundings of the model differ."
    )
    error_of_simplified: float | None


class SimplifyReply(SimplifyReport):
    """The report, and the simplified file by its digest."""

    sha256: str
    size_bytes: int
    link: str | None = Field(
        description="Address of the simplified file, if it was kept as a model."
    )


class PassReply(Wire):
    """A graph pass, at its position, with the texts of its documentation."""

    name: str
    exact: bool = Field(description="Whether every bit of a result stays.")
    summary: str
    condition: str
    rewrite: str
    not_handled: str
    rounding: str = Field(description="Empty for an exact pass.")
    source: str


class Passes(Wire):
    """The graph passes, in the order in which they run, again and again until none fires."""

    passes: list[PassReply]
