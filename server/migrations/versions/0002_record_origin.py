"""Add the origin of records; existing records count as imported (ADR-0021)."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    origin = sa.Column("origin", sa.String(length=16), server_default="imported", nullable=False)
    op.add_column("records", origin)


def downgrade() -> None:
    """Undo it."""
    op.drop_column("records", "origin")
