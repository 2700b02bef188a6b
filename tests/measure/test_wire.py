"""Answers are data: written values are read back, all other bytes are refused."""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest

from ansorpy.errors import WireError
from ansorpy.measure.protocols import BuildRequest
from ansorpy.measure.workers.answers import CLASSES, codec_of, limit_bytes
from ansorpy.measure.workers.codec import HEADER_BYTES, Codec
from ansorpy.measure.workers.frames import find
from tests.attack import answers


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0


def codec(kind: Any) -> Codec:
    return Codec(kind, {Point: lambda one: one.x != 13}, {})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 7), (float, 1e-9), (bool, True), (str, "Grüße\n"), (None, None), (bytes, b"\0\xff"),
        (tuple[int, ...], (1, 2, 3)), (tuple[int, str], (1, "a")), (list[float], [0.5]),
        (frozenset[int], frozenset({1, 5})), (dict[str, tuple[bytes, ...]], {"a": (b"x", b"")}),
        (Literal["a", "b"], "b"), (Colour, Colour.RED), (Point, Point(1, 2.0)),
        (Point | None, None), (Point | str | None, "text"), (int | float, 2.0),
    ],
)  # fmt: skip
def test_a_written_value_is_read_back(kind: object, value: object) -> None:
    one = codec(kind)
    header, raw = one.encode(value)
    again = one.decode(header, memoryview(raw))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    ("kind", "header"),
    [
        (int, "true"), (int, "1.0"), (int, "-1"), (int, str(2**63)), (int, '"1"'), (int, "null"),
        (float, "1"), (float, "NaN"), (float, "Infinity"), (float, "-0.5"), (float, "1e999"),
        (bool, "1"), (bool, "null"), (str, "1"), (str, '"\\u0000"'), (str, '"\\ud800"'),
        (str, json.dumps("x" * 16_385)), (None, "0"), (None, "[]"),
        (tuple[int, int], "[1]"), (tuple[int, int], "[1, 2, 3]"), (tuple[int, ...], "{}"),
        (tuple[int, ...], json.dumps([0] * 10_001)), (dict[str, int], "[]"),
        (dict[str, int], '{"a": []}'), (Literal["a"], '"b"'), (Literal["a"], "[]"),
        (Colour, '"blue"'), (Colour, "0"), (Point, "[1]"), (Point, "[13, 0.0]"), (Point, "{}"),
        (Point | None, "null"), (Point | None, "[2, null]"), (Point | None, "[-1, null]"),
        (Point | None, "[true, null]"), (Point | None, "[0]"), (int, "[" * 100_000),
        (int, "9" * 5_000), (int, ""), (int, "{"), (bytes, "1"), (bytes, "-1"), (bytes, '"x"'),
    ],
)  # fmt: skip
def test_a_header_that_the_type_does_not_describe_is_refused(kind: object, header: str) -> None:
    with pytest.raises(WireError):
        codec(kind).decode(header.encode(), memoryview(b""))


def test_raw_bytes_must_be_exactly_those_announced() -> None:
    one = codec(tuple[bytes, bytes])
    assert one.decode(b"[1, 2]", memoryview(b"abc")) == (b"a", b"bc")
    for raw in (b"ab", b"abcd"):
        with pytest.raises(WireError):
            one.decode(b"[1, 2]", memoryview(raw))


def test_bytes_that_are_no_text_and_long_headers_are_refused() -> None:
    for header in (b"\xff\xfe", b"\x80\x05N.", b" " * HEADER_BYTES + b"1"):
        with pytest.raises(WireError):
            codec(int).decode(header, memoryview(b""))


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Point, "no point"), (Point | None, 3), (float, float("nan")), (tuple[int, int], (1,))],
)
def test_a_value_of_another_type_is_not_written(kind: object, value: object) -> None:
    with pytest.raises(WireError, match="cannot send"):
        codec(kind).encode(value)


def test_a_text_is_written_so_that_it_can_be_read() -> None:
    header, raw = codec(str).encode("a\0b\ud800" + "x" * 20_000)
    assert codec(str).decode(header, memoryview(raw)).startswith("ab?xxx")


def test_a_type_outside_of_the_table_has_no_codec() -> None:
    for kind in (object, Any, complex, dict[int, int], Codec):
        with pytest.raises(TypeError, match="no value of type"):
            codec(kind)


def test_every_kind_of_answer_is_read_back() -> None:
    for function, backend, value in answers.ANSWERS:
        one = codec_of(function, BuildRequest(backend, None, None))  # type: ignore[arg-type]
        header, raw = one.encode(value)
        assert one.decode(header, memoryview(raw)) == value


def test_only_machine_code_may_be_large() -> None:
    job = answers.job_of()
    assert limit_bytes(codec_of(answers.BUILD, job)) == HEADER_BYTES + (64 << 20)
    for function in ("trial", "check", "glance_at", "time_parallel"):
        assert limit_bytes(codec_of(f"{answers.TRIAL}:{function}", job)) == HEADER_BYTES


def test_the_table_names_classes_that_exist() -> None:
    assert all(isinstance(find(name), type) for name in CLASSES)


@pytest.mark.parametrize(
    "times", [[], [0.0], [-1e-4], [1], ["1e-4"], [True], [None], [[1e-4]], [1e999]]
)
def test_impossible_times_are_refused(times: object) -> None:
    job = answers.job_of()
    trial = codec_of(f"{answers.TRIAL}:trial", job)
    good = [1, [[1e-4], 0.0, 0.0, 0.0, False, 0.0, 1.0]]
    trial.decode(json.dumps(good).encode(), memoryview(b""))
    bad = [1, [times, *good[1][1:]]]  # type: ignore[index]
    with pytest.raises(WireError):
        trial.decode(json.dumps(bad).encode(), memoryview(b""))


def test_damaged_answers_and_notes_raise_nothing_else() -> None:
    seen = answers.run(2_000, seed=7)
    assert seen["refused"] + seen["values"] == 2_000
    assert min(seen["refused"], seen["values"]) > 100  # both were tried
