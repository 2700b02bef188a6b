"""Hostile documents are refused with their place, in bounded memory and time."""

import json
import re
import resource
from pathlib import Path

import pytest

from ansorpy.errors import GraphError, SpecError
from ansorpy.graph.wire.read import from_json, loads
from ansorpy.importers.limits import check_file
from ansorpy.importers.model_file import read_model
from tests.graph.wire.hostile import BUILT, READ, TEXTS, chain, valid

MOST_TEXT = 1500  # characters of a message
MOST_KIB = 200_000  # growth of the process while one document is refused


def refusal(of: object) -> str:
    """Return the message with which a document, or a text of one, is refused."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SpecError) as error:
        (loads(of) if isinstance(of, str) else from_json(of)).graph()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KIB
    assert len(str(error.value)) < MOST_TEXT
    return str(error.value)


def test_the_document_that_the_others_are_made_of_is_valid() -> None:
    assert [node.op for node in from_json(valid()).graph().nodes] == ["Conv", "Reshape"]
    assert len(from_json(chain(1000)).graph().nodes) == 1000


@pytest.mark.parametrize("name", READ)
def test_a_hostile_document_is_refused_by_its_reader(name: str) -> None:
    make, text = READ[name]
    document = make()
    assert re.search(text, refusal(document), re.DOTALL), refusal(document)


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_is_refused(name: str) -> None:
    text, message = TEXTS[name]
    assert re.search(message, refusal(text), re.DOTALL), refusal(text)


@pytest.mark.parametrize("name", BUILT)
def test_a_hostile_graph_is_refused_by_its_operators(name: str) -> None:
    make, text = BUILT[name]
    document = make()
    from_json(document)  # the reader has no objection
    assert re.search(text, refusal(document), re.DOTALL), refusal(document)


def test_a_child_refuses_a_hostile_document(tmp_path: Path) -> None:
    path = tmp_path / "evil.graph.json"
    for name in ("an unknown operator", "doubling"):
        make, text = BUILT[name]
        path.write_text(json.dumps(make()))
        with pytest.raises(GraphError, match=text):
            check_file(path)
    path.write_text(json.dumps(valid()))
    check_file(path)
    assert len(read_model(path).nodes) == 2


def test_extents_of_a_document_are_not_bound(tmp_path: Path) -> None:
    path = tmp_path / "m.graph.json"
    path.write_text(json.dumps(valid()))
    with pytest.raises(GraphError, match=r"cannot bind or shape m\.graph\.json"):
        read_model(path, bind={"batch": 1})
