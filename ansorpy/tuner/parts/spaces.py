"""The candidates of a user in place of those that rules derive: one schedule, or a template."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.loopir.printer import text
from ansorpy.replay import plan_text
from ansorpy.schedule.knobs import Knob
from ansorpy.schedule.lowered import applied, scheduled
from ansorpy.schedule.schedule import Schedule, read_schedule
from ansorpy.schedule.template import Template, read_template
from ansorpy.search import Candidate
from ansorpy.search.strategy import SearchView
from ansorpy.state.steps import reformulations
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.plugins import SPACES, chosen_part
from ansorpy.tuner.options.tune_options import TuneOptions
from ansorpy.tuner.parts.knob_space import KnobSpace
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.search_space import OwnSpace, SearchSpace

MAX_LINES: Final = 200  # lines of a loop nest that are shown


@dataclass(slots=True)
class OneSchedule:
    """A space of one candidate: the schedule of mode manual, which is lowered by `open`."""

    schedule: Schedule
    allow: frozenset[str]
    name: str
    loops: str = ""
    candidate: Candidate | None = None
    single: bool = True

    def open(self, space: SearchSpace) -> None:
        """Lower the schedule.

        Raises:
            SpecError: a step or a size does not fit.
        """
        one = scheduled(self.schedule, space.dag, space.target, self.allow)
        self.loops = shortened(text(one.program(space.target)))
        self.candidate = Candidate(space.add_plan(one.plan, plan_text(one.plan)), one.row)
        space.allowed = frozenset(reformulations(one.plan.state))

    def propose(
        self, space: SearchSpace, view: SearchView, count: int, rng: np.random.Generator
    ) -> list[Candidate]:
        """Return the schedule unless it is measured."""
        return [] if self.candidate is None or self.candidate in view.seen else [self.candidate]

    def find(self, space: SearchSpace, plan: str, row: tuple[int, ...]) -> Candidate | None:
        """Return the schedule if it has this plan and row."""
        made = self.candidate
        same = made is not None and (space.texts[made.plan], made.row) == (plan, row)
        return made if same else None


def space_of(request: Request) -> OwnSpace | None:
    """Return the candidates that a request describes; None for mode auto.

    Raises:
        SpecError: a step or a size does not fit.
    """
    if request.mode == "auto":
        return None
    (dag,) = request.dags
    allow = frozenset(request.allow)
    if request.mode == "template":
        template = read_template(request.template)
        knobs = template.knobs(dag)
        name = digest_name("template", told_template(template, knobs, dag))
        return KnobSpace(name, template, knobs, request.tuner, allow)
    schedule = read_schedule(request.schedule)
    return OneSchedule(schedule, allow, digest_name("manual", schedule.to_json()))


def told_template(template: Template, knobs: tuple[Knob, ...], dag: Dag) -> dict[str, Any]:
    """Return the identity of a template: its form, its knobs, its first and last schedule.

    A change of functions that a template in Python calls shows in the schedules only.
    """
    document: dict[str, Any] = {"template": template.to_json()}
    document["knobs"] = {one.name: list(map(str, one.values)) for one in knobs}
    for at in (0, -1):
        values = {one.name: one.values[at] for one in knobs}
        try:
            document[f"schedule {at}"] = template.schedule(dag, values).to_json()
        except SpecError as error:  # other values may have a schedule
            document[f"schedule {at}"] = str(error)
    return document


def check_space(options: TuneOptions, dags: Sequence[Dag]) -> None:
    """Refuse a schedule whose steps do not fit, on any machine: its loops are not lowered.

    Of a template, the knobs are checked.

    Raises:
        SpecError: names the step or the knob.
    """
    if options.mode == "template":
        read_template(options.template).knobs(dags[0])
    elif options.mode == "manual":
        applied(read_schedule(options.schedule), dags[0], frozenset(options.allow))


def digest_name(mode: str, document: dict[str, Any]) -> str:
    """Return the name that records have in place of a rule set: the mode and a digest."""
    told = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return f"{mode}@{sha256(told.encode()).hexdigest()[:12]}"


def generated_name(request: Request, rules: str) -> str:
    """Return the name that records of derived or generated sketches have for the rule set.

    Args:
        rules: name and version of the rule set, which is the name unless sketches are generated.
    """
    plugin = chosen_part(SPACES, request)
    if plugin.is_ours:
        return rules
    return digest_name(plugin.name, {"generator": plugin.full_name, "rules": rules})


def shortened(loops: str) -> str:
    """Return the first lines of a loop nest, and the number of the others."""
    lines = loops.splitlines()
    more = len(lines) - MAX_LINES
    return loops if more <= 0 else "\n".join([*lines[:MAX_LINES], f"... {more} more lines"])
