"""The table of published definitions: entries of YAML and of pages, placeholders, refusals."""

from pathlib import Path
from typing import Final

import pytest

from ansorpy.errors import SpecError
from benchmarks.published_text import dag_of, entries, main, outcome

FILE: Final = """
- name: lookup
  lang: |
    def lookup(float(V, D) Table, int32(L) Ids) -> (Rows) {{
      Rows(l, d) = Table(Ids(l), d) where l in 0:{L}
    }}
- name: project
  lang: |
    def project(float(B, K) X, float(U, K) W, float(U) Bias) -> (Y, Peak) {
      Y(b, u) +=! X(b, k) * W(u, k)
      Y(b, u) = fmax(Y(b, u) + Bias(u), 0)
      Peak(b) max= Y(b, u)
    }
  grad: |
    def project_grad(float(B, U) G, float(U, K)) -> (D) {
      D(b, k) +=! G(b, u)
    }
- name: quantise
  lang: |
    def quantise(float(B, K) X) -> (int32(B, K) Q) {{
      Q(b, k) = int32(X(b, k) * {scale})
    }}
"""
PAGE: Final = """Layers
======

.. code::

    def shift(float(N) X) -> (Y) {

        Y(n) = X(n) + 1
    }

and

    def back(float(N) X) -> (Y) { Y(n) = X(n - 1) }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "layers.yaml"
    path.write_text(FILE)
    return path


def test_entries_of_yaml_have_names_and_kinds(file: Path) -> None:
    found = [(entry.name, entry.kind) for entry in entries(file)]
    expected = [("lookup", "lang"), ("project", "lang"), ("project", "grad"), ("quantise", "lang")]
    assert found == expected


def test_definitions_of_a_page_are_its_indented_blocks(tmp_path: Path) -> None:
    (tmp_path / "page.rst").write_text(PAGE)
    shift, back = entries(tmp_path / "page.rst")
    assert (shift.name, back.name) == ("shift", "back")
    assert dag_of(shift, {"N": "5"}).computes[0].shape == (5,)
    with pytest.raises(SpecError, match="runs from -1 to -1 at n = 0"):
        dag_of(back, {})


def test_a_placeholder_without_a_value_is_named(file: Path) -> None:
    quantise = list(entries(file))[-1]
    with pytest.raises(SpecError, match="placeholder 'scale' has no value; expected --set"):
        dag_of(quantise, {})


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("- title: x\n")
    with pytest.raises(SpecError, match="cannot read an entry; expected a name and a lang"):
        list(entries(tmp_path / "other.yaml"))


def test_entries_are_tuned_and_verified(file: Path) -> None:
    for entry in entries(file):
        found = outcome(entry, {"scale": "3", "V": "7", "D": "5"}, trials=0)
        if entry.kind == "grad":
            assert found.reason == "project:1:44: ')' instead of the name of a parameter"
        else:
            assert (found.parsed, found.tuned, found.verified, found.reason) == (True,) * 3 + ("",)


def test_the_command_prints_rows_and_counts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(file), "--only", "project", "--trials", "0"]) == 0
    printed = capsys.readouterr().out
    assert "| project | lang | yes | yes | yes |  |" in printed
    assert "lang: 1 entries, 1 parsed, 1 tuned, 1 verified" in printed
    assert "grad: 1 entries, 0 parsed, 0 tuned, 0 verified" in printed
