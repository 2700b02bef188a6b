"""Add the slots of clusters, the leases of their surveys, and the rate of trials."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def _cluster() -> sa.Column[str]:
    return sa.Column("cluster", sa.String(length=300), nullable=False)


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "surveys",
        _cluster(),
        sa.Column("owner", sa.String(length=128), nullable=False),
        sa.Column("until_s", sa.Double(), nullable=False),
        sa.Column("seen_s", sa.Double(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name="pk_surveys"),
    )
    op.create_table(
        "slots",
        _cluster(),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("facts", sa.String(), nullable=False),
        sa.Column("trials", sa.BigInteger(), nullable=False),
        sa.Column("busy_s", sa.Double(), nullable=False),
        sa.Column("up_s", sa.Double(), nullable=False),
        sa.Column("from_busy_s", sa.Double(), nullable=False),
        sa.Column("from_up_s", sa.Double(), nullable=False),
        sa.Column("busy", sa.Double(), nullable=False),
        sa.Column("seen_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name", name="pk_slots"),
    )
    op.create_table(
        "slot_minutes",
        _cluster(),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("trials", sa.BigInteger(), nullable=False),
        sa.Column("busy_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "minute", name="pk_slot_minutes"),
    )


def downgrade() -> None:
    """Undo it."""
    for table in ("slot_minutes", "slots", "surveys"):
        op.drop_table(table)
