"""Whether a service that starts needs keys, and whether it has any."""

from ipaddress import ip_address

from sqlalchemy import Engine

from ansorpy.errors import SpecError
from ansorpy.server.access import keys
from ansorpy.server.db.engine import now, transaction
from ansorpy.server.db.upgrade import LOCAL
from ansorpy.server.settings import Settings

MIN_KEY_CHARS = 32


def keys_needed(settings: Settings, engine: Engine) -> bool:
    """Return whether requests need a key: where others can reach us, or where there are keys.

    Raises:
        SpecError: others could reach the service, and it has no key.
    """
    install_admin_key(settings, engine)
    with transaction(engine) as tx:
        count = keys.count_valid(tx, now(tx))
    if count:
        return True
    if settings.require_keys or not is_loopback(settings.host):
        raise SpecError(
            f"host {settings.host}: without a key the service listens on loopback only;"
            " `ansorpy keys create` makes one"
        )
    return False


def install_admin_key(settings: Settings, engine: Engine) -> None:
    """Make the key of `admin_key_file` valid, for a service that is set up without a person."""
    if settings.admin_key_file is None:
        return
    try:
        key = settings.admin_key_file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"ANSORPY_ADMIN_KEY_FILE: {error}") from error
    if not MIN_KEY_CHARS <= len(key) <= keys.MAX_KEY_CHARS or not key.isprintable():
        raise SpecError(
            f"ANSORPY_ADMIN_KEY_FILE: a key of {len(key)} characters, expected"
            f" {MIN_KEY_CHARS} to {keys.MAX_KEY_CHARS}"
        )
    with transaction(engine) as tx:
        keys.install(tx, key, LOCAL, ("admin",), now(tx))


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches `host`."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
