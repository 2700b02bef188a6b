from typing import Any

import pytest

from ansorpy.errors import SpecError
from ansorpy.server.jobs.submission import read_dags
from ansorpy.server.service.redact import redacted
from tests.server.hostile import dag

SECRET = "swordfish"


def told(text: str | None = None, dags: list[Any] | None = None) -> str:
    with pytest.raises(SpecError) as caught:
        read_dags(text, dags, {})
    return redacted(str(caught.value), text, dags or (), ())


def test_words_of_a_text_are_hidden_and_its_place_is_named() -> None:
    assert (
        told(f"def {SECRET}(")
        == "text:1:15: the end of the text instead of the dtype of a parameter"
    )
    message = told(f"def f(float(4) A) -> (B) {{ B(i) = A(i) * {SECRET} }}")
    assert message.startswith("text:1:40: A(i) is float32, but (...) is int64")
    assert told(f"def f({SECRET}(4) A) -> (B) {{}}").startswith("text:1:7: dtype '(...)' is not")


def test_names_of_nodes_become_their_places() -> None:
    one = dag()
    one["nodes"][2]["name"] = SECRET
    one["outputs"] = [SECRET]
    one["nodes"][2]["body"][0]["a"]["read"] = "marlin"
    message = told(dags=[one])
    assert "dags[0].nodes[2]" in message
    assert SECRET not in message
    assert "marlin" not in message


def test_limits_and_numbers_stay() -> None:
    one = dag()
    one["nodes"][0]["shape"] = [2**31, 5]
    assert told(dags=[one]) == ("node 'A': extent 0 is 2147483648, not an integer 1 to 2147483647")


@pytest.mark.parametrize(
    "secret", ["sw\u00f6rdfish", "\u202eabc", "sword fish", "sword-fish\n", "x" * 5000]
)
def test_no_unknown_word_is_repeated(secret: str) -> None:
    one = dag()
    one["nodes"][0]["name"] = secret
    message = told(dags=[one])
    for word in secret.replace("-", " ").split():
        assert word not in message
    assert message.isascii()


def test_a_truncated_word_is_hidden() -> None:
    one = dag()
    one["nodes"][0]["dtype"] = SECRET * 5
    long = [dict(one, name=f"{SECRET}{'q' * 50}")]
    assert SECRET not in redacted(f"dag '{SECRET}{'q' * 20}... has 0 nodes", None, long, ())
    assert SECRET not in told(dags=[one])


def test_vocabulary_words_stay() -> None:
    message = "node 'A': dtype 'x' is not supported; there are float32, int64"
    assert redacted(message, None, [dag()], ()) == message
