"""Wrong bodies of POST /v1/jobs: the answer names the field and the expected value only."""

import json
from collections.abc import Callable, Iterator
from shutil import copyfile
from typing import Any

import pytest

from ansorpy.server.schemas.job import Budget, JobRequest
from tests.server.databases import Cluster
from tests.server.hostile import dag
from tests.server.service import MM, Service, service

SECRET = "swordfish"
FIELDS = ", ".join(JobRequest.model_fields)[:40]
DIGEST = "0" * 64
NAME = "a name: a letter or _, then at most 62 letters, digits or _"


def text(**fields: Any) -> Any:
    return {"text": MM, **fields}


def budget(**fields: Any) -> Any:
    return text(budget=fields)


def dags(**changes: Any) -> Any:
    return {"dags": [{**dag(), **changes}]}


def node(**changes: Any) -> Any:
    one = dag()
    one["nodes"][2].update(changes)
    return {"dags": [one]}


def operand(value: Any) -> Any:
    one = dag()
    one["nodes"][2]["body"][0]["a"] = value
    return {"dags": [one]}


# Bodies that are no JSON, or no JSON that is accepted; the place, and the expected text.
UNREADABLE: Any = [
    (b"", "line 1, column 1 of the body", "one JSON object in UTF-8"),
    (b"{", "line 1, column 2 of the body", "a key in double quotes"),
    (b'{"text": swordfish}', "line 1, column 10 of the body", "a value: an object, a list"),
    (b'{"text": "x" "seed": 1}', "line 1, column 14 of the body", "a comma, or the end"),
    (b'{"text":\n "x",\n "seed" 1}', "line 3, column 9 of the body", "a colon after the key"),
    (b'{"text": "a\\q"}', "line 1, column 12 of the body", "an escape of JSON"),
    (b'{"text": "swordfish', "line 1, column 10 of the body", "a double quote at the end"),
    (b'{"text": "x"} swordfish', "line 1, column 15 of the body", "the end of the body"),
    (b'{"text":\n"sword\xff"}', "line 2, byte 7 of the body", "UTF-8"),
    (b'{"seed": 1, "seed": 2}', "seed", "each key once"),
    (b'{"swordfish": 1, "swordfish": 2}', "?", "each key once"),
    (b'{"budget": {"trials": NaN}}', "budget.trials", "finite numbers"),
    (b'{"budget": {"seconds": 1e999}}', "budget.seconds", "finite numbers"),
    (b'{"seed": ' + b"7" * 50 + b"}", "seed", "at most 40 digits"),
    (b"[" * 5000, "body", "an object of few levels"),
    (b'{"bind": {' + b",".join(b'"s%d": 1' % n for n in range(1025)) + b"}}", "bind",
     "at most 1024 keys"),
]  # fmt: skip
# Values that do not match the schema of a job.
UNFIT: Any = [
    ([SECRET], "", "an object"),
    ({}, "", "exactly one of text, dags, model and graph"),
    (text(dags=[dag()]), "", "exactly one of text, dags, model and graph"),
    (text(bugdet={}), "?", "the nearest is budget"),
    (text(trials=5), "?", "the nearest is budget.trials"),
    (text(swordfish=5), "?", FIELDS),
    (budget(trails=5), "budget.?", "the nearest is trials"),
    ({"text": 3}, "text", "a string"),
    (text(budget=SECRET), "budget", "an object"),
    (budget(trials=-1), "budget.trials", "a number of at least 0"),
    (budget(trials=SECRET), "budget.trials", "an integer"),
    (budget(objective=SECRET), "budget.objective", "'latency', 'speedup' or 'throughput'"),
    (budget(tasks=["sword fish"]), "budget.tasks.0", NAME),
    (budget(task_targets_s={SECRET: "x"}), "budget.task_targets_s.?", "a number"),
    (budget(network_targets_s={"sword fish": 1}), "budget.network_targets_s.?", NAME),
    (budget(trials_per_task=5), "budget.trials_per_task", "a model or a graph with budget.trials"),
    (text(cores="swordfish"), "cores", "an integer"),
    (text(priority=1000), "priority", "a number of at most 100"),
    (text(fresh="swordfish"), "fresh", "true or false"),
    (text(allow=["sword/fish"]), "allow.0", "the name of rules: at most 40 letters, digits"),
    (text(without=["sword fish"]), "without.0", "the name of a rule: at most 40 letters"),
    (text(weights={"sword fish": 1}), "weights.?", "TASK or NETWORK/TASK"),
    (text(bind={SECRET: "x"}), "bind.?", "a number"),
    (text(bind={"N": 1.5}), "bind", "positive integers"),
    (text(shapes={SECRET: [4]}), "shapes", "a model or a graph with shapes"),
    ({"model": SECRET}, "model", "64 hexadecimal digits in lower case"),
    ({"graph": {}, "bind": {SECRET: 3}}, "bind", "no bind and no shapes"),
    ({"graph": {}}, "graph.ansorpy_graph", "a value"),
    ({"dags": []}, "dags", "at least 1 entries"),
    ({"dags": [SECRET]}, "dags.0", "an object"),
    (dags(nods=[SECRET]), "dags.0.?", "the nearest is nodes"),
    (dags(nodes=SECRET), "dags.0.nodes", "a list"),
    (node(kind=SECRET), "dags.0.nodes.2.kind", "placeholder, constant or compute"),
    (node(bodyy=[]), "dags.0.nodes.2.?", "the nearest is body"),
    (node(name=SECRET * 30), "dags.0.nodes.2.name", "at most 63 characters"),
    (operand({"reed": SECRET}), "dags.0.nodes.2.body.0.a", "an object with one of const, var"),
]
# Values that match the schema, and break a rule.
BROKEN: Any = [
    (budget(tasks=[SECRET]), "budget.tasks", "mm"),
    (text(without=[SECRET]), "without", "SplitPhases"),
    (text(allow=[SECRET]), "allow", "winograd2, winograd4"),
    (text(weights={SECRET: 1}), "weights", "mm"),
    (budget(task_targets_s={SECRET: 1}), "budget", "mm"),
    (text(target=SECRET), "target", "cpu"),
    ({"text": f"def {SECRET}(float(N) A) -> (B) {{ B(i) = A(i) }}"}, "text:1:21",
     '"bind": {"N": 512}'),
]  # fmt: skip


