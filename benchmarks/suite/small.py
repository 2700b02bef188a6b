"""Every form of the suite at a tiny, odd size: for tests of contestants, not of speed."""

from typing import Final

from benchmarks.suite import forms

FORMS: Final[dict[str, forms.Form]] = {
    "matmul": forms.Matmul(5, 7, 3),
    "dense": forms.Matmul(1, 7, 3, weights=True),
    "batch_matmul": forms.BatchMatmul(3, 5, 7, 2),
    "conv1d": forms.Conv(2, 3, (17,), 5, 3, 2, 1),
    "conv2d": forms.Conv(2, 3, (7, 6), 5, 3, 1, 1),
    "conv2d_even": forms.Conv(1, 3, (8, 8), 5, 7, 2, 3),
    "conv2d_1x1": forms.Conv(1, 7, (5, 5), 3, 1),
    "conv2d_nhwc": forms.Conv(2, 3, (7, 6), 5, 3, 1, 1, nhwc=True),
    "conv3d": forms.Conv(1, 2, (3, 5, 4), 3, 3, 1, 1),
    "grouped": forms.Conv(2, 6, (7, 7), 8, 3, 2, 1, groups=2),
    "dilated": forms.Conv(1, 3, (7, 7), 5, 3, 1, 1, dilation=2),
    "depthwise": forms.Conv(2, 5, (7, 7), 5, 3, 1, 1, groups=5),
    "conv_layer": forms.Conv(2, 3, (7, 6), 5, 3, 1, 1, layer=True),
    "transposed": forms.TransposedConv(2, 3, 4, 5, 4, 2, 1),
    "capsule": forms.Capsule(2, 5, 3, 2, 3, 2, 1),
    "norm": forms.Norm(3, 5, 7),
    "tbg": forms.TransposedBatchMatmul(2, 5, 3, 4),
    "softmax": forms.Softmax(5, 19),
    "layer_norm": forms.LayerNorm(5, 7),
    "gelu": forms.MatmulGelu(3, 5, 7),
    "attention": forms.Attention(3, 5, 4),
    "elementwise": forms.Elementwise(3, 5),
    "row_sums": forms.SumOf(3, 5, 1),
    "column_sums": forms.SumOf(3, 5, 0),
    "max_pool": forms.MaxPool(2, 3, 6),
}
