"""A tuning of Dags for people, with progress on a terminal and a result at the end."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

from ansorpy.events import Event
from ansorpy.progress import ignore, reporter, told
from ansorpy.records import RecordStore
from ansorpy.result import Result, records_of
from ansorpy.state.rule import Rule
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.interrupts import follow
from ansorpy.tuner.options.targets import target_for
from ansorpy.tuner.options.tune_options import LocalOptions
from ansorpy.tuner.parts.stores import store_of
from ansorpy.tuner.requests.own_kernels import Given
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run


def tune_dags(
    dags: Sequence[Dag],
    options: LocalOptions,
    target: Target | str | None = None,
    *,
    rules: tuple[Rule, ...] | None = None,
    store: RecordStore | str | None = None,
    out: PathLike[str] | str | None = None,
    own: Given = (),
    progress: bool | None = None,
    on_event: Callable[[Event], object] = ignore,
) -> Result:
    """Tune checked Dags and return their verified kernels; `ansorpy.tune` explains the arguments.

    A KeyboardInterrupt ends the search: the best so far is raced, verified and returned, with
    `stopped == "interrupted"`. It is raised if there is nothing to return, and in the final race.

    Raises:
        SpecError: the request is wrong.
        KeyboardInterrupt: there was one, and there is nothing to return.
    """
    machine = target_for(target, options.cores)
    request = Request.of(options, tuple(dags), machine, own=own)
    kept = store_of(store)
    folder = None if out is None else Path(out)
    events = run(request, rules, kept, folder)
    with told(reporter, progress, on_event) as tell:
        last = follow(events, tell)
    records = records_of(last.results, kept)
    return Result(last.results, last.seconds, last.stopped, last.networks, records, machine)
