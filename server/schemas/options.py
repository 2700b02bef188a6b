"""The options of a tuning as fields of a job, made from their definitions (ADR-0105)."""

from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, create_model

from ansorpy.model.options import model_definitions
from ansorpy.server.schemas.base import NAME_PATTERN, Whole, Wire
from ansorpy.tuner.options.option import Definition, OptionLimits, definitions
from ansorpy.tuner.options.tune_options import TuneOptions

MAX_WORD: Final = 64  # characters of the name of a plug-in
MAX_DOCUMENT: Final = 64 * 1024  # characters of a document as text


def field_of(known: Definition) -> tuple[Any, Any]:
    """Return the type and the default of a field of a shape."""
    limits, text = known.limits(of_service=True), known.option.help
    match known.shape:
        case "numbers by name":
            number = Annotated[float, Field(**_bounds(limits))]
            key = Annotated[str, Field(pattern=limits.pattern or NAME_PATTERN)]
            mapping = Annotated[dict[key, number], Field(max_length=limits.items)]
            return mapping, Field(default_factory=dict, description=text)
        case "names":
            word: Any = Annotated[str, Field(pattern=limits.pattern or None)]
            name = Literal[limits.words] if limits.words else word
            names = Annotated[list[name], Field(max_length=limits.items)]  # type: ignore[valid-type]
            return names, Field(default_factory=list, description=text)
        case "document":
            words = Annotated[str, Field(max_length=MAX_DOCUMENT)]
            return dict[str, Any] | words | None, Field(default=None, description=text)
        case "value":
            return _value_type(known, limits), Field(default=known.default, description=text)


def _value_type(known: Definition, limits: OptionLimits) -> Any:
    kinds = get_args(known.type) or (known.type,)
    kind = next(kind for kind in kinds if kind is not NoneType)
    if kind is str:
        form = Field(pattern=limits.pattern, max_length=MAX_WORD)
        return Literal[limits.words] if limits.words else Annotated[str, form]
    extra = [Whole] if kind is int else []
    value: Any = Annotated[(kind, *extra, Field(**_bounds(limits)))]
    return value | None if NoneType in kinds else value


def _bounds(limits: OptionLimits) -> dict[str, Any]:
    return {"ge": limits.least, "gt": limits.above, "le": limits.most, "lt": limits.below}


def _fields(budget: bool) -> dict[str, Any]:
    known = (*definitions(TuneOptions).values(), *model_definitions().values())
    return {one.name: field_of(one) for one in known if one.option.budget is budget}


BudgetFields: Final[Any] = create_model(
    "BudgetFields",
    __base__=Wire,
    **_fields(budget=True),
)
OptionFields: Final[Any] = create_model(
    "OptionFields",
    __base__=Wire,
    **_fields(budget=False),
)
