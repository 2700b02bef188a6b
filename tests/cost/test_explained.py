"""Seconds that bytes and operations explain: proportions that follow from counts alone."""

import pytest

from ansorpy import te, topi
from ansorpy.cost.explained import CALL_S, explained_s
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import matmul_relu

TARGET = Target(vector_bits=256, l2_bytes=512 << 10, l3_bytes=32 << 20)


def seconds(dag: Dag, target: Target = TARGET) -> float:
    return explained_s(dag, target) - CALL_S


def squares(rows: int, columns: int = 1024) -> Dag:
    x = te.placeholder((rows, columns), "x", "float32")
    return te.dag([topi.multiply(x, x)])


def test_a_product_takes_as_long_as_its_points() -> None:
    assert seconds(matmul_relu(256, 256, 256)) == pytest.approx(
        8 * seconds(matmul_relu(128, 128, 128)), rel=0.1
    )
    # two operations per point, at most two vectors of eight lanes per cycle of 3 GHz
    least_s = 256**3 / 8 / 2 / 3e9
    assert least_s < seconds(matmul_relu(256, 256, 256)) < 5 * least_s


def test_bytes_beyond_the_caches_take_longer() -> None:
    small, middle, large = (seconds(squares(rows)) / rows for rows in (16, 1024, 16384))
    assert small < middle < large


def test_a_value_that_two_nodes_read_counts_once() -> None:
    x = te.placeholder((64, 256), "x", "float32")
    once = topi.exp(x)
    both = te.dag([topi.add(once, topi.multiply(once, once))])
    alone = te.dag([topi.exp(x)])
    assert seconds(alone) < seconds(both) < 2 * seconds(alone)


def test_cores_divide_the_operations() -> None:
    four = Target(cores=4, vector_bits=256)
    one = Target(vector_bits=256)
    dag = matmul_relu(256, 256, 256)
    assert 3 < seconds(dag, one) / seconds(dag, four) < 5
