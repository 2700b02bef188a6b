"""The page of the tensor benchmark, from rows as they lie in its result file."""

from benchmarks.tensor import page

MACHINE = {"model": "some processor", "vector_bits": 512}
KEY = {"n": 1000, "threads": 2, "date": "2026-01-01"}


def test_the_fastest_of_a_product_stands_first_with_rate_and_ratio() -> None:
    seconds = {"ansorpy": 0.002, "int8 _int_mm": 0.004, "int8 packed": 0.001}
    text = page([{**KEY, "kind": "int8", "seconds": seconds}], MACHINE)
    lines = [line for line in text.splitlines() if line.startswith("| int8")]
    assert lines == [
        "| int8 1000 | 2 | int8 packed | 2000 | 0.50 |",
        "| int8 1000 | 2 | ansorpy | 1000 | 1.00 |",
        "| int8 1000 | 2 | int8 _int_mm | 500 | 2.00 |",
    ]
    assert "some processor" in text


def test_missing_features_of_the_machine_are_reported() -> None:
    text = page([{**KEY, "kind": "bfloat16", "skipped": "no avx512bf16"}], MACHINE)
    assert "| bfloat16 1000 | 2 | skipped: no avx512bf16 |  |  |" in text
