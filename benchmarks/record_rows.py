"""Records of trials in PostgreSQL: seconds of inserts and queries at 10^4 to 10^7 rows.

    python -m benchmarks.record_rows [--rows 10000 1000000 10000000] [--folder FOLDER]

Runs a private PostgreSQL with fsync and its default settings, and the migrations of the service.
Bodies are records of real trials of this machine. Rows between the measured sizes are made in the
database from these bodies, with the indexes in place: each has another key, digest, date and time.
At each size batches go through `SqlStore.append`, and the queries of the service are timed. A
second tenant has the first 10,000 rows and no later row. The database of 10^7 rows takes about
30 GB in the folder of temporary files, and is deleted at the end.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

from sqlalchemy import Engine, func, select, text

from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Measured
from ansorpy.records import MEASURED, MemoryStore, Record, encode
from ansorpy.server.db.engine import connect, reading, transaction
from ansorpy.server.db.models import RecordRow, TenantRow
from ansorpy.server.db.records import PAGE, SqlStore
from ansorpy.server.db.upgrade import upgrade
from ansorpy.server.jobs import queries
from ansorpy.server.worker.journal import newest_seq
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from benchmarks.common import Results, Row, arguments, duration, publish, say, table
from benchmarks.machine import run_facts
from benchmarks.queue import fill
from benchmarks.workloads import FIVE
from tests.server.databases import cluster

PER_KEY: Final = 1000  # trials of a task
PER_STRUCTURE: Final = 10  # tasks of one structure: shapes and machines
POPULAR: Final = 100_000  # trials of one task, at 10^6 rows and above
CHUNK: Final = 100_000  # rows of one statement that makes rows
CALLS: Final = 200  # calls of a query at most
CALLS_S: Final = 8.0  # seconds of the calls of a query, after which no further one begins
BATCHES: Final = {16: 125, 64: 60}  # size -> batches that are inserted
JOBS: Final = 2000
OLD: Final = 5000  # rows of the quiet tenant, the first of the table
MACHINE: Final = "/0123456789abcdef/1"  # end of a key
TASK: Final = f"popular{MACHINE}"  # key of the task with POPULAR trials
# Places of a body that each row fills: key, structure, fastest time and date in seconds.
KEY, SEED, TIME, CREATED_S = "@key", "@structure", 0.001234567, 1234567.25

# The bodies by number; each row takes one of them, and fills its places.
BODIES: Final = "CREATE TABLE bodies (n int PRIMARY KEY, body text, timed boolean)"
MAKE: Final = f"""
WITH made AS (
    SELECT g AS n, b.timed, b.body, 1e-3 * (1 + ((g * 7919) % 99991) / 99991.0) AS cost,
        CASE WHEN :popular THEN '{TASK}' ELSE
            encode(sha256(convert_to('k' || g / {PER_KEY}, 'UTF8')), 'hex') || '{MACHINE}'
        END AS key,
        encode(sha256(convert_to('s' || g / {PER_KEY * PER_STRUCTURE}, 'UTF8')), 'hex') AS s
    FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS g
    JOIN bodies b ON b.n = g % CAST(:bodies AS bigint)
), filled AS (
    SELECT n, timed, cost, key, s, replace(replace(replace(replace(body, '{KEY}', key),
        '{SEED}', s), '{CREATED_S}', (1790000000 + n) || '.25'), '{TIME}', cost::text) AS text
    FROM made
)
INSERT INTO records (tenant_id, id, job_id, candidate, task, round, key, cost_s, failure, origin,
    structure, body)
SELECT CAST(:tenant AS bigint), encode(sha256(convert_to(text, 'UTF8')), 'hex'), jobs.id,
    encode(sha256(convert_to('candidate' || n, 'UTF8')), 'hex'), 'mm', 1 + n % {PER_KEY} / 64,
    key, CASE WHEN timed THEN cost END, CASE WHEN timed THEN NULL ELSE 'wrong' END, 'measured', s,
    text
FROM filled JOIN jobs ON jobs.seq = 1 + n / {PER_KEY} % {JOBS} ORDER BY n
"""
SIZES: Final = """
SELECT pg_table_size('records'), pg_indexes_size('records'),
    (SELECT avg(length(body)) FROM
        (SELECT body FROM records ORDER BY seq DESC LIMIT 10000) AS few)
