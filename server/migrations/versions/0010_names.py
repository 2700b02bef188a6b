"""Add the titles of jobs and the file names of models."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TITLE = sa.String(length=200)


def upgrade() -> None:
    """Change the schema, and title the jobs of text and Dags by their tasks."""
    op.add_column("jobs", sa.Column("title", TITLE, nullable=False, server_default=""))
    op.add_column(
        "models", sa.Column("name", sa.String(length=128), nullable=False, server_default="")
    )
    jobs = sa.table(
        "jobs", sa.column("seq", sa.BigInteger), sa.column("request", sa.String),
        sa.column("title", TITLE),
    )  # fmt: skip
    connection = op.get_bind()
    after = 0
    while page := connection.execute(
        sa.select(jobs.c.seq, jobs.c.request)
        .where(jobs.c.seq > after)
        .order_by(jobs.c.seq)
        .limit(100)
    ).all():
        for seq, request in page:
            names = [dag["name"] for dag in json.loads(request).get("dags", ())]
            title = ", ".join(names)[:200]
            connection.execute(jobs.update().where(jobs.c.seq == seq).values(title=title))
        after = page[-1][0]


def downgrade() -> None:
    """Undo the change."""
    op.drop_column("models", "name")
    op.drop_column("jobs", "title")
