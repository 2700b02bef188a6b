"""Reports of a survey process about the slots of a cluster: untrusted data, checked here."""

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, ConfigDict, Field, field_validator

from ansorpy.server.schemas.base import MAX_FLOAT, Wire

MOST_SLOTS: Final = 10_000
MOST_CORES: Final = 4_096
LONGEST_REASON: Final = 500  # characters

State = Literal["idle", "busy", "resting", "left"]
Word = Annotated[str, Field(max_length=255, pattern=r"^[!-~]([ -~]*[!-~])?$|^$")]
Count = Annotated[int, Field(ge=0, le=2**40)]
Moment = Annotated[
    AwareDatetime, Field(ge=datetime(2000, 1, 1, tzinfo=UTC), le=datetime(2200, 1, 1, tzinfo=UTC))
]
Seconds = Annotated[float, Field(ge=0, le=MAX_FLOAT)]


class _Report(Wire):
    model_config = ConfigDict(extra="ignore")  # a newer survey may tell more


class SlotWork(_Report):
    """The question that a slot answers."""

    tenant: Word
    job: Word
    method: Word
    trials: Count
    seconds: Seconds


class SlotReport(_Report):
    """A slot; `busy_s`, `up_s` and `trials` are totals since it started."""

    name: Annotated[Word, Field(min_length=1)]
    host: Word
    address: Word
    kind: Word
    version: Word
    cores: Annotated[list[Annotated[int, Field(ge=0, lt=2**20)]], Field(max_length=MOST_CORES)]
    state: State
    until: Literal[""] | Moment
    doing: SlotWork | None
    waiting: Count
    busy_s: Seconds
    up_s: Seconds
    trials: Count
    drift: Annotated[float, Field(ge=0, le=MAX_FLOAT)] | None


class SurveyReport(_Report):
    """The slots of a cluster, or the reason why there are none to tell."""

    slots: Annotated[list[SlotReport], Field(max_length=MOST_SLOTS)]
    reason: str = ""

    @field_validator("slots")
    @classmethod
    def _named_once(cls, slots: list[SlotReport]) -> list[SlotReport]:
        if len({slot.name for slot in slots}) < len(slots):
            raise ValueError("two slots have one name")
        return slots

    @field_validator("reason")
    @classmethod
    def _printable(cls, reason: str) -> str:
        plain = reason.encode("ascii", "replace").decode()
        return "".join(letter if letter.isprintable() else " " for letter in plain)[:LONGEST_REASON]
