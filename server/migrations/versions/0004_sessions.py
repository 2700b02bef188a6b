"""Add browser sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("key_id", SERIAL, nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("expires_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name="fk_sessions_key_id"),
        sa.PrimaryKeyConstraint("sha256", name="pk_sessions"),
    )
    op.create_index("ix_sessions_key_id", "sessions", ["key_id"], unique=False)


def downgrade() -> None:
    """Undo it."""
    op.drop_index("ix_sessions_key_id", "sessions")
    op.drop_table("sessions")
