"""Jinja environment of the dashboard, with auto-escaping."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import URL

from ansorpy.server.web import filters
from ansorpy.server.web.rate_curve import rate_curve
from ansorpy.server.web.size_curve import size_curve

HERE: Final = Path(__file__).parent
STATIC: Final = HERE / "static"


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the environment; undefined names are errors."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("latency", "span", "moment", "ratio", "gflops", "python", "sparkline"):
        environment.filters[name] = getattr(filters, name)
    environment.filters["query"] = _query
    environment.filters["size_curve"] = size_curve
    environment.filters["rate_curve"] = rate_curve
    return environment


def _query(fields: Mapping[str, str | int | None]) -> str:
    """Return the query of an address; empty fields are left out."""
    told = {name: str(value) for name, value in fields.items() if value}
    return str(URL("").include_query_params(**told).query)


def render(template: str, **values: Any) -> str:
    """Return the HTML of a template."""
    return environment().get_template(template).render(**values)
