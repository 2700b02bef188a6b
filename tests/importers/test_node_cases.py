"""A sample of ONNX's node tests over all families, by the interpreter.

`python -m benchmarks.models.node_tests` runs them all, also through kernels.
"""

import re
from functools import cache

import pytest

from benchmarks.models.node_cases import NodeCase, cases, difference

SAMPLE = (
    "abs", "add_bcast", "and_bcast3v1d", "argmax_keepdims_example_select_last_index",
    "averagepool_2d_ceil", "averagepool_2d_pads_count_include_pad", "basic_conv_with_padding",
    "batchnorm_example", "bitwise_not_2d", "cast_FLOAT_to_FLOAT16", "celu", "clip",
    "concat_2d_axis_negative_1", "constantofshape_int_zeros", "conv_with_autopad_same",
    "convinteger_with_padding", "col2im_pads", "cumsum_2d_axis_1", "convtranspose_dilations",
    "convtranspose_output_shape", "depthtospace_crd_mode_example", "dequantizelinear_axis",
    "dft", "div_int32_trunc", "dropout_default_mask", "einsum_batch_diagonal", "elu",
    "expand_dim_changed", "eyelike_with_dtype", "flatten_axis1", "gather_negative_indices",
    "gather_elements_0", "gathernd_example_int32_batch_dim1", "gemm_all_attributes",
    "gelu_tanh_1", "gridsample_bicubic_align_corners_0_additional_1",
    "group_normalization_epsilon", "hardmax_axis_1", "instancenorm_epsilon", "isinf_negative",
    "layer_normalization_4d_axis1", "linear_attention_gated", "logsoftmax_axis_1",
    "lppool_2d_dilations", "lrn", "matmul_3d", "matmulinteger", "maxpool_2d_ceil",
    "maxpool_with_argmax_2d_precomputed_strides", "mod_mixed_sign_int32", "mvn",
    "onehot_with_negative_axis", "reflect_pad", "pow_types_float32_int32", "prelu_broadcast",
    "qlinearconv", "qlinearmatmul_2D_uint8_float32", "range_float_type_positive_delta",
    "reduce_log_sum_exp_keepdims_random", "reduce_max_bool_inputs", "reshape_zero_dim",
    "reversesequence_batch", "resize_downsample_scales_cubic", "resize_upsample_sizes_nearest",
    "rms_normalization_2d_axis1", "shape_start_1_end_negative_1", "shrink_hard",
    "slice_neg_steps", "softmax_axis_0", "spacetodepth_example",
    "split_variable_parts_2d_opset18", "squeeze_negative_axes", "tile",
    "scatter_elements_with_axis", "scatternd_add", "tensorscatter_circular", "cumsum_2d_axis_0",
    "transpose_all_permutations_3", "triu_pos", "unsqueeze_unsorted_axes", "where_example",
)  # fmt: skip
HOSTED = (
    "lstm_with_peepholes",
    "nonzero_example",
    "top_k",
    "unique_not_sorted_without_axis",
)


@cache
def by_name() -> dict[str, NodeCase]:
    wanted = {f"test_{name}" for name in (*SAMPLE, *HOSTED)}
    return {case.name: case for case in cases(large=False) if case.name in wanted}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # onnx makes its cases at infinities
@pytest.mark.parametrize("name", [*SAMPLE, *HOSTED])
def test_a_node_computes_as_onnx_says(name: str) -> None:
    case = by_name().get(f"test_{name}")
    assert case is not None, sorted(by_name())
    assert difference(case, hosted=name in HOSTED)[0] == ""


def test_inputs_that_shapes_depend_on_are_bound_by_value() -> None:
    case = by_name()["test_tile"]
    graph = case.graph(case.inputs(0))
    assert [re.sub(r"\d", "", name) for name in graph.inputs] == ["x"]
