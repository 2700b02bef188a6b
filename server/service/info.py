"""Information about the service: readiness, targets, rules, workers, counts."""

import inspect
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, Literal

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from ansorpy.errors import SpecError
from ansorpy.measure.host import local_target
from ansorpy.records import target_digest
from ansorpy.rewrites.capabilities import capabilities
from ansorpy.server.db.engine import now, reading, sqlite_path
from ansorpy.server.db.models import JobRow, RecordRow
from ansorpy.server.db.sqlite_file import is_full
from ansorpy.server.jobs import machines, slots
from ansorpy.server.jobs.states import MOVES
from ansorpy.server.schemas.service import (
    Capabilities,
    CapabilityReply,
    ClusterReply,
    Machines,
    RateReply,
    Ready,
    RuleReply,
    RuleSet,
    RuleSets,
    SlotActivity,
    SlotReply,
    TargetCapabilities,
    TargetReply,
    Targets,
    WorkerReply,
    Workers,
)
from ansorpy.state.rule import Rule, name_of
from ansorpy.target import Target
from ansorpy.tuner.rule_sets.files import load_rules, rule_folder
from ansorpy.tuner.rule_sets.sets import find_rules, registered
from ansorpy.tuner.tasks.identity import rules_name

TEXT_CHARS: Final = 400  # characters of a rule's docstring, so that two sets fit a small reply


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """Use cases of `routes.info`."""

    engine: Engine
    rules_dir: Path | None = None
    data_dir: Path | None = None  # None: not looked at

    def disk(self) -> Literal["ok", "full"]:
        """Return whether the disks of the data folder and of a SQLite file have room."""
        file = sqlite_path(self.engine.url.render_as_string(hide_password=False))
        folders = filter(None, (self.data_dir, file and file.parent))
        return "full" if any(map(is_full, folders)) else "ok"

    def ready(self) -> Ready:
        """Query the database, and return the number of living workers."""
        with reading(self.engine) as tx:
            count = len(machines.workers(tx, now(tx)))
        return Ready(database=self.engine.dialect.name, workers=count, disk=self.disk())

    def targets(self) -> Targets:
        """Return the targets of the living workers."""
        with reading(self.engine) as tx:
            found = machines.targets(tx, now(tx))
        return Targets(targets=[TargetReply(target=t, facts=dict(f)) for t, f in found.items()])

    def capabilities(self) -> Capabilities:
        """Return the instructions of this processor and of the targets of the living workers."""
        own = local_target(None)
        counts = Counter[str]()
        targets: dict[str, Target] = {target_digest(own): own}
        with reading(self.engine) as tx:
            for row in machines.workers(tx, now(tx)):
                served = machines.served(row)
                targets = {**served, **targets}
                counts.update(list(served))
        return Capabilities(
            targets=[
                TargetCapabilities(
                    target=name,
                    name=target.names[-1],
                    service=name == target_digest(own),
                    workers=counts[name],
                    instructions=[
                        CapabilityReply(
                            name=one.name,
                            computes=one.computes,
                            available=not one.lacks,
                            reason=one.lacks,
                            in_source=one.in_source,
                        )
                        for one in capabilities(target)
                    ],
                )
                for name, target in targets.items()
            ]
        )

    def workers(self, tenant_id: int) -> Workers:
        """Return the living workers, without the ids of jobs of other tenants."""
        with reading(self.engine) as tx:
            rows = machines.workers(tx, now(tx))
            mine = _own_jobs(tx, tenant_id, (row.job_id for row in rows))
        return Workers(
            workers=[
                WorkerReply(
                    id=row.id,
                    host=row.host,
                    pid=row.pid,
                    state=row.state,
                    job=row.job_id if row.job_id in mine else None,
                    target=row.target,
                    facts=json.loads(row.facts),
                    started_s=row.started_s,
                    heartbeat_s=row.heartbeat_s,
                    jobs_done=row.jobs_done,
                )
                for row in rows
            ]
        )

    def machines(self, tenant_id: int) -> Machines:
        """Return the slots of clusters, without the ids of jobs of other tenants."""
        with reading(self.engine) as tx:
            now_s = now(tx)
            known = list(slots.slots(tx, now_s))
            jobs = (slot.report.doing.job for slot in known if slot.report.doing)
            mine = _own_jobs(tx, tenant_id, jobs)
            clusters = [
                ClusterReply(address=row.cluster, reason=row.reason, seen_s=row.seen_s)
                for row in slots.surveys(tx, now_s)
            ]
            rates = [RateReply(**asdict(rate)) for rate in slots.rates(tx, now_s)]
        return Machines(clusters=clusters, slots=[_slot(slot, mine) for slot in known], rates=rates)

    def rules(self) -> RuleSets:
        """Return every registered rule set, and the rules of every file that can be loaded."""
        sets = [rule_set(kind, find_rules(kind)) for kind in registered()]
        with suppress(SpecError):  # `ansorpy doctor` reports a bad folder
            for name, path in rule_folder(self.rules_dir).items():
                with suppress(SpecError):
                    found = load_rules(path)
                    sets += [rule_set(f"{kind}+{name}", found.rules) for kind in found.kinds]
        return RuleSets(sets=sets)

    def facts(self) -> Iterator[tuple[str, str, str, Mapping[str, float]]]:
        """Yield the gauges of the database for `http.metrics`."""
        with reading(self.engine) as tx:
            by_state = dict.fromkeys(MOVES, 0.0)
            count = select(JobRow.state, func.count()).group_by(JobRow.state)
            by_state |= {state: float(number) for state, number in tx.execute(count)}
            last = tx.scalar(select(func.max(RecordRow.seq))) or 0
            states: dict[str, float] = {}
            for worker in machines.workers(tx, now(tx)):
                states[worker.state] = states.get(worker.state, 0.0) + 1
            by_slot = Counter[str](slot.report.state for slot in slots.slots(tx, now(tx)))
        yield "ansorpy_jobs", "Jobs, by state.", "state", by_state
        yield "ansorpy_workers", "Living workers, by state.", "state", states
        yield "ansorpy_slots", "Slots of clusters, by state.", "state", dict(by_slot)
        yield "ansorpy_records", "Number of the last record.", "kind", {"trial": float(last)}


