"""Add an index for the jobs of models that a page lists."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.create_index("ix_jobs_model", "jobs", ["tenant_id", "model", "seq"])


def downgrade() -> None:
    """Undo it."""
    op.drop_index("ix_jobs_model", "jobs")
