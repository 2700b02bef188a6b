"""Everything the service reads from the environment, read once."""

from pathlib import Path
from typing import Literal

from platformdirs import user_data_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """`ANSORPY_<NAME>` sets a field, e.g. `ANSORPY_DATA_DIR=/srv/ansorpy`."""

    model_config = SettingsConfigDict(env_prefix="ANSORPY_", frozen=True)

    data_dir: Path = Field(default_factory=lambda: user_data_path("ansorpy"))
    database_url: str = ""  # empty: SQLite in data_dir
    host: str = "127.0.0.1"
    port: int = Field(default=8720, ge=0, le=65535)
    allow_remote: bool = False  # there are no accounts yet: loopback only, unless this is set
    embedded_worker: bool = True
    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    max_queued_jobs: int = Field(default=1000, ge=1)
    log_format: Literal["text", "json"] = "text"
    lease_s: float = Field(default=30.0, gt=0)
    heartbeat_s: float = Field(default=5.0, gt=0)
    poll_s: float = Field(default=0.25, gt=0)
    watch_s: float = Field(default=0.2, gt=0)  # how soon a worker sees that its job was cancelled
    stall_s: float = Field(default=3600.0, gt=0)  # of silence, then a driver counts as hung
    storage_wait_s: float = Field(default=60.0, gt=0)  # for a database that is away or full
    max_attempts: int = Field(default=3, ge=1)  # workers lost in a row: the job is poison
    max_running_jobs: int | None = Field(default=None, ge=1)  # of one tenant

    @property
    def url(self) -> str:
        """The database to use."""
        return self.database_url or f"sqlite:///{self.data_dir / 'ansorpy.db'}"
