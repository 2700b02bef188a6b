"""Settings of the service, read once from the environment; listed in docs/service/settings.md."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from ansorpy.errors import SpecError
from ansorpy.folders import data_dir


class ServiceSettings(BaseSettings):
    """Environment variables `ANSORPY_<FIELD>`, such as `ANSORPY_DATA_DIR=/srv/ansorpy`."""

    model_config = SettingsConfigDict(env_prefix="ANSORPY_", frozen=True)

    data_dir: Path = Field(
        default_factory=data_dir,
        description="Folder of the SQLite file, of uploads in progress, and of the kernels and"
        " bundles of Python, which reads it too.",
    )
    rules_dir: Path | None = Field(
        default=None,
        description="Folder of rule files; a request names them in `allow`"
        " ([rules](../rule-files.md)). Their code runs in the service and its tuner processes.",
    )
    store: str = Field(
        default="database",
        description="Store of the records of `ansorpy tune`, `ansorpy records` and Python:"
        " `database`, `file`, `memory`, or a [plug-in](../plugins.md). The service keeps records in"
        " its database.",
    )
    database_url: str = Field(
        default="",
        description="`postgresql://user:password@host/name`; default: SQLite in `data_dir`.",
    )
    database_password_file: Path | None = Field(
        default=None, description="File that contains the password of `database_url`."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8720, ge=0, le=65535, description="Port to listen on.")
    require_keys: bool = Field(
        default=False,
        description="Require API keys on loopback too; other addresses always require them.",
    )
    without_keys: bool = Field(
        default=False,
        description="Accept requests without API keys although keys exist; loopback only.",
    )
    admin_key_file: Path | None = Field(
        default=None, description="File that contains an admin key of the tenant `local`."
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="Format of the log on standard error; JSON: one object a line."
    )
    max_connections: int = Field(
        default=4096,
        ge=16,
        description="Open connections in total; reduced to fit the limit of open files.",
    )
    max_connections_per_address: int = Field(
        default=2048,
        ge=8,
        description="Open connections of one address; all clients of a proxy share its address.",
    )
    max_body_bytes: int = Field(default=1 << 20, ge=1024, description="Bytes of a request body.")
    max_parts: int = Field(
        default=4096, ge=16, description="Objects in the JSON form of one request."
    )
    max_tensor_bytes: int = Field(
        default=1 << 28,
        ge=1,
        description="Bytes of all tensors of one task; a check needs up to 24 times as many.",
    )
    max_model_bytes: int = Field(
        default=1 << 30, ge=1024, le=8 << 30, description="Bytes of an ONNX model."
    )
    max_models: int = Field(
        default=64, ge=1, description="Models of a tenant without a limit of its own."
    )
    max_models_bytes: int = Field(
        default=8 << 30,
        ge=1024,
        description="Bytes of all models of a tenant without a limit of its own.",
    )
    max_uploads: int = Field(default=2, ge=1, description="Uploads of one tenant at once.")
    max_uploads_in_all: int = Field(default=8, ge=1, description="Uploads of the service at once.")
    max_model_readers: int = Field(
        default=2,
        ge=1,
        description="Processes that read models at once; a tenant may simplify one model at once.",
    )
    model_memory_bytes: int = Field(
        default=4 << 30,
        ge=1 << 28,
        description="Memory of a process that reads a model, beside eight times the model.",
    )
    model_cpu_s: int = Field(
        default=60,
        ge=1,
        description="Processor time to read or simplify a model; twice of it by the clock.",
    )
    max_queued_jobs: int = Field(
        default=1000, ge=1, description="Queued jobs of a tenant without a limit of its own."
    )
    max_running_jobs: int | None = Field(
        default=None, ge=1, description="Running jobs of a tenant without a limit of its own."
    )
    max_trials_per_day: int | None = Field(
        default=None, ge=1, description="Requested trials of a tenant without a limit of its own."
    )
    max_seconds_per_day: float | None = Field(
        default=None, gt=0, description="Requested seconds of a tenant without a limit of its own."
    )
    read_rate: str = Field(
        default="18000/minute", description="Reading requests of one key (without keys: address)."
    )
    tune_rate: str = Field(
        default="120/minute",
        description="Requests that submit, change or simplify something, per key.",
    )
    admin_rate: str = Field(default="600/minute", description="Administrative requests per key.")
    denied_rate: str = Field(default="60/minute", description="Requests with an invalid key.")
    rate_storage: str = Field(
        default="memory://",
        description="Storage URI of the package `limits`; to share rates between processes.",
    )
    event_poll_s: float = Field(
        default=0.25, gt=0, description="Interval of the query for new events of open streams."
    )
    event_stream_s: float = Field(
        default=3600.0, gt=0, description="Duration of an event stream; the reader reconnects."
    )
    max_event_streams: int = Field(default=64, ge=1, description="Open streams of one tenant.")
    max_event_streams_in_all: int = Field(
        default=2048, ge=1, description="Open streams of the service."
    )
    embedded_worker: bool = Field(
        default=True, description="Whether the service starts a worker of its own."
    )
    sandbox: Literal["auto", "required", "off"] = Field(
        default="auto",
        description="Isolation of measuring processes: every available level; refuse to start"
        " without Landlock and seccomp, or bubblewrap; resource limits only.",
    )
    lease_s: float = Field(
        default=30.0, gt=0, description="Time after the last heartbeat until a job is taken back."
    )
    heartbeat_s: float = Field(default=5.0, gt=0, description="Interval of a worker's heartbeats.")
    poll_s: float = Field(
        default=0.25, gt=0, description="Interval at which an idle worker tries to claim a job."
    )
    watch_s: float = Field(
        default=0.2, gt=0, description="Interval at which a worker checks for a cancelled job."
    )
    stall_s: float = Field(
        default=3600.0, gt=0, description="Silence after which a tuner process counts as hung."
    )
    storage_wait_s: float = Field(
        default=60.0, gt=0, description="Time to retry writes while the database does not answer."
    )
    max_attempts: int = Field(
        default=3, ge=1, description="Consecutive losses of a worker after which a job fails."
    )

    @field_validator("data_dir", mode="before")
    @classmethod
    def _no_data_dir(cls, value: object) -> object:
        return data_dir() if value == "" else value

    @field_validator("rules_dir", mode="before")
    @classmethod
    def _no_folder(cls, value: object) -> object:
        return None if value == "" else value  # not the working directory

    @property
    def url(self) -> str:
        """The URL of the database, with its password.

        Raises:
            SpecError: the password file is unreadable.
        """
        if not self.database_url:
            return f"sqlite:///{self.data_dir / 'ansorpy.db'}"
        if self.database_password_file is None:
            return self.database_url
        try:
            password = self.database_password_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(
                f"cannot read ANSORPY_DATABASE_PASSWORD_FILE because of {error}; expected a text"
                " file with the password"
            ) from error
        from sqlalchemy.engine import make_url  # SQLAlchemy loads slowly

        full = make_url(self.database_url).set(password=password)
        return full.render_as_string(hide_password=False)
