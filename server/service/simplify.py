"""Use cases of graph passes: simplify one model, list the passes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from inspect import getdoc
from pathlib import Path
from typing import BinaryIO, Final

from ansorpy.graph.passes import PASSES, Pass
from ansorpy.server.schemas.model import Passes, PassReply, SimplifyReply
from ansorpy.server.service.model_reader import ModelReader
from ansorpy.server.service.models import ModelService
from ansorpy.te.bindings import Bound

# A row of the docstring of a pass: its name, then text, further lines of which are indented.
_ROW: Final = re.compile(
    r"^(Condition|Rewrite|Not handled|Rounding|Source) +(.*(?:\n +.*)*)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class SimplifyCall:
    """A request to simplify the model in a file.

    Args:
        path: the file, alone in its folder.
        bind: values of symbolic extents and scalar inputs, by name.
        shapes: shapes of inputs, by name.
        exact: whether passes that change roundings are left out.
        keep: whether the simplified file becomes a model of the tenant.
    """

    path: Path
    bind: Bound
    shapes: Mapping[str, Sequence[int]]
    exact: bool
    keep: bool


def simplified(
    reader: ModelReader, models: ModelService, tenant_id: int, asked: SimplifyCall
) -> tuple[SimplifyReply, BinaryIO]:
    """Return the report and the simplified file, open.

    Raises:
        GraphError: the model cannot be read, or both models differ.
        RateLimitError, OverloadedError: too many simplifications are in progress.
        QuotaError: the tenant has no room to keep the file.
    """
    with reader.slots.taken(tenant_id):
        report, part = reader.simplify(asked.path, asked.bind, asked.shapes, asked.exact)
        file = part.open("rb")
        try:
            digest = file_digest(file, "sha256").hexdigest()
            file.seek(0)
            if asked.keep:
                models.store(tenant_id, digest, part, reader.describe(part))
        except BaseException:
            file.close()
            raise
    reply = SimplifyReply(
        **dict(report),
        sha256=digest,
        size_bytes=part.stat().st_size,
        link=f"/v1/models/{digest}/file" if asked.keep else None,
    )
    return reply, file


def passes() -> Passes:
    """Return the graph passes with their documentation, in the order in which they run."""
    return Passes(passes=list(map(_pass, PASSES)))


def _pass(rewrite: Pass) -> PassReply:
    text = getdoc(rewrite.apply) or ""
    rows = {name: re.sub(r"\n +", "\n", row) for name, row in _ROW.findall(text)}
    return PassReply(
        name=rewrite.name,
        exact=rewrite.exact,
        summary=text.partition("\n")[0],
        condition=rows["Condition"],
        rewrite=rows["Rewrite"],
        not_handled=rows["Not handled"],
        rounding=rows.get("Rounding", ""),
        source=rows["Source"],
    )
