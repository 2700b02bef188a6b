"""Alembic environment, on the connection that `ansorpy.server.db.upgrade` opened."""

from alembic import context

from ansorpy.server.db.models import Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    render_as_batch=connection.dialect.name == "sqlite",  # SQLite alters by copying a table
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
