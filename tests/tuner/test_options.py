"""Every surface of a tuning has the options of `TuneOptions`, and stored jobs stay readable."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import ansorpy
from ansorpy.errors import SpecError
from ansorpy.frontends.tc.text import parse
from ansorpy.server.cli import app
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.schemas.job import Budget, JobRequest
from ansorpy.target import Target
from ansorpy.tuner.options.option import definitions
from ansorpy.tuner.options.tune_options import LocalOptions, TuneOptions, job_fields, options_of
from ansorpy.tuner.requests.request import Request
from tests.tuner.options_trace import trace

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = parse("def mm(float(4,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
SOME: dict[str, Any] = {
    "trials": 7, "seconds": 1.5, "target_latency_s": 1e-3, "stop_if_gain_below": 0.01,
    "weights": {"mm": 2.0}, "cores": 2, "seed": 5, "fresh": True, "allow": ["winograd2"],
    "without": ["SplitPhases"],
}  # fmt: skip
# Written by release 0.1.
DEFAULT_SHA256 = "036a8ee0e187425f8929f4414851033fcef13644828c64ce6ca9a32ea4f20925"
SOME_SHA256 = "2f0db7a7c9ff3ef398cc48f7e7289b7942199a116508cca43f4934d85b0ca1c3"
DEFAULT_WORKLOAD = "9280c27ff564cf9027d28263313c1350fe9954c18dfddb56667932eb71ea9db3"
SOME_WORKLOAD = "faba9b5e7c3d1a035983c6b4788d04d6873497bcdbc2046d2595c05d09ebe3c4"


def some_submission() -> Submission:
    return Submission(MM, target="t", priority=-3, text="def mm...", **SOME)


@pytest.mark.parametrize("name", definitions(LocalOptions))
def test_every_option_is_a_keyword_of_tune(name: str) -> None:
    one = definitions(LocalOptions)[name]
    parameter = inspect.signature(ansorpy.tune).parameters[name]
    assert (parameter.kind, parameter.default) == (inspect.Parameter.KEYWORD_ONLY, one.default)
    assert f"    {name}: {one.option.help[:40]}" in (inspect.getdoc(ansorpy.tune) or "")


@pytest.mark.parametrize("name", definitions(TuneOptions))
def test_every_option_of_a_job_is_a_keyword_of_submit(name: str) -> None:
    parameters = inspect.signature(ansorpy.Client.submit).parameters
    assert parameters[name].default == definitions(TuneOptions)[name].default


@pytest.mark.parametrize(("command", "kind"), [("tune", LocalOptions), ("submit", TuneOptions)])
def test_every_option_is_an_option_of_the_command(command: str, kind: type[TuneOptions]) -> None:
    loaded = get_command(app).loaded(command)  # type: ignore[attr-defined]
    found = {one.name: one for one in loaded.params}
    for name, one in definitions(kind).items():
        assert found[name].help == one.option.help


def test_every_option_is_a_field_of_a_job() -> None:
    for name, one in definitions(TuneOptions).items():
        field = (Budget if one.option.budget else JobRequest).model_fields[name]
        assert field.description == one.option.help
        default = field.get_default(call_default_factory=True)
        assert default == (list(one.default) if one.shape == "names" else one.default)


def test_options_come_back_from_the_fields_of_a_job() -> None:
    options = TuneOptions(**SOME, patience=9)
    assert options_of(job_fields(options)) == options
    body = {"text": "def mm...", **job_fields(options)}
    assert JobRequest.model_validate(body).options() == options


def test_documents_and_digests_of_stored_jobs_are_those_of_release_0_1() -> None:
    assert Submission(MM).sha256 == DEFAULT_SHA256
    assert Submission(MM).workload == DEFAULT_WORKLOAD
    assert some_submission().sha256 == SOME_SHA256
    assert some_submission().workload == SOME_WORKLOAD


def test_a_later_option_tells_jobs_apart() -> None:
    assert Submission(MM, patience=9).workload != Submission(MM).workload
    assert Submission.of(Submission(MM, patience=9).document).patience == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allow": "winograd2"}, "allow 'winograd2' because it is a text; expected a sequence"),
        ({"trials": "16"}, "trials '16' because it is a text; expected a number"),
        ({"patience": 0}, "patience 0; expected at least 1 and at most 1000000"),
        ({"stop_if_gain_below": 1.0}, "stop_if_gain_below 1.0; expected above 0 and below 1"),
        ({"seconds": float("inf")}, "seconds inf; expected above 0"),
        ({"weights": {"mm": -1.0}}, "weights mm=-1.0; expected above 0"),
    ],
)
def test_a_value_out_of_bounds_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=f"cannot tune with {message}"):
        Request(MM, Target(), **options)


@pytest.mark.slow
def test_few_files_hold_the_options_and_no_call_leads_upward(tmp_path: Path) -> None:
    found = trace(tmp_path)
    assert "tuner/tune.py" in found.files
    assert len(found.files) <= 15, sorted(found.files)
    assert not found.upward
