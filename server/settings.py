"""Everything the service reads from the environment, read once: docs/service/settings.md."""

from pathlib import Path
from typing import Literal

from platformdirs import user_data_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import make_url

from ansorpy.errors import SpecError


class ServiceSettings(BaseSettings):
    """`ANSORPY_<NAME>` sets a field, e.g. `ANSORPY_DATA_DIR=/srv/ansorpy`."""

    model_config = SettingsConfigDict(env_prefix="ANSORPY_", frozen=True)

    data_dir: Path = Field(
        default_factory=lambda: user_data_path("ansorpy"),
        description="Folder of the SQLite file, and of what `ansorpy tune` learns for other tasks.",
    )
    database_url: str = Field(
        default="",
        description="SQLite in `data_dir` unless given; `postgresql://user:password@host/name`.",
    )
    database_password_file: Path | None = Field(
        default=None, description="File with the password of `database_url`."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8720, ge=0, le=65535, description="Port to listen on.")
    require_keys: bool = Field(
        default=False,
        description="Ask for API keys on loopback too; elsewhere they are always asked for.",
    )
    without_keys: bool = Field(
        default=False,
        description="Ask for no API keys although the database has some; loopback only.",
    )
    admin_key_file: Path | None = Field(
        default=None, description="File with a key that is valid for the local tenant."
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="Logs on standard error: for people, or one JSON line each."
    )
    max_connections: int = Field(
        default=4096,
        ge=16,
        description="Open connections of the service; fewer if the limit of open files is lower.",
    )
    max_connections_per_address: int = Field(
        default=2048,
        ge=8,
        description="Open connections from one address; a proxy counts as one address.",
    )
    max_body_bytes: int = Field(default=1 << 20, ge=1024, description="Longest body of a request.")
    max_parts: int = Field(
        default=4096, ge=16, description="Most objects in the JSON form of one request."
    )
    max_tensor_bytes: int = Field(
        default=1 << 28,
        ge=1,
        description="Most bytes of all tensors of one task; checking needs up to 24 times as many.",
    )
    max_queued_jobs: int = Field(
        default=1000, ge=1, description="Waiting jobs of one tenant, where it has no own limit."
    )
    max_running_jobs: int | None = Field(
        default=None, ge=1, description="Running jobs of one tenant, likewise."
    )
    max_trials_per_day: int | None = Field(
        default=None, ge=1, description="Trials that one tenant may ask for, likewise."
    )
    max_seconds_per_day: float | None = Field(
        default=None, gt=0, description="Seconds that one tenant may ask for, likewise."
    )
    read_rate: str = Field(
        default="18000/minute", description="Requests that read, of one key (or address)."
    )
    tune_rate: str = Field(
        default="120/minute", description="Requests that submit or steer, likewise."
    )
    admin_rate: str = Field(default="600/minute", description="Administration, likewise.")
    denied_rate: str = Field(default="60/minute", description="Wrong keys, of one address.")
    rate_storage: str = Field(
        default="memory://",
        description="Where rates are counted, as `limits` takes it; shared by several processes.",
    )
    event_poll_s: float = Field(
        default=0.25, gt=0, description="How often the service looks for new events of streams."
    )
    event_stream_s: float = Field(
        default=3600.0, gt=0, description="How long a stream lasts; then the reader comes back."
    )
    max_event_streams: int = Field(default=64, ge=1, description="Streams of one tenant at a time.")
    max_event_streams_in_all: int = Field(
        default=2048, ge=1, description="Streams of the service at a time."
    )
    embedded_worker: bool = Field(
        default=True, description="Whether the service starts a worker of its own."
    )
    sandbox: Literal["auto", "required", "off"] = Field(
        default="auto",
        description="Isolation of what runs candidates: what there is, or refuse to start"
        " without, or limits only.",
    )
    lease_s: float = Field(
        default=30.0, gt=0, description="How long a job stays with a worker that is not heard of."
    )
    heartbeat_s: float = Field(
        default=5.0, gt=0, description="How often a worker says that it lives."
    )
    poll_s: float = Field(
        default=0.25, gt=0, description="How often an idle worker looks for a job."
    )
    watch_s: float = Field(
        default=0.2, gt=0, description="How soon a worker sees that its job was cancelled."
    )
    stall_s: float = Field(
        default=3600.0, gt=0, description="Silence after which a driver counts as hung."
    )
    storage_wait_s: float = Field(
        default=60.0, gt=0, description="Patience with a database that is away or full."
    )
    max_attempts: int = Field(
        default=3, ge=1, description="Workers that a job may lose in a row before it is poison."
    )

    @property
    def url(self) -> str:
        """The database to use.

        Raises:
            SpecError: the file of the password cannot be read.
        """
        if not self.database_url:
            return f"sqlite:///{self.data_dir / 'ansorpy.db'}"
        if self.database_password_file is None:
            return self.database_url
        try:
            password = self.database_password_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"ANSORPY_DATABASE_PASSWORD_FILE: {error}") from error
        full = make_url(self.database_url).set(password=password)
        return full.render_as_string(hide_password=False)
