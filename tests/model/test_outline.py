"""The outline of a model: names of groups for people, and the groups that they read."""

from ansorpy.graph.partition import partition
from ansorpy.model.outline import group_name, outline_of
from ansorpy.model.tasks import tasks_of
from tests.model.test_compile import small_model


def test_groups_are_named_by_their_product_and_its_sizes() -> None:
    parted = partition(small_model())
    found = outline_of(tasks_of(parted), parted)
    assert [(part.name, part.task, part.reads) for part in found] == [
        ("Conv 3x3 8>8 @10x10 +ReLU", "t0_conv_relu", ()),
        ("Conv 3x3 8>8 @10x10 +ReLU", "t0_conv_relu", (0,)),
        ("GlobalAvgPool 1x8x1x1", "t1_globalaveragepool", (1,)),
        ("MatMul 1x8x5", "t2_matmul", (2,)),
    ]


def test_a_name_tells_each_further_operator_once_and_few_of_them() -> None:
    parted = partition(small_model())
    group = parted.groups[0]
    many = group.__class__(group.nodes + group.nodes[1:] * 3, group.outputs)
    assert group_name(parted.graph, many) == "Conv 3x3 8>8 @10x10 +ReLU"
