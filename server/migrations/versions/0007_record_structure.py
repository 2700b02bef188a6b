"""Add the structure of the Dag of a record; existing records have none (ADR-0021)."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("records", sa.Column("structure", sa.String(length=128), nullable=True))
    columns = ["tenant_id", "structure", "key", "cost_s"]
    op.create_index("ix_records_structure", "records", columns)


def downgrade() -> None:
    """Undo it."""
    op.drop_index("ix_records_structure", "records")
    op.drop_column("records", "structure")
