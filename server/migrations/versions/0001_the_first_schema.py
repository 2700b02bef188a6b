"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "packages",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("manifest", sa.String(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_packages"),
    )
    op.create_table(
        "tenants",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("disabled_s", sa.Double(), nullable=True),
        sa.Column("max_queued_jobs", sa.Integer(), nullable=True),
        sa.Column("max_running_jobs", sa.Integer(), nullable=True),
        sa.Column("max_trials_per_day", sa.Integer(), nullable=True),
        sa.Column("max_seconds_per_day", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tenants"),
        sa.UniqueConstraint("name", name="uq_tenants_name"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=True),
        sa.Column("target", sa.String(length=32), nullable=False),
        sa.Column("facts", sa.String(), nullable=False),
        sa.Column("started_s", sa.Double(), nullable=False),
        sa.Column("heartbeat_s", sa.Double(), nullable=False),
        sa.Column("jobs_done", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_index("ix_workers_heartbeat_s", "workers", ["heartbeat_s"], unique=False)

    op.create_table(
        "api_keys",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("tenant_id", SERIAL, nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=80), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("expires_s", sa.Double(), nullable=True),
        sa.Column("revoked_s", sa.Double(), nullable=True),
        sa.Column("used_s", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_api_keys_tenant_id"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("sha256", name="uq_api_keys_sha256"),
    )
    op.create_index("ix_api_keys_tenant_id", "api_keys", ["tenant_id"], unique=False)

    op.create_table(
        "jobs",
        sa.Column("seq", SERIAL, nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant_id", SERIAL, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("request", sa.String(), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("workload", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=32), nullable=False),
        sa.Column("cores", sa.Integer(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("target_latency_s", sa.Double(), nullable=True),
        sa.Column("stop_if_gain_below", sa.Double(), nullable=True),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("updated_s", sa.Double(), nullable=False),
        sa.Column("started_s", sa.Double(), nullable=True),
        sa.Column("ended_s", sa.Double(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("lost", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(length=128), nullable=False),
        sa.Column("lease_token", sa.Integer(), nullable=False),
        sa.Column("lease_until_s", sa.Double(), nullable=False),
        sa.Column("trials_done", sa.Integer(), nullable=False),
        sa.Column("rounds_done", sa.Integer(), nullable=False),
        sa.Column("seconds_done", sa.Double(), nullable=False),
        sa.Column("best_s", sa.Double(), nullable=True),
        sa.Column("progress", sa.String(), nullable=False),
        sa.Column("results", sa.String(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_jobs_tenant_id"),
        sa.PrimaryKeyConstraint("seq", name="pk_jobs"),
        sa.UniqueConstraint("id", name="uq_jobs_id"),
    )
    op.create_index("ix_jobs_queue", "jobs", ["state", "priority", "seq"], unique=False)
    op.create_index("ix_jobs_tenant", "jobs", ["tenant_id", "state", "seq"], unique=False)
    op.create_index("ix_jobs_workload", "jobs", ["tenant_id", "workload", "state"], unique=False)

    op.create_table(
        "idempotency_keys",
        sa.Column("tenant_id", SERIAL, nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_idempotency_keys_job_id"),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name="fk_idempotency_keys_tenant_id"
        ),
        sa.PrimaryKeyConstraint("tenant_id", "key", name="pk_idempotency_keys"),
    )
    op.create_index(
        "ix_idempotency_keys_created_s", "idempotency_keys", ["created_s"], unique=False
    )

    op.create_table(
        "job_events",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_events_job_id"),
        sa.PrimaryKeyConstraint("job_id", "seq", name="pk_job_events"),
    )
    op.create_table(
        "kernels",
        sa.Column("seq", SERIAL, nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("task", sa.String(length=63), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("best_s", sa.Double(), nullable=True),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_kernels_job_id"),
        sa.ForeignKeyConstraint(["sha256"], ["packages.sha256"], name="fk_kernels_sha256"),
        sa.PrimaryKeyConstraint("seq", name="pk_kernels"),
        sa.UniqueConstraint("job_id", "task", "sha256", name="uq_kernels_job_id_task_sha256"),
    )
    op.create_index("ix_kernels_sha256", "kernels", ["sha256"], unique=False)

    op.create_table(
        "records",
        sa.Column("seq", SERIAL, nullable=False),
        sa.Column("tenant_id", SERIAL, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=True),
        sa.Column("candidate", sa.String(length=64), nullable=False),
        sa.Column("task", sa.String(length=63), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("cost_s", sa.Double(), nullable=True),
        sa.Column("failure", sa.String(length=16), nullable=True),
        sa.Column("body", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_records_job_id"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_records_tenant_id"),
        sa.PrimaryKeyConstraint("seq", name="pk_records"),
        sa.UniqueConstraint("job_id", "candidate", name="uq_records_job_id_candidate"),
        sa.UniqueConstraint("tenant_id", "id", name="uq_records_tenant_id_id"),
    )
    op.create_index("ix_records_best", "records", ["tenant_id", "key", "cost_s"], unique=False)
    op.create_index("ix_records_key", "records", ["tenant_id", "key", "seq"], unique=False)

    op.create_table(
        "searches",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("known_seq", SERIAL, nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("updated_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_searches_job_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_searches"),
    )
    tenants = sa.table("tenants", sa.column("name", sa.String), sa.column("created_s", sa.Double))
    op.bulk_insert(tenants, [{"name": "local", "created_s": 0.0}])


def downgrade() -> None:
    """Undo it."""
    for table in (
        "searches",
        "records",
        "kernels",
        "job_events",
        "idempotency_keys",
        "jobs",
        "api_keys",
        "workers",
        "tenants",
        "packages",
    ):
        op.drop_table(table)
