"""Add indexes for long queues, and the length of a lease."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

REUSE = (
    "tenant_id", "workload", "state", "seq", "target", "trials", "seconds", "target_latency_s",
    "stop_if_gain_below", "best_s",
)  # fmt: skip


def upgrade() -> None:
    """Change the schema."""
    op.drop_index("ix_jobs_queue", "jobs")
    op.drop_index("ix_jobs_workload", "jobs")
    urgent = sa.text("priority DESC")
    op.create_index(
        "ix_jobs_queue", "jobs", ["state", "target", "tenant_id", urgent, "seq", "cores"]
    )
    op.create_index("ix_jobs_workload", "jobs", [*REUSE])
    # 30 s, the default length, for jobs that run during the upgrade.
    op.add_column("jobs", sa.Column("lease_s", sa.Double(), nullable=False, server_default="30"))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("jobs", "lease_s")
    op.drop_index("ix_jobs_queue", "jobs")
    op.drop_index("ix_jobs_workload", "jobs")
    op.create_index("ix_jobs_queue", "jobs", ["state", "priority", "seq"])
    op.create_index("ix_jobs_workload", "jobs", ["tenant_id", "workload", "state"])
