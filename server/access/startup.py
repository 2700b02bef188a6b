"""Startup check: decide whether requests need API keys, and require a valid key if they do."""

from ipaddress import ip_address

from sqlalchemy import Engine

from ansorpy.errors import SpecError
from ansorpy.server.access import keys
from ansorpy.server.db.engine import now, reading, transaction
from ansorpy.server.db.upgrade import LOCAL
from ansorpy.server.settings import ServiceSettings

MIN_KEY_CHARS = 32


def requires_keys(settings: ServiceSettings, engine: Engine) -> bool:
    """Return whether requests need a key: if the host is not loopback, or any key exists.

    Expired and revoked keys count, so that a service never opens because time has passed.
    `settings.without_keys` overrides this, on loopback only.

    Raises:
        SpecError: requests need a key and no key is valid, or settings contradict one another.
    """
    install_admin_key(settings, engine)
    reachable = not is_loopback(settings.host)
    if settings.without_keys:
        _refuse_open(settings, reachable)
        return False
    with reading(engine) as tx:
        made, valid = keys.count(tx), keys.count_valid(tx, now(tx))
    if valid:
        return True
    if made:
        raise SpecError(
            f"cannot start because none of the {made} API keys in the database is valid (each was"
            " revoked or has expired); expected a valid key: `ansorpy keys create` makes one,"
            " ANSORPY_WITHOUT_KEYS=1 opens the service to every user of this machine"
        )
    if settings.require_keys or reachable:
        raise SpecError(
            f"cannot listen on host {settings.host} because the database has no API key; expected"
            " a key (`ansorpy keys create` makes one) or a loopback address"
        )
    return False


def _refuse_open(settings: ServiceSettings, reachable: bool) -> None:
    """Raise SpecError if `without_keys` contradicts another setting."""
    if settings.require_keys:
        raise SpecError(
            "cannot start because ANSORPY_REQUIRE_KEYS and ANSORPY_WITHOUT_KEYS contradict one"
            " another; expected one of them"
        )
    if reachable:
        raise SpecError(
            f"cannot start because ANSORPY_WITHOUT_KEYS opens the service to everybody who reaches"
            f" host {settings.host}; expected a loopback address"
        )


def install_admin_key(settings: ServiceSettings, engine: Engine) -> None:
    """Add the key of `admin_key_file`, for unattended installations."""
    if settings.admin_key_file is None:
        return
    try:
        key = settings.admin_key_file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"cannot read ANSORPY_ADMIN_KEY_FILE because of {error}; expected a text file with a"
            " key"
        ) from error
    if not MIN_KEY_CHARS <= len(key) <= keys.MAX_KEY_CHARS or not key.isprintable():
        raise SpecError(
            f"cannot use ANSORPY_ADMIN_KEY_FILE because its key has {len(key)} characters; expected"
            f" {MIN_KEY_CHARS} to {keys.MAX_KEY_CHARS} printable ones"
        )
    with reading(engine) as tx:
        if keys.is_made(tx, key):
            return
    with transaction(engine) as tx:
        keys.install(tx, key, LOCAL, ("admin",), now(tx))


def is_loopback(host: str) -> bool:
    """Return whether `host` is localhost or a loopback address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
