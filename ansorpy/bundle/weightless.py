"""Bundles without weights: kernels that wait for the weights of a model of the same graph.

A bundle that was verified with stand-ins loses them and its self-test, and gets the document of
the graph (`graph.json`); at home the weights come back, to the places that its code expects.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ansorpy.artifact import manifest
from ansorpy.artifact.stored_zip import Buffer, opened, write_zip
from ansorpy.bundle.container import bound_facts, output_keys, samples_file, stored
from ansorpy.bundle.format import BUNDLE, GRAPH, SAMPLES, WEIGHTS
from ansorpy.bundle.load import mapped
from ansorpy.bundle.plan import SelfTest
from ansorpy.bundle.tensor_file import TensorFile, tensor_file
from ansorpy.errors import PackageError
from ansorpy.graph.graph import ValueInfo, Weight

ABSENT: Final = "absent_weights"  # field of the manifest; only bundles without weights have it

Files = Mapping[str, memoryview]


@dataclass(frozen=True, slots=True)
class PublicNames:
    """The names of a model that its document leaves out.

    Args:
        inputs, outputs: in order.
        nodes: of the model by their name in the document.
        source_digest: sha256 of the model's file, hex; "" if it came from no file.
        bound: inputs of the file that the graph was made for a value of, by name.
    """

    model: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: Mapping[str, str]
    source_digest: str = ""
    bound: Mapping[str, Weight] = field(default_factory=dict)


def opened_bundle(path: Path) -> tuple[Mapping[str, Any], Files]:
    """Open a bundle, with or without weights; the files are views of it.

    Raises:
        PackageError: a bit of it is not as it was packed, or it is no bundle.
    """
    facts, files = opened(memoryview(mapped(path)), path.name, BUNDLE)
    manifest.check_fields(facts, manifest.MODEL, path.name)
    return facts, files


def without_weights(source: Path, path: Path, document: str) -> None:
    """Write a bundle without its weights and self-test, with the document of its graph."""
    facts, files = opened_bundle(source)
    size = int.from_bytes(files[WEIGHTS][:8], "little")
    values = facts["values"]
    order = list(json.loads(bytes(files[WEIGHTS][8 : 8 + size])))
    absent = [{key: values[name][key] for key in ("name", "dtype", "shape")} for name in order]
    content: dict[str, Sequence[Buffer]] = {
        name: [part] for name, part in files.items() if name not in (WEIGHTS, SAMPLES)
    }
    content[GRAPH] = [document.encode()]
    told = {**facts, "tolerances": [0.0] * len(facts["outputs"]), ABSENT: absent}
    write_zip(path, content, told, BUNDLE)


def with_weights(
    source: Path,
    path: Path,
    weights: Mapping[str, Weight],
    names: PublicNames,
    self_test: SelfTest,
) -> None:
    """Write the whole bundle of one without weights.

    Args:
        weights: by their names in the graph of the bundle.

    Raises:
        PackageError: the bundle has its weights, or its manifest contradicts itself.
    """
    facts, files = opened_bundle(source)
    layout = _layout(facts, source.name)
    if not _fits(facts, names, weights):
        raise PackageError(f"{source.name}: its manifest is not of the graph that it holds")
    content: dict[str, Sequence[Buffer]] = {
        name: [part] for name, part in files.items() if name != GRAPH
    }
    content[WEIGHTS] = stored(layout, {name: weights[name].array for name in layout.order})
    content[SAMPLES] = samples_file(_infos(facts["inputs"]), _infos(facts["outputs"]), self_test)
    manifest = {
        **{name: value for name, value in facts.items() if name != ABSENT},
        "tolerances": list(self_test.limits),
        **_named(facts, names),
        "verified_against": self_test.oracle,
    }
    write_zip(path, content, manifest, BUNDLE)


def _infos(tensors: Sequence[Mapping[str, Any]]) -> list[ValueInfo]:
    return [ValueInfo(one["name"], tuple(one["shape"]), one["dtype"]) for one in tensors]


def graph_text(facts: Mapping[str, Any], files: Files, place: str) -> str:
    """Return the document of a bundle without weights.

    Raises:
        PackageError: the bundle has its weights.
    """
    if GRAPH not in files or ABSENT not in facts:
        raise PackageError(
            f"cannot join {place} with weights because it has them; expected a bundle without"
        )
    try:
        return bytes(files[GRAPH]).decode()
    except UnicodeDecodeError as error:
        raise PackageError(f"{place}: {GRAPH} is no text: {error}") from error


def _layout(facts: Mapping[str, Any], place: str) -> TensorFile:
    """Return the file of the absent weights, which must lie where the code of the bundle reads."""
    manifest.check_fields(facts, manifest.ABSENT, place)
    try:
        layout, values = tensor_file(_infos(facts[ABSENT])), facts["values"]
    except ValueError as error:
        raise PackageError(f"{place}: {error}") from error
    told = {name: values[name]["at"] for name in layout.order if name in values}
    if told != layout.places or layout.size_bytes != facts["memory"]["weights_bytes"]:
        raise PackageError(f"{place}: its manifest tells other places of {WEIGHTS}")
    return layout


def _fits(facts: Mapping[str, Any], names: PublicNames, weights: Mapping[str, Weight]) -> bool:
    """Return True if a manifest has as many inputs and outputs, and weights of these facts."""
    told = (len(facts["inputs"]), len(facts["outputs"]))
    return told == (len(names.inputs), len(names.outputs)) and all(
        one["name"] in weights
        and weights[one["name"]].dtype == one["dtype"]
        and list(map(int, weights[one["name"]].shape)) == one["shape"]
        for one in facts[ABSENT]
    )


def _named(facts: Mapping[str, Any], names: PublicNames) -> dict[str, Any]:
    """Return the fields of a manifest that have names of the model."""
    keys = output_keys(names.outputs, names.inputs)
    outputs = [
        {**one, "name": name, **key}
        for one, name, key in zip(facts["outputs"], names.outputs, keys, strict=True)
    ]
    return {
        "name": names.model,
        "inputs": [
            {**one, "name": name} for one, name in zip(facts["inputs"], names.inputs, strict=True)
        ],
        "outputs": outputs,
        "steps": [
            {**step, "nodes": [names.nodes.get(node, node) for node in step["nodes"]]}
            for step in facts["steps"]
        ],
        "source_sha256": names.source_digest or None,
        "bound": bound_facts(names.bound),
    }
