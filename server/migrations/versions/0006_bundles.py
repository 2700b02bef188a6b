"""Add bundles of models, and the progress of a job of a model."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "bundles",
        sa.Column("seq", SERIAL, nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("latency_s", sa.Double(), nullable=False),
        sa.Column("error", sa.Double(), nullable=False),
        sa.Column("bound", sa.Double(), nullable=False),
        sa.Column("reference", sa.String(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("versions", sa.String(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_bundles_job_id"),
        sa.ForeignKeyConstraint(["sha256"], ["model_files.sha256"], name="fk_bundles_sha256"),
        sa.PrimaryKeyConstraint("seq", name="pk_bundles"),
        sa.UniqueConstraint("job_id", "sha256", name="uq_bundles_job_id_sha256"),
    )
    op.create_index("ix_bundles_sha256", "bundles", ["sha256"], unique=False)
    op.add_column("jobs", sa.Column("model_facts", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("jobs", "model_facts")
    op.drop_index("ix_bundles_sha256", "bundles")
    op.drop_table("bundles")
