"""Cases that are computed beside other work are those that are computed on demand."""

import gc
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from ansorpy.frontends.tc.text import parse
from ansorpy.measure.sandbox.seals import Sealed
from ansorpy.measure.verify.case_folders import CaseFolders
from ansorpy.measure.verify.cases import FIRST_SIZES, Case, load_cases
from ansorpy.topi import workloads

DAG = replace(workloads.matmul(5, 6, 7), name="mm")


def made(root: Path, begun: bool) -> tuple[Case, ...]:
    root.mkdir()
    with closing(CaseFolders(DAG, 0, True, Sealed(root))) as folders:
        if begun:
            folders.begin_others()
            folders.begin_others()
        return load_cases(folders.all())[0]


def test_cases_begun_early_are_those_made_on_demand(tmp_path: Path) -> None:
    begun, demanded = made(tmp_path / "begun", True), made(tmp_path / "demanded", False)
    assert [one.name for one in begun] == [one.name for one in demanded]
    for one, other in zip(begun, demanded, strict=True):
        for name, array in one.inputs.items():
            assert np.array_equal(array, other.inputs[name], equal_nan=True)


def test_folders_that_are_closed_leave_no_file(tmp_path: Path) -> None:
    folders = CaseFolders(DAG, 0, True, Sealed(tmp_path))
    folders.begin_others()
    folders.close()
    assert list(tmp_path.iterdir()) == []


def test_cases_that_are_written_are_not_held(tmp_path: Path) -> None:
    def held() -> int:
        return sum(type(one) is Case for one in gc.get_objects())

    gc.collect()
    before = held()
    with closing(CaseFolders(DAG, 0, True, Sealed(tmp_path))) as folders:
        first, whole = folders.first(), folders.all()
        assert held() == before
        (dense,), (same, *others) = load_cases(first)[0], load_cases(whole)[0]
    assert len(others) > 1
    for name, array in dense.inputs.items():
        assert np.array_equal(array, same.inputs[name])


def test_the_first_case_is_found_among_all(tmp_path: Path) -> None:
    with closing(CaseFolders(DAG, 0, True, Sealed(tmp_path))) as folders:
        (dense, *_) = load_cases(folders.all())[0]
        (same,) = load_cases(folders.first())[0]
        for one, other in zip(dense.expected, same.expected, strict=True):
            assert np.array_equal(one.value, other.value)


def test_first_cases_have_more_sizes_than_those_that_are_timed(tmp_path: Path) -> None:
    (dag,) = parse("def f(float(N in 1..40) A) -> (B) { B(i) = A(i) * 2 }")
    with closing(CaseFolders(dag, 0, True, Sealed(tmp_path))) as folders:
        whole, first = load_cases(folders.all())[0], load_cases(folders.first())[0]
    assert [one.name for one in whole][: len(first)] == [one.name for one in first]
    assert [bool(one.weight) for one in first] == [True] * 5 + [False] * FIRST_SIZES
    assert len({one.sizes for one in first}) == 5 + FIRST_SIZES
    assert not any(bool(one.weight) for one in whole[len(first) :])