def _own_jobs(tx: Session, tenant_id: int, ids: Iterable[str | None]) -> set[str]:
    """Return the jobs of a tenant among `ids`."""
    named = JobRow.id.in_(set(filter(None, ids)))
    return set(tx.scalars(select(JobRow.id).where(JobRow.tenant_id == tenant_id, named)))


def _slot(slot: slots.KnownSlot, own_jobs: Collection[str]) -> SlotReply:
    report = slot.report
    told = report.model_dump(exclude={"until", "doing", "busy_s"})
    doing = None
    if report.doing:
        job = report.doing.job if report.doing.job in own_jobs else None
        doing = SlotActivity(job=job, **report.doing.model_dump(exclude={"tenant", "job"}))
    until_s = report.until.timestamp() if report.until else None
    return SlotReply(
        **told, cluster=slot.cluster, until_s=until_s, busy=slot.busy, doing=doing,
        seen_s=slot.seen_s,
    )  # fmt: skip


def rule_set(kind: str, rules: tuple[Rule, ...]) -> RuleSet:
    """Return the wire model of a rule set."""
    return RuleSet(kind=kind, version=rules_name(kind, rules), rules=list(map(_rule, rules)))


def _rule(rule: Rule) -> RuleReply:
    text = inspect.getdoc(type(rule)) or ""
    return RuleReply(
        name=name_of(rule),
        parameters=_parameters(rule),
        summary=text.partition("\n")[0][:TEXT_CHARS],
        text=text[:TEXT_CHARS],
    )


def _parameters(rule: Any) -> dict[str, str]:
    names = [field.name for field in fields(rule)] if is_dataclass(rule) else []
    return {name: repr(getattr(rule, name)) for name in names}
