"""Slow tasks of a model: untuned ones get answers, others are timed in pieces, too."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Final

from ansorpy.cost.explained import SUSPECT, explained_s
from ansorpy.events import Stopped
from ansorpy.model.compilation import LEAST_SHARE, Compilation, Tune, tuning_request
from ansorpy.model.events import Cutting, ModelEvent, Recut

MOST_CUT: Final = 8  # tasks that are cut, the largest shares first: pieces take seconds


def answered(
    work: Compilation, tune: Tune, folder: Path, stopped: Stopped
) -> Generator[ModelEvent, None, Stopped]:
    """Yield the events of answers of tasks that have untuned kernels so far; return the end.

    The seconds of the race are spent on them: against an untuned kernel a library wins.
    """
    before, late = 0, untuned(work)
    while late and len(late) != before and stopped != "interrupted":
        count, before = work.budget.answered(), len(late)
        if not count:
            break
        dags = [work.dag(name) for name in late[:count]]
        seconds = work.budget.late_answers_s()
        request = tuning_request(work, dags, trials=0, seconds=seconds, weights={})
        stopped = (yield from work.follow(tune(request, folder))).stopped
        late = untuned(work)
    return stopped


def untuned(work: Compilation) -> list[str]:
    """Return the tasks with untuned kernels that are worth a trial, the largest share first."""
    shares = {
        name: count * work.libraries[name].best_s / work.model_s
        for name, count in work.tasks.weights.items()
        if name in work.results and work.results[name].winner == "baseline"
    }
    worth = [name for name, share in shares.items() if share >= LEAST_SHARE]
    return sorted(worth, key=shares.__getitem__, reverse=True)


def mended(
    work: Compilation, tune: Tune, folder: Path, stopped: Stopped
) -> Generator[ModelEvent, None, Stopped]:
    """Yield the events of first answers of slow tasks, cut into pieces; return the end.

    A task is cut if it takes SUSPECT times the seconds that its bytes and operations explain, and
    a share of the model that is worth trials. The faster form stays: no trial is spent on
    the slower form.
    """
    asked, every = work.request, work.tasks.dags
    work.tasks = replace(work.fastest(work.times_s()), dags=every)
    times_s, weights, model_s = work.times_s(), work.tasks.weights, work.model_s
    usual_s = {name: explained_s(work.dag(name), asked.target) for name in weights}
    slow = [
        name
        for name, count in weights.items()
        if count * times_s.get(name, 0.0) >= LEAST_SHARE * model_s
        and times_s.get(name, 0.0) > SUSPECT * usual_s[name]
        and work.results[name].winner == "tuned"
    ]
    slow.sort(key=lambda name: -weights[name] * times_s[name])
    cut = work.tasks.in_pieces(work.partition.graph, slow[:MOST_CUT])
    if not cut.cuts:
        return stopped
    cuts = {one.whole.task: one for one in cut.cuts}
    pieces = {name: [cut.parts[n].task for n in one.members] for name, one in cuts.items()}
    if work.budget.searched(1):
        new = [dag for dag in cut.dags if dag.name not in times_s]
        yield Cutting(tuple(cuts), len(cut.dags), tuple(new))
        work.tasks = cut
        work.cut_from |= {
            dag.name: name for name in cuts for dag in new if dag.name in pieces[name]
        }
        if new:
            request = tuning_request(work, new, trials=0, seconds=work.budget.cuts_s(), weights={})
            stopped = (yield from work.follow(tune(request, folder))).stopped
        times_s = work.times_s()
    for name, parts in pieces.items():
        known = [times_s[part] for part in parts if part in times_s]
        sum_s = sum(known) if len(known) == len(parts) else None
        work.recuts.append(Recut(name, times_s[name], usual_s[name], len(parts), sum_s))
        yield work.recuts[-1]
    return stopped
