"""Wordings of remedies for a refused model: options of a command, fields of a request.

Messages of errors name options. A service translates them, because its users send fields; commands
that use a service translate them back.
"""

import re
from typing import Final

LONGEST: Final = 80  # characters of a name of the model
HOSTED: Final = "--hosted"
_BIND: Final = re.compile(  # a request has no ranges
    r"--bind (.{0,100}?)=(VALUE|1)\b(?:, or a range, as in --bind \1=1\.\.8)?"
)
_SIZE: Final = re.compile(r"a binding, such as (.{1,100}?)=(\d+)")
_BIND_FIELD: Final = re.compile(r'"bind": \{"(.{1,100}?)": (VALUE|\d+)\}')
_SHAPE_FIELD: Final = re.compile(r'"shapes": \{"(.{1,100}?)": \[((?:\d+, )*\d+)\]\}')
_SHAPE: Final = re.compile(r"--shape (.{0,100}?)=((?:\d+,)*\d+)")


def bind_option(name: str, value: str = "VALUE") -> str:
    """Return the option that gives a symbolic extent or a scalar input its value."""
    return f"--bind {name[:LONGEST]}={value}"


def extent_options(name: str) -> str:
    """Return the options that give a symbolic extent a value, or leave it to each call."""
    value = bind_option(name, "1")
    return f"{value}, or a range, as in {value}..8"


def shape_option(name: str) -> str:
    """Return the option that gives an input its shape."""
    return f"--shape {name[:LONGEST]}=1,3,224,224"


def is_binding(text: str) -> bool:
    """Return True if a message, in either wording, asks for a value or a shape."""
    options = _BIND.search(text) or _SHAPE.search(text)
    return bool(options) or '"bind": {' in text or '"shapes": {' in text


def as_fields(text: str) -> str:
    """Return a message with the fields of a request in place of options."""
    text = _SIZE.sub(r'"bind": {"\1": \2}', text)
    text = _BIND.sub(r'"bind": {"\1": \2}', text)
    text = _SHAPE.sub(lambda found: f'"shapes": {{"{found[1]}": [{_listed(found[2])}]}}', text)
    return text.replace(HOSTED, '"hosted": true')


def as_options(text: str) -> str:
    """Return a message with options in place of the fields of a request."""
    text = _BIND_FIELD.sub(r"--bind \1=\2", text)
    text = _SHAPE_FIELD.sub(lambda f: f"--shape {f[1]}={f[2].replace(', ', ',')}", text)
    return text.replace('"hosted": true', HOSTED)


def _listed(extents: str) -> str:
    return ", ".join(extents.split(","))