"""


def real_records(trials: int) -> list[Record]:
    """Return the records of trials of several workloads on this machine."""
    found: list[Record] = []
    for name in ("matmul", "conv2d", "softmax", "norm"):
        store = MemoryStore()
        dag = FIVE[name]()
        asked = Request(
            (dag,), local_target(1), trials=trials, fresh=True, first_answer=False, race=False
        )
        with TemporaryDirectory() as out:
            for _ in run(asked, store=store, out=Path(out)):
                pass
        found += [one for one in store.export() if one.race is None]
    return found


def with_places(record: Record) -> Record:
    """Return a record whose key, structure, date and fastest time are places to fill."""
    outcome = record.outcome
    if isinstance(outcome, Measured):
        rest = sorted(outcome.times_s)[1:]
        outcome = replace(outcome, times_s=(TIME, *(TIME + each for each in rest)))
    return replace(record, key=KEY, structure=SEED, created_s=CREATED_S, outcome=outcome)


class Rows:
    """The table of records, which grows; `size` rows are in it."""

    def __init__(self, engine: Engine, records: Sequence[Record]) -> None:
        self.engine, self.size, self.popular = engine, 0, False
        self._records, self._numbers = records, count()
        fill(engine, JOBS, 0, 2)
        with transaction(engine) as tx:
            self.old, self.main = sorted(tx.scalars(select(TenantRow.id)))[::-1]
            tx.execute(text(BODIES))
            for number, one in enumerate(map(with_places, records)):
                timed = isinstance(one.outcome, Measured) and not one.outcome.aborted
                row = {"n": number, "body": encode(one), "timed": timed}
                tx.execute(text("INSERT INTO bodies VALUES (:n, :body, :timed)"), row)

    def grow(self, size: int) -> float:
        """Make rows up to a size; return the seconds."""
        begin_s = time.perf_counter()
        while self.size < size:
            old = self.size < OLD
            rows = min(CHUNK, size - self.size, OLD if old else size)
            popular = not self.popular and rows == POPULAR
            self.popular |= popular
            named = {"tenant": self.old if old else self.main, "bodies": len(self._records)}
            span = {"first": self.size, "last": self.size + rows - 1, "popular": popular}
            with transaction(self.engine) as tx:
                tx.execute(text("SET LOCAL synchronous_commit = off"))
                tx.execute(text(MAKE), {**named, **span})
            self.size += rows
            if self.size // CHUNK % 10 == 0:
                say(f"{self.size} rows, {duration(time.perf_counter() - begin_s)}")
        with self.engine.connect() as connection:
            found = connection.execution_options(isolation_level="AUTOCOMMIT")
            found.execute(text("VACUUM ANALYZE records"))
        return time.perf_counter() - begin_s

    def inserted(self, batch: int) -> list[float]:
        """Return the seconds of batches that a store appends, each of new records."""
        store, taken_s = SqlStore(self.engine, self.main), []
        key = f"{uuid4().hex}{uuid4().hex}{MACHINE}"
        for _ in range(BATCHES[batch]):
            new = [
                replace(one, key=key, structure=key[:64], created_s=1.8e9 + next(self._numbers))
                for one in self._records[:batch]
            ]
            begin_s = time.perf_counter()
            store.append(new, MEASURED)
            taken_s.append(time.perf_counter() - begin_s)
        self.size += batch * len(taken_s)
        return taken_s

    def sizes(self) -> Row:
        """Return bytes of the table and of its indexes per row, and characters of a body."""
        with reading(self.engine) as tx:
            heap, indexes, body = tx.execute(text(SIZES)).one()
            rows = tx.scalar(select(func.count()).select_from(RecordRow))
        return {
            "table_bytes": heap / rows, "index_bytes": indexes / rows, "body_bytes": float(body),
        }  # fmt: skip

    def queries(self) -> Mapping[str, Callable[[int], object]]:
        """Return the queries of the service by name; each takes the number of its call."""
        main, old = SqlStore(self.engine, self.main), SqlStore(self.engine, self.old)
        with reading(self.engine) as tx:
            mine = RecordRow.tenant_id == self.main
            ends = select(func.min(RecordRow.seq), func.max(RecordRow.seq)).where(mine)
            least, most = tx.execute(ends).one()
            places = [least + (most - least) * k // 97 for k in range(97)]
            picked = tx.execute(
                select(RecordRow.key, RecordRow.structure, RecordRow.job_id).where(
                    RecordRow.seq.in_(places), RecordRow.key != TASK
                )
            ).all()
            job_ids = sorted({one.job_id for one in picked if one.job_id})

        def in_tx(query: Callable[..., object], *arguments: object) -> object:
            with reading(self.engine) as tx:
                return query(tx, *arguments)

        def key(n: int) -> str:
            return str(picked[n % len(picked)].key)

        def structure(n: int) -> str:
            return str(picked[n % len(picked)].structure)

        def after(tenant: int, seq: int, job_id: str | None = None) -> object:
            return in_tx(queries.records_after, tenant, seq, PAGE, job_id)

        def job(n: int) -> str:
            return str(job_ids[n % len(job_ids)])

        rows = {
            "best trial of a task": lambda n: main.best(key(n)),
            "all trials of a task": lambda n: main.all(key(n)),
            "number of trials of a task": lambda n: main.count(key(n)),
            "best trials of a structure": lambda n: main.similar(structure(n)),
            "newest record before a job of a quiet tenant": lambda n: in_tx(newest_seq),
            "1,000 records after a number": lambda n: after(self.main, places[n % 97]),
            "records after the last of a quiet tenant": lambda n: after(self.old, OLD),
            "1,000 records of a job": lambda n: after(self.main, 0, job(n)),
            "failures of a job": lambda n: in_tx(queries.explain, self.main, job(n)),
            "number of all records": lambda n: main.count(),
            "number of records of a quiet tenant": lambda n: old.count(),
        }
        if self.popular:
            rows["best trial of a task of 100,000"] = lambda n: main.best(TASK)
        return rows


def timed(query: Callable[[int], object]) -> list[float]:
    """Return the seconds of calls of a query; the first one is not timed."""
    query(0)
    taken_s: list[float] = []
    end_s = time.perf_counter() + CALLS_S
    while len(taken_s) < CALLS and (time.perf_counter() < end_s or not taken_s):
        begin_s = time.perf_counter()
        query(len(taken_s) + 1)
        taken_s.append(time.perf_counter() - begin_s)
    return taken_s


def facts(taken_s: Sequence[float]) -> Row:
    """Return median and 99th percentile in seconds, and the number of samples."""
    ranked = sorted(taken_s)
    at = min(len(ranked) - 1, int(0.99 * len(ranked)))
    return {"median_s": median(ranked), "p99_s": ranked[at], "calls": len(ranked)}


def measured(rows: Rows, size: int, version: str) -> Iterator[Row]:
    """Yield a row of results for each kind of batch and query, and for the bytes."""
    named = {"rows": size, "version": version}
    for batch in BATCHES:
        found = rows.inserted(batch)
        rate = batch * len(found) / sum(found)
        yield {**named, "what": f"insert {batch} records", **facts(found), "per_second": rate}
    for name, query in rows.queries().items():
        yield {**named, "what": name, **facts(timed(query))}
    yield {**named, "what": "bytes per row", **rows.sizes()}


def page(rows: Sequence[Row], load: float) -> str:
    """Return the Markdown page.

    Args:
        load: processes that ran on the machine before the benchmark.
    """
    cases = list(dict.fromkeys((one["rows"], one["version"]) for one in rows))
    at = {(one["what"], one["rows"], one["version"]): one for one in rows}
    names = list(dict.fromkeys(one["what"] for one in rows if "median_s" in one))

    def cell(size: int, version: str, row: Row) -> str:
        one = at.get((row["what"], size, version))
        return f"{duration(one['median_s'])}, {duration(one['p99_s'])}" if one else ""

    def rates(size: int, version: str) -> str:
        found = [at.get((f"insert {batch} records", size, version)) for batch in BATCHES]
        return " and ".join(f"{one['per_second']:,.0f}" for one in found if one)

    columns: dict[str, Callable[[Row], object]] = {"median, 99th percentile": lambda r: r["what"]}
    columns |= {f"{size:,} rows, {of}": partial(cell, size, of) for size, of in cases}
    times = table([{"what": name} for name in names], columns)
    whole = at["bytes per row", *cases[-1]]
    inserted = "; ".join(f"{rates(*case)} at {case[0]:,} rows ({case[1]})" for case in cases)
    return (
        "# Records in PostgreSQL\n\n"
        f"A row takes {whole['table_bytes']:,.0f} bytes of the table (the newest bodies have"
        f" {whole['body_bytes']:,.0f} characters) and {whole['index_bytes']:,.0f} bytes of indexes"
        f" at {cases[-1][0]:,} rows. Rows per second that one connection inserts in batches of"
        f" 16 and 64: {inserted}. Load of the machine before: {load:.1f}.\n\n{times}"
    )


def main() -> None:
    """Fill a database and measure at each size."""
    parser = arguments(__doc__, "record_rows")
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**6, 10**7])
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--version", default="these queries")
    args: argparse.Namespace = parser.parse_args()
    records = real_records(args.trials)
    facts_of_run = run_facts(1, 0)
    results = Results(args.out, ("rows", "version", "what"), facts_of_run, args.fresh)
    with cluster(fsync=True) as running:
        engine = connect(running.new_database())
        upgrade(engine)
        rows = Rows(engine, records)
        for size in args.rows:
            say(f"{size} rows made in {duration(rows.grow(size))}")
            for one in measured(rows, size, args.version):
                results.add(one)
                say(f"{one}")
            publish(args.out, page(results.rows, facts_of_run["machine"]["load_1min"]))
        engine.dispose()


if __name__ == "__main__":
    main()
