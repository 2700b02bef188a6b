"""Everything the service reads from the environment, read once."""

from pathlib import Path
from typing import Literal

from platformdirs import user_data_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import make_url

from ansorpy.errors import SpecError


class Settings(BaseSettings):
    """`ANSORPY_<NAME>` sets a field, e.g. `ANSORPY_DATA_DIR=/srv/ansorpy`."""

    model_config = SettingsConfigDict(env_prefix="ANSORPY_", frozen=True)

    data_dir: Path = Field(default_factory=lambda: user_data_path("ansorpy"))
    database_url: str = ""  # empty: SQLite in data_dir
    database_password_file: Path | None = None  # holds the password of database_url
    host: str = "127.0.0.1"
    port: int = Field(default=8720, ge=0, le=65535)
    require_keys: bool = False  # also on loopback; always where others can reach the service
    admin_key_file: Path | None = None  # holds a key that is valid for the local tenant
    log_format: Literal["text", "json"] = "text"
    embedded_worker: bool = True
    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    max_queued_jobs: int = Field(default=1000, ge=1)  # of one tenant, as all quotas
    max_trials_per_day: int | None = Field(default=None, ge=1)
    max_seconds_per_day: float | None = Field(default=None, gt=0)
    max_parts: int = Field(default=4096, ge=16)  # objects of the JSON form of one request
    max_tensor_bytes: int = Field(default=1 << 31, ge=1)  # of all tensors of one task
    read_rate: str = "18000/minute"  # of one key, or of one address without keys
    tune_rate: str = "120/minute"
    admin_rate: str = "600/minute"
    denied_rate: str = "60/minute"  # wrong keys, of one address
    rate_storage: str = "memory://"  # as `limits` takes it; shared where several processes serve
    event_poll_s: float = Field(default=0.25, gt=0)
    event_stream_s: float = Field(default=3600.0, gt=0)  # then the reader comes back
    max_event_streams: int = Field(default=64, ge=1)  # of one tenant
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
