"""`ansorpy.tune`: a tuning for people, with progress on a terminal and a result at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Annotated

from ansorpy.events import Event
from ansorpy.measure.host import local_target
from ansorpy.progress import ignore, reporter, told
from ansorpy.records import RecordStore
from ansorpy.result import Result
from ansorpy.state.rule import Rule
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.experience import Experience
from ansorpy.tuner.interrupts import follow
from ansorpy.tuner.keywords import keywords_of
from ansorpy.tuner.option import Option
from ansorpy.tuner.options import LocalOptions
from ansorpy.tuner.own_kernels import Given
from ansorpy.tuner.request import Request, read_dags
from ansorpy.tuner.stores import store_of
from ansorpy.tuner.targets import named_target
from ansorpy.tuner.tune import run

__all__ = ["tune"]  # `help(ansorpy.tune)` shows it


@dataclass(frozen=True, slots=True)
class TuneCall(LocalOptions):
    """The arguments of `ansorpy.tune`."""

    what: Annotated[
        Dag | Sequence[Dag] | str,
        Option("A Dag (`te.dag(...)`), several Dags, or definitions in the text notation."),
    ]
    target: Annotated[
        Target | str | None,
        Option(
            "The machine, or its name: `cuda:sm_90`, `cuda` for the GPU that is present; this one,"
            " with `cores` threads, unless given."
        ),
    ] = None
    bind: Annotated[
        Mapping[str, int], Option('Values of the symbols of the text: `{"N": 512}`.')
    ] = field(default_factory=dict, kw_only=True)
    rules: Annotated[
        tuple[Rule, ...] | None,
        Option("The rule set; the registered one of the target unless given (docs/rules.md)."),
    ] = field(default=None, kw_only=True)
    store: Annotated[
        RecordStore | str | None,
        Option(
            "Records of earlier tunings, which are answers or warm starts, and of this one; those"
            " of the commands unless given. A name is that of an installed store: database, file,"
            " memory, or a plug-in (`ansorpy plugins`)."
        ),
    ] = field(default=None, kw_only=True)
    out: Annotated[
        PathLike[str] | str | None,
        Option("Folder of the zips; in the user's data folder unless given."),
    ] = field(default=None, kw_only=True)
    own: Annotated[
        Given,
        Option(
            "Kernels of your own for the final race: functions of arrays (NumPy, numba) or paths of"
            " delivered zips, one or several, of several tasks by name. Each that passes every"
            " check is timed beside the winner and the baselines, and told with the result."
        ),
    ] = field(default=(), kw_only=True)
    progress: Annotated[
        bool | None,
        Option(
            "Show progress on standard error: True, False, or None: only on a terminal and in"
            " Jupyter."
        ),
    ] = field(default=None, kw_only=True)
    on_event: Annotated[
        Callable[[Event], object], Option("Called with every event (`ansorpy.events`).")
    ] = field(default=ignore, kw_only=True)


@keywords_of(TuneCall)
def tune(call: TuneCall) -> Result:
    """Tune Dags (or the definitions of a text) and return their verified kernels.

    A KeyboardInterrupt ends the search: the best so far is raced, verified and returned, with
    `stopped == "interrupted"`. It is raised if there is nothing to return, and in the final race.

    Raises:
        SpecError: the request is wrong.
        KeyboardInterrupt: there was one, and there is nothing to return.
    """
    target = call.target
    if not isinstance(target, Target):
        target = local_target(call.cores) if target is None else named_target(target, call.cores)
    request = Request.of(call, read_dags(call.what, call.bind), target, own=call.own)
    store = store_of(call.store)
    folder = None if call.out is None else Path(call.out)
    events = run(request, call.rules, store, folder, experience=Experience.beside(store))
    with told(reporter, call.progress, call.on_event) as tell:
        last = follow(events, tell)
    return Result(last.results, last.seconds, last.stopped, last.networks)
