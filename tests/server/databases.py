"""Databases to test on: SQLite in a file, and a private PostgreSQL cluster on a free port."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import CursorResult, NullPool, Row, create_engine, make_url

# Mark of a test that tunes for seconds, and whose result is the same on every database.
ON_SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
USER = "postgres"  # PostgreSQL refuses to run as root; Debian's package creates this user


def postgres_programs() -> Path | None:
    """Return the folder of initdb and pg_ctl, or None."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


def missing() -> str:
    """Return the reason why no PostgreSQL is available, or ""."""
    if postgres_programs() is None:
        return "no PostgreSQL: `apt-get install postgresql` brings initdb and pg_ctl"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "no psycopg: `pip install 'ansorpy[postgres]'`"
    if os.getuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"PostgreSQL refuses to run as root, and there is no user {USER}"
    return ""


COLUMNS = """SELECT table_name, column_name, data_type FROM information_schema.columns
    WHERE table_schema = 'public' ORDER BY 1, 2"""
OTHERS = """SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""


@dataclass(frozen=True)
class Contents:
    """The columns, rows and sequences of a PostgreSQL database.

    Args:
        columns: table, name and type of each column.
        rows: the rows of each table.
        sequences: last value of each sequence, and whether it was given out.
    """

    columns: Sequence[Row[Any]]
    rows: Mapping[str, Sequence[Row[Any]]]
    sequences: Mapping[str, Row[Any]]

    @classmethod
    def of(cls, url: str) -> "Contents":
        """Return the contents of a database."""
        with _connected(url) as ask:
            columns = ask(COLUMNS).fetchall()
            tables = sorted({one.table_name for one in columns})
            names = ask("SELECT sequencename FROM pg_sequences").scalars().all()
            return cls(
                columns,
                {table: ask(f"SELECT * FROM {table}").fetchall() for table in tables},
                {name: ask(f"SELECT last_value, is_called FROM {name}").one() for name in names},
            )

    def restored(self, url: str) -> bool:
        """Give a database these contents; return False if its tables are others."""
        with _connected(url) as ask:
            ask(OTHERS)
            if ask(COLUMNS).fetchall() != self.columns:
                return False
            ask("SET session_replication_role = replica")  # foreign keys are not checked
            for table, rows in self.rows.items():
                ask(f"DELETE FROM {table}")
                for row in rows:
                    ask(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", tuple(row))
            for name, state in self.sequences.items():
                ask("SELECT setval(%s, %s, %s)", (name, *state))
        return True


@contextmanager
def _connected(url: str) -> Iterator[Callable[..., CursorResult[Any]]]:
    """Give a function that runs a statement; a connection of its own is committed at the end."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        yield connection.exec_driver_sql


class Cluster:
    """A private PostgreSQL cluster, whose files are deleted at its end."""

    def __init__(self, fsync: bool) -> None:
        self.fsync = "on" if fsync else "off"
        programs = postgres_programs()
        assert programs is not None
        self.programs = programs
        self.folder = Path(mkdtemp(prefix="ansorpy-postgres-"))
        if os.getuid() == 0:
            shutil.chown(self.folder, USER)
        self.data = self.folder / "data"
        self._contents: dict[str, Contents] = {}  # by name of template
        self._free: dict[str, list[str]] = {}  # copies of each template that no test uses
        self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8")
        self.start()

    def start(self) -> None:
        """Start the cluster on a free port of the loopback address."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder} -c fsync={self.fsync}"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.data), "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        """Stop the cluster and delete its files."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_database(self, template: str = "") -> str:
        """Return the URL of a new database, empty or a copy of another database."""
        copied = f" TEMPLATE {make_url(template).database}" if template else ""
        name = f"t{uuid4().hex}"
        url = make_url(f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/postgres")
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}{copied}")
        engine.dispose()
        return url.set(database=name).render_as_string()

    @contextmanager
    def lent(self, template: str) -> Iterator[str]:
        """Lend a copy of another database, which is restored for the next loan.

        To make and to delete a database writes eleven megabytes: most of the time of a short test.
        """
        if template not in self._contents:
            self._contents[template] = Contents.of(template)
        free = self._free.setdefault(template, [])
        url = free.pop() if free else self.new_database(template)
        yield url
        if self._contents[template].restored(url):
            free.append(url)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), *arguments]
        user = USER if os.getuid() == 0 else None
        done = subprocess.run(
            command, user=user, cwd=self.folder, env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False, text=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout[-2000:]}")


@contextmanager
def cluster(fsync: bool = False) -> Iterator[Cluster]:
    """Run a cluster for the block; with `fsync`, commits survive a power failure."""
    running = Cluster(fsync)
    try:
        yield running
    finally:
        running.stop()
