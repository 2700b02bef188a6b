"""`ansorpy keys`: API keys of the configured database."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ansorpy.server.commands.command import Commands
from ansorpy.server.commands.common import database, read_settings, wrong_input

app = Commands(help="Create, list, rotate and revoke API keys.")

DAY_S = 86_400.0
HOUR_S = 3_600.0
Prefix = Annotated[str, typer.Argument(help="The first column of `ansorpy keys list`.")]


@app.command()
def create(
    tenant: Annotated[str, typer.Option(help="Owner of the key; may be new.")] = "local",
    scope: Annotated[list[str] | None, typer.Option(help="read, tune or admin.")] = None,
    days: Annotated[float | None, typer.Option(min=0.001, help="Lifetime in days.")] = None,
    label: Annotated[str, typer.Option(help="Purpose of the key.")] = "",
) -> None:
    """Create a key and print it once; only its digest is stored."""
    from ansorpy.server.access import keys

    with wrong_input(), _transaction() as (tx, now_s):
        ends_s = None if days is None else now_s + days * DAY_S
        key, row = keys.create(tx, tenant, scope or ["tune"], now_s, expires_s=ends_s, label=label)
        about = _about(row, tenant, now_s)
    typer.echo(about, err=True)
    typer.echo(key)


@app.command("list")
def listing() -> None:
    """List the keys: prefix, tenant, scopes, state, label."""
    from ansorpy.server.access import keys

    with wrong_input(), _transaction() as (tx, now_s):
        lines = [_about(row, tenant, now_s) for row, tenant in keys.listing(tx)]
    for line in lines:
        typer.echo(line)


@app.command()
def rotate(
    prefix: Prefix,
    overlap_hours: Annotated[
        float, typer.Option(min=0, help="Hours for which the old key stays valid.")
    ] = 24.0,
) -> None:
    """Create a key with the scopes and lifetime of another key, which then expires."""
    from ansorpy.server.access import keys

    with wrong_input(), _transaction() as (tx, now_s):
        key, row = keys.rotate(tx, prefix, now_s, overlap_hours * HOUR_S)
        about = _about(row, "", now_s)
    typer.echo(about, err=True)
    typer.echo(key)


@app.command()
def revoke(prefix: Prefix) -> None:
    """Revoke a key at once."""
    from ansorpy.server.access import keys

    with wrong_input(), _transaction() as (tx, now_s):
        keys.revoke(tx, prefix, now_s)
    typer.echo(f"{prefix} is revoked; a running service refuses it within 5 s", err=True)


@contextmanager
def _transaction() -> Iterator[tuple[Any, float]]:
    from ansorpy.server.db.engine import now, transaction

    engine = database(read_settings())
    try:
        with transaction(engine) as tx:
            yield tx, now(tx)
    finally:
        engine.dispose()


def _about(row: Any, tenant: str, now_s: float) -> str:
    state = "valid"
    if row.revoked_s is not None:
        state = f"revoked {_day(row.revoked_s)}"
    elif row.expires_s is not None:
        state = f"{'expired' if row.expires_s <= now_s else 'until'} {_day(row.expires_s)}"
    parts = [row.prefix, tenant, row.scopes, state, row.label]
    return "  ".join(part for part in parts if part)


def _day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")
