"""Every operator by name, by the rules for CUDA: right under emulation, or refused in one sentence.

A candidate is run for every case of a trial, in both orders of threads and blocks. `make test`
draws one candidate of an operator, `make test-all` 8 of the operators at small and odd sizes.
"""

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.simt.emulator.loader import build_texts, load
from ansorpy.expr.functions import FUNCTIONS
from ansorpy.loopir.nodes import Program
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.inputs import constants
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.population import sample
from ansorpy.rules import CUDA
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.te.scalar import call
from ansorpy.topi.suites import SUITE_SMALL
from tests.codegen.simt.test_library import LIBRARY as SENTENCE
from tests.codegen.simt.test_library import written
from tests.night import night
from tests.topi.test_operators import CASES

GPU: Final = cuda_target("sm_90")
DRAWN: Final = night((1, 8), [1])  # candidates of each operator
OPERATORS: Final = (
    "matmul", "matmul_f64", "matmul_int8", "matmul_relu", "matmul_bias_gelu", "dense",
    "batch_matmul", "transpose_batch_matmul", "attention", "conv1d", "conv2d", "conv2d_strided",
    "conv2d_1x1", "conv2d_dilated", "conv2d_grouped", "conv2d_nhwc", "conv2d_bias_relu",
    "conv2d_bn_relu", "conv3d", "depthwise_conv2d", "transposed_conv2d", "capsule_conv2d",
    "max_pool2d", "avg_pool2d", "softmax", "layer_norm", "rms_norm", "batch_norm", "norm",
    "row_sum", "column_sum", "all_sum", "row_max", "column_min", "row_prod", "argmax",
    "elementwise_chain",
)  # fmt: skip
ADDED: Final = (  # operators of models: indices, scans, windows, quantization
    "argmax", "argmin", "gather_elements", "gather_nd", "take", "scatter_elements", "scatter_nd",
    "tensor_scatter", "cumsum", "one_hot", "tril", "triu", "max_pool_with_index",
    "col2im", "frames", "reverse_sequence", "grid_sample", "resample",
    "quantize_linear", "dequantize_linear", "saturate_cast", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift", "trunc", "isinf",
    "truncate_divide", "group_norm", "instance_norm", "log_softmax", "global_avg_pool",
    "global_max_pool", "conv1d_transpose", "conv3d_transpose", "dft",
)  # fmt: skip
REFUSED: Final = (
    "acos",
    "cos",
    "exp",
    "lp_pool",
    "power",
    "sin",
    "tan",
)  # functions of the C library

ONE_ELEMENT: Final = re.compile(  # a tail of one element whose copy has lanes along it
    r"cannot write a store of all lanes to \S+ for CUDA because its threads would write one"
    r" element; expected a reduction over the lanes$"
)


def candidates(dag: Dag, count: int) -> Iterator[Program]:
    """Yield candidates of as many plans as there are, then further ones of the same plans."""
    rng = np.random.default_rng(0)
    plans = all_plans(derive(dag, GPU, CUDA).sketches, GPU)
    step = max(1, len(plans) // count)
    for k in range(count):
        plan = plans[k * step % len(plans)]
        (row,) = sample(plan, 1, rng)
        yield bind(plan, tuple(map(int, row)), GPU)


def check(dag: Dag, count: int) -> tuple[int, list[str]]:
    """Check `count` candidates of an operator, of at most twice as many that are drawn.

    Return how many are right, and the sentences of those that are refused.
    """
    cases = make_cases(dag, 0)
    right, refusals = 0, list[str]()
    for program in candidates(dag, 2 * count):
        if right == count:
            break
        code = written(program, GPU)
        if isinstance(code, str):
            refusals.append(code)
            continue
        failed = verify(load(build_texts(code)), program.buffers, cases, constants(dag))
        assert failed is None, failed
        right += 1
    return right, refusals


def case_of(name: str, double: bool = False) -> Dag:
    """Return the first drawn case of an operator with inputs of float64 only, or with none."""
    for seed in range(64):
        made, tensors, _ = CASES[name](np.random.default_rng([seed, *name.encode()]))
        outputs = [made] if isinstance(made, te.Tensor) else list(made)
        dag = te.dag(outputs, name, inputs=tensors)
        dtypes = {node.dtype for node in dag.placeholders}
        if dtypes == {"float64"} if double else "float64" not in dtypes:
            return dag
    raise AssertionError(f"64 cases of {name} have other inputs")


def test_the_operators_are_those_of_the_library() -> None:
    assert tuple(SUITE_SMALL) == OPERATORS
    assert len(OPERATORS) == 37
    assert set(ADDED) <= set(CASES)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("drawn", DRAWN)
def test_an_operator_is_right_for_cuda(name: str, drawn: int) -> None:
    right, refusals = check(SUITE_SMALL[name](), drawn)
    assert right == drawn
    assert all(map(ONE_ELEMENT.search, refusals))


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("drawn", DRAWN)
def test_an_operator_of_models_is_right_for_cuda(name: str, drawn: int) -> None:
    right, refusals = check(case_of(name), drawn)
    assert right == drawn
    assert all(map(ONE_ELEMENT.search, refusals))


@pytest.mark.parametrize("fn", [fn for fn, f in FUNCTIONS.items() if "float32" in f.operands])
def test_a_function_of_float32_is_right_for_cuda_or_refused_in_one_sentence(fn: str) -> None:
    x = te.placeholder((160,), "x")
    dag = te.dag(te.compute((160,), lambda i: call(fn, x[i]), "out"), fn)
    right, refusals = check(dag, 1)
    assert right == (fn not in ("sin", "cos")), refusals
    assert all(map(SENTENCE.search, refusals))


@pytest.mark.parametrize("name", REFUSED)
def test_a_function_of_the_c_library_is_refused_in_one_sentence(name: str) -> None:
    right, refusals = check(case_of(name, double=True), 1)
    assert right == 0
    assert all(map(SENTENCE.search, refusals))
