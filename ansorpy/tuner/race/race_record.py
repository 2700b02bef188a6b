"""A race on record: its facts, and the record that ends the tuning."""

from dataclasses import replace

from ansorpy.artifact import Test
from ansorpy.measure.outcome import Measured
from ansorpy.records import Race, Record
from ansorpy.tuner.race.contestant import Code, Contestant
from ansorpy.tuner.race.form import RaceResult
from ansorpy.tuner.race.ranking import NAIVE, Ranking
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.trust import versions


def race_of(
    task: Task, entry: Contestant[Code], ranking: Ranking, test: Test, request: str, slowdown: float
) -> Race:
    """Return the race of a task that `ranking` ended, without facts of one delivered form alone.

    Args:
        entry: the kernel to deliver.
        test: the check of the delivered kernel.
        request: the digest of the request that the kernel answers.
        slowdown: of the machine during the race.
    """
    return Race(
        winner=ranking.winner,
        delivered="naive" if ranking.chosen == NAIVE else "tuned",
        tuned_s=ranking.tuned_s,
        naive_s=ranking.naive_s,
        numpy_s=ranking.numpy_s,
        span=(test.low, test.high),
        tolerances=test.tolerances,
        magnitude=test.magnitude,
        trials=task.history.trials + task.history.known,
        seconds=task.history.seconds,
        request=request,
        reformulated=entry.reformulated,
        errors=ranking.errors,
        flop=entry.flop,
        numpy_note=ranking.numpy_note,
        own=ranking.own,
        peers=ranking.peers,
        slowdown=slowdown,
    )


def record_of(
    task: Task, entry: Contestant[Code], race: Race, digest: str, now_s: float,
    compile_s: float = 0.0,
) -> Record:  # fmt: skip
    """Return the record of a race that delivers `entry`.

    Args:
        digest: sha256 of the delivered source in hex.
        now_s: Unix time in seconds.
        compile_s: seconds in which `entry` was compiled as it is delivered; 0.0: not known.
    """
    return Record(
        key=task.key,
        workload=task.identity.workload,
        rules=task.identity.rules,
        plan=entry.plan,
        row=entry.row,
        outcome=Measured(race.delivered_s, build_s=compile_s),
        source_sha256=digest,
        versions=versions(task.dag),
        created_s=now_s,
        race=race,
        parts=task.identity.parts,
        **task.identity.carried,
    )


def sealed(task: Task, raced: RaceResult[Code], request: str) -> RaceResult[Code]:
    """Return a race as the answer to a request, after a search that found nothing better."""
    race = raced.record.race
    assert race is not None
    trials = task.history.trials + task.history.known
    ended = replace(race, request=request, trials=trials, seconds=task.history.seconds)
    return replace(raced, record=replace(raced.record, race=ended))
