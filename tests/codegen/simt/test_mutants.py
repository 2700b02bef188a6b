"""Mutants of kernels for a GPU are caught; `tests.codegen.simt.mutants` is the long form."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ansorpy.topi.suites import SUITE_SMALL
from tests.codegen.simt.mutants import CAUGHT, Subject, peaks, sampled, share, subject
from tests.codegen.simt.mutations import KINDS, changing, mutations
from tests.night import night


@pytest.fixture(scope="module")
def rows() -> Subject:
    """Return a norm with masks, barriers and shuffles."""
    drawn = (subject(SUITE_SMALL["rms_norm"](), seed) for seed in range(20))
    return next(
        made for made in drawn if made and {one.kind for one in mutations(made.code)} == set(KINDS)
    )


@pytest.mark.slow
@pytest.mark.parametrize("each", night((2, 12), [2]))
def test_mutants_are_caught(rows: Subject, each: int) -> None:
    rng = np.random.default_rng(0)
    found: Counter[tuple[str, str]] = Counter()
    found.update((one.kind, rows.verdict(one)) for one in sampled(rows.code, each, rng))
    assert sum(n for (_, verdict), n in found.items() if verdict in CAUGHT) > 2
    assert share(found) >= 0.98, found


def test_every_kind_of_mutant_is_made(rows: Subject) -> None:
    found = mutations(rows.code)
    assert {one.kind for one in found} == set(KINDS)
    assert all(one.code != rows.code for one in found)
    assert rows.failure(rows.code) is None


def test_a_needed_barrier_is_caught_by_the_log(rows: Subject) -> None:
    first = next(one for one in mutations(rows.code) if one.kind == "barrier")
    assert rows.verdict(first) == "race"


def test_a_barrier_that_nothing_needs_is_equivalent(rows: Subject) -> None:
    lines = rows.code.texts[0].splitlines()
    at = next(k for k, line in enumerate(lines) if " call void @" in line)
    doubled = "\n".join([*lines[:at], lines[at], *lines[at:]])
    made = replace(rows, code=replace(rows.code, texts=(doubled, *rows.code.texts[1:])))
    first = next(one for one in mutations(made.code) if one.kind == "barrier")
    assert made.verdict(first) == "no race"


def test_a_probe_tells_masks_that_differ_from_masks_that_do_not(rows: Subject) -> None:
    masks = [one for one in mutations(rows.code) if one.kind == "mask"]
    caught = next(one for one in masks if rows.failure(one.code))
    assert [rows.failure(probe) for probe in caught.probes] == ["fault"]
    lines = rows.code.texts[0].splitlines()
    at = next(k for k, line in enumerate(lines) if " = icmp " in line)
    spare = "  %spare = icmp slt i64 3, 5"
    text = "\n".join([*lines[:at], spare, *lines[at:]])
    made = replace(rows, code=replace(rows.code, texts=(text, *rows.code.texts[1:])))
    first = next(one for one in mutations(made.code) if one.kind == "mask")
    assert made.verdict(first) == "never differs"


def test_stores_of_bits_that_are_there_are_left_out(rows: Subject) -> None:
    assert rows.failure(changing(rows.code)) is None
    twice = "\n".join(
        f"{line}\n{line}" if line.lstrip().startswith("store ") else line
        for line in rows.code.texts[0].splitlines()
    )
    doubled = replace(rows.code, texts=(f"{twice}\n", *rows.code.texts[1:]))
    made = [sum(map(len, rows.trace(code, loads=False))) for code in (rows.code, doubled)]
    left = [sum(map(len, rows.trace(changing(code), loads=False))) for code in (rows.code, doubled)]
    assert made[0] < made[1]
    assert left[0] == left[1]


def test_every_element_of_a_row_is_its_peak_once() -> None:
    found = peaks(SUITE_SMALL["softmax"](), 0)
    arrays = [next(iter(case.inputs.values())) for case in found]
    assert {array.shape for array in arrays} == {(7, 17)}
    places = np.array([array.argmax(axis=1) for array in arrays])
    assert (np.sort(places, axis=0) == np.arange(17)[:, None]).all()
    assert not peaks(SUITE_SMALL["matmul"](), 0)
