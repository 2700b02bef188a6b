"""Add models: ONNX files in chunks, their owners, and the model of a job."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "model_files",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("touched_s", sa.Double(), nullable=False),
        sa.Column("facts", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_model_files"),
    )
    op.create_table(
        "model_chunks",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["sha256"], ["model_files.sha256"], name="fk_model_chunks_sha256"),
        sa.PrimaryKeyConstraint("sha256", "number", name="pk_model_chunks"),
    )
    op.create_table(
        "models",
        sa.Column("seq", SERIAL, nullable=False),
        sa.Column("tenant_id", SERIAL, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_models_tenant_id"),
        sa.ForeignKeyConstraint(["sha256"], ["model_files.sha256"], name="fk_models_sha256"),
        sa.PrimaryKeyConstraint("seq", name="pk_models"),
        sa.UniqueConstraint("tenant_id", "sha256", name="uq_models_tenant_id_sha256"),
    )
    op.create_index("ix_models_sha256", "models", ["sha256"], unique=False)
    op.create_index("ix_models_tenant", "models", ["tenant_id", "seq"], unique=False)
    op.add_column("jobs", sa.Column("model", sa.String(length=64), nullable=True))
    op.add_column("tenants", sa.Column("max_models", sa.Integer(), nullable=True))
    op.add_column("tenants", sa.Column("max_models_bytes", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("tenants", "max_models_bytes")
    op.drop_column("tenants", "max_models")
    op.drop_column("jobs", "model")
    op.drop_index("ix_models_tenant", "models")
    op.drop_index("ix_models_sha256", "models")
    op.drop_table("models")
    op.drop_table("model_chunks")
    op.drop_table("model_files")
