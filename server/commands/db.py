"""`ansorpy db`: the database of records and jobs."""

import typer

from ansorpy.server.commands.command import Commands
from ansorpy.server.commands.common import read_settings, wrong_input

app = Commands(help="Manage the database of records and jobs.")


@app.command()
def upgrade() -> None:
    """Upgrade the tables to the schema of this version."""
    from ansorpy.server.db.engine import connect
    from ansorpy.server.db.upgrade import revision
    from ansorpy.server.db.upgrade import upgrade as bring_up

    with wrong_input():
        engine = connect(read_settings().url)
        before, after = revision(engine), bring_up(engine)
    place = engine.url.render_as_string(hide_password=True)
    told = f"already at {after}" if before == after else f"{before or 'empty'} -> {after}"
    typer.echo(f"{place}: {told}")
