from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic_core import PydanticUndefined

from ansorpy.server.settings import ServiceSettings

PAGE = Path(__file__).parents[2] / "docs" / "service" / "settings.md"


def told(value: Any) -> str:
    if value is PydanticUndefined:
        return "the user's data folder"
    return "none" if value in (None, "") else f"`{str(value).lower()}`"


def kind(annotation: Any) -> str:
    if get_origin(annotation) is not None and all(isinstance(a, str) for a in get_args(annotation)):
        return ", ".join(f"`{name}`" for name in get_args(annotation))
    parts = [part for part in get_args(annotation) if part is not type(None)] or [annotation]
    return str({"Path": "path", "str": "text"}.get(parts[0].__name__, parts[0].__name__))


def table() -> str:
    rows = [
        f"| `ANSORPY_{name.upper()}` | {kind(field.annotation)} | {told(field.default)} |"
        f" {field.description} |"
        for name, field in ServiceSettings.model_fields.items()
    ]
    return "\n".join(["| variable | is | default | |", "|---|---|---|---|", *rows])


def test_the_page_lists_every_setting(request: pytest.FixtureRequest) -> None:
    head = (
        "# Settings\n\nEnvironment variables, read once, when a command starts"
        " ([server/settings.py](../../server/settings.py)).\n"
        "Workers and the service read the same ones. Times end in `_S`: seconds.\n\n"
    )
    if request.config.getoption("--update-golden"):
        PAGE.write_text(head + table() + "\n")
    assert PAGE.read_text() == head + table() + "\n"


def test_settings_round_trip_through_a_pipe(tmp_path: Path) -> None:
    settings = ServiceSettings(data_dir=tmp_path, lease_s=7.0, sandbox="off")
    assert ServiceSettings.model_validate_json(settings.model_dump_json()) == settings
