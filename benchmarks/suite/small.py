"""Every form of the suite at a tiny, odd size: for tests of contestants, not of speed."""

from typing import Final

from benchmarks.suite.forms import (
    Attention,
    BatchMatmul,
    Capsule,
    Conv,
    Elementwise,
    Form,
    LayerNorm,
    Matmul,
    MatmulGelu,
    MaxPool,
    Norm,
    Softmax,
    SumOf,
    TransposedBatchMatmul,
    TransposedConv,
)

FORMS: Final[dict[str, Form]] = {
    "matmul": Matmul(5, 7, 3),
    "dense": Matmul(1, 7, 3, weights=True),
    "batch_matmul": BatchMatmul(3, 5, 7, 2),
    "conv1d": Conv(2, 3, (17,), 5, 3, 2, 1),
    "conv2d": Conv(2, 3, (7, 6), 5, 3, 1, 1),
    "conv2d_even": Conv(1, 3, (8, 8), 5, 7, 2, 3),
    "conv2d_1x1": Conv(1, 7, (5, 5), 3, 1),
    "conv2d_nhwc": Conv(2, 3, (7, 6), 5, 3, 1, 1, nhwc=True),
    "conv3d": Conv(1, 2, (3, 5, 4), 3, 3, 1, 1),
    "grouped": Conv(2, 6, (7, 7), 8, 3, 2, 1, groups=2),
    "dilated": Conv(1, 3, (7, 7), 5, 3, 1, 1, dilation=2),
    "depthwise": Conv(2, 5, (7, 7), 5, 3, 1, 1, groups=5),
    "conv_layer": Conv(2, 3, (7, 6), 5, 3, 1, 1, layer=True),
    "transposed": TransposedConv(2, 3, 4, 5, 4, 2, 1),
    "capsule": Capsule(2, 5, 3, 2, 3, 2, 1),
    "norm": Norm(3, 5, 7),
    "tbg": TransposedBatchMatmul(2, 5, 3, 4),
    "softmax": Softmax(5, 19),
    "layer_norm": LayerNorm(5, 7),
    "gelu": MatmulGelu(3, 5, 7),
    "attention": Attention(3, 5, 4),
    "elementwise": Elementwise(3, 5),
    "row_sums": SumOf(3, 5, 1),
    "column_sums": SumOf(3, 5, 0),
    "max_pool": MaxPool(2, 3, 6),
}
