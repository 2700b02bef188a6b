"""Base model and common field types of the wire."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

NAME_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"
DIGEST_PATTERN: Final = "^[0-9a-f]{64}$"
MAX_FLOAT: Final = 1e9


class Wire(BaseModel):
    """Base of all wire models: strict types, finite numbers, no extra fields, frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def integral(value: Any) -> Any:
    """Return 152 for 152.0, because both are integers in JSON Schema."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


Whole = BeforeValidator(integral)
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Digest = Annotated[str, Field(pattern=DIGEST_PATTERN)]
Seconds = Annotated[float, Field(ge=0)]