@pytest.fixture(scope="module")
def running(
    template: Callable[[Cluster | None], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    place = tmp_path_factory.mktemp("wrong") / "ansorpy.db"
    copyfile(template(None).removeprefix("sqlite:///"), place)
    with service(f"sqlite:///{place}") as found:
        yield found


def words(value: Any) -> str:
    return value if isinstance(value, str) else ""


def refused(running: Service, body: Any) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body)
    reply = running.client.post("/v1/jobs", content=content)
    assert reply.status_code == 422, reply.text
    assert "sword" not in reply.text, "a problem does not repeat the request"
    assert "--" not in reply.text, "a problem does not speak of options of a command"
    return reply.json()


@pytest.mark.parametrize(("body", "place", "expected"), [*UNREADABLE, *UNFIT], ids=words)
def test_a_wrong_body_is_refused_at_its_place(
    running: Service, body: Any, place: str, expected: str
) -> None:
    told = refused(running, body)
    mistake = told["errors"][0]
    assert (told["code"], mistake["place"]) == ("shape", place)
    assert expected in mistake["expected"]
    shown = place.removesuffix("?").rstrip(".") or "the request"
    assert told["detail"].startswith("cannot take a field of " if place == "?" else "cannot take ")
    assert shown in told["detail"]
    assert f"; expected {mistake['expected']}" in told["detail"]


@pytest.mark.parametrize(("body", "place", "expected"), BROKEN, ids=words)
def test_a_broken_rule_names_its_field(
    running: Service, body: Any, place: str, expected: str
) -> None:
    told = refused(running, body)
    (mistake,) = told["errors"]
    assert (told["code"], mistake["place"]) == ("spec", place)
    assert expected in mistake["expected"]
    assert mistake["expected"] in told["detail"]


def test_every_field_is_the_nearest_to_its_name_with_a_typo(running: Service) -> None:
    for name in JobRequest.model_fields:
        told = refused(running, text(**{f"{name}s_": 1}))
        assert told["errors"][0]["expected"].endswith(f"; the nearest is {name}"), name
    for name in Budget.model_fields:
        told = refused(running, budget(**{f"{name}_": 1}))
        assert told["errors"][0]["expected"].endswith(f"; the nearest is {name}"), name
