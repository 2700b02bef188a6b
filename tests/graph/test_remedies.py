"""Remedies in messages: options of commands become fields of a request."""

import pytest

from ansorpy.graph.remedies import (
    HOSTED,
    as_fields,
    as_options,
    bind_option,
    extent_options,
    is_binding,
    shape_option,
)


@pytest.mark.parametrize(
    ("told", "fields"),
    [
        (bind_option("batch", "1"), '"bind": {"batch": 1}'),
        (f"a constant, as by {bind_option('sr')} {bind_option('a b')}",
         'a constant, as by "bind": {"sr": VALUE} "bind": {"a b": VALUE}'),
        (f"as in {extent_options('batch')}", 'as in "bind": {"batch": 1}'),
        (shape_option("x"), '"shapes": {"x": [1, 3, 224, 224]}'),
        (f"expected {HOSTED}, which lets NumPy compute it",
         'expected "hosted": true, which lets NumPy compute it'),
        ("cannot read the model", "cannot read the model"),
    ],
)  # fmt: skip
def test_options_become_fields(told: str, fields: str) -> None:
    assert as_fields(told) == fields
    assert as_fields(fields) == fields


def test_a_message_that_asks_for_a_value_or_a_shape_is_known_in_both_wordings() -> None:
    for told in (bind_option("batch", "1"), bind_option("sr"), shape_option("x")):
        assert is_binding(told)
        assert is_binding(as_fields(told))
    assert not is_binding("operator 'Foo' is not known; expected one of docs/operators.md")
    assert not is_binding(f"expected {HOSTED}, which lets NumPy compute it")


def test_a_command_tells_options_again() -> None:
    for told in ("--bind batch=1", "--shape x=1,3,224,224", f"or {HOSTED} and --bind n=VALUE"):
        assert as_options(as_fields(told)) == told
    assert as_options('the nearest is "budget"') == 'the nearest is "budget"'
