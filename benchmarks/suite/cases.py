"""The named cases of the suite: the operators of Ansor (OSDI 2020, section 7.1) and subgraphs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from benchmarks.suite import forms

LARGE_BATCH: Final = 16
SUFFIX: Final = f"_b{LARGE_BATCH}"


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the suite."""

    name: str
    group: str
    title: str
    form: forms.Form
    batch: int = 1


def _conv(channels: int, size: int, outputs: int, kernel: int = 3, stride: int = 1) -> forms.Conv:
    return forms.Conv(1, channels, (size, size), outputs, kernel, stride, padding=kernel // 2)


def _same(channels: int, size: int) -> forms.Conv:
    return _conv(channels, size, channels)


ONE: Final = (
    Case("gmm_512", "GMM", "matmul 512", forms.Matmul(512, 512, 512)),
    Case("gmm_1024", "GMM", "matmul 1024", forms.Matmul(1024, 1024, 1024)),
    Case("gmm_1000", "GMM", "matmul 1000", forms.Matmul(1000, 1000, 1000)),
    Case("gmm_fc1", "GMM", "dense 1x2048x1000", forms.Matmul(1, 2048, 1000, weights=True)),
    Case("gmm_fc128", "GMM", "dense 128x2048x1000", forms.Matmul(128, 2048, 1000, weights=True)),
    Case("bmm_qk", "GMM", "12 matmuls 128x64x128", forms.BatchMatmul(12, 128, 64, 128)),
    Case("c2d_r64", "C2D", "conv2d 64 at 56, 3x3", _same(64, 56)),
    Case("c2d_r128", "C2D", "conv2d 128 at 28, 3x3", _same(128, 28)),
    Case("c2d_r256", "C2D", "conv2d 256 at 14, 3x3", _same(256, 14)),
    Case("c2d_r512", "C2D", "conv2d 512 at 7, 3x3", _same(512, 7)),
    Case("c2d_first", "C2D", "conv2d stem 3 to 64 at 224, 7x7 / 2", _conv(3, 224, 64, 7, stride=2)),
    Case("c2d_1x1", "C2D", "conv2d 256 to 64 at 56, 1x1", _conv(256, 56, 64, 1)),
    Case("c2d_r64_nhwc", "C2D", "conv2d 64 at 56, 3x3, NHWC", replace(_same(64, 56), nhwc=True)),
    Case("c2d_r512_nhwc", "C2D", "conv2d 512 at 7, 3x3, NHWC", replace(_same(512, 7), nhwc=True)),
    Case("c1d", "C1D", "conv1d 64 to 128 at 256, 3 / 2", forms.Conv(1, 64, (256,), 128, 3, 2, 1)),
    Case("c3d", "C3D", "conv3d 16 to 32 at 16x56x56", forms.Conv(1, 16, (16, 56, 56), 32, 3, 1, 1)),
    Case(
        "grp",
        "GRP",
        "grouped 64 to 128 at 56, / 2",
        replace(_conv(64, 56, 128, stride=2), groups=4),
    ),
    Case("dil", "DIL", "dilated 64 at 56", replace(_same(64, 56), dilation=2)),
    Case("dep_32", "DEP", "depthwise 32 at 112", replace(_same(32, 112), groups=32)),
    Case("dep_384", "DEP", "depthwise 384 at 14", replace(_same(384, 14), groups=384)),
    Case(
        "t2d",
        "T2D",
        "transposed 256 to 128 at 8, 4x4",
        forms.TransposedConv(1, 256, 8, 128, 4, 2, 1),
    ),
    Case("cap", "CAP", "capsule 32 at 16, 3x3 / 2", forms.Capsule(1, 16, 32, 32, 3, 2, 1)),
    Case("nrm_256", "NRM", "norm 256x256", forms.Norm(1, 256, 256)),
    Case("nrm_16x1024", "NRM", "norm 16x1024x1024", forms.Norm(16, 1024, 1024), LARGE_BATCH),
    Case("convlayer", "SUB", "conv2d 64 at 56 + bn + relu", replace(_same(64, 56), layer=True)),
    Case("tbg", "SUB", "transpose + batch matmul", forms.TransposedBatchMatmul(1, 128, 12, 64)),
    Case("softmax_2048x512", "SUB", "softmax 2048x512", forms.Softmax(2048, 512)),
    Case("softmax_512x1000", "SUB", "softmax 512x1000", forms.Softmax(512, 1000)),
    Case("layernorm", "SUB", "layer norm 1024x768", forms.LayerNorm(1024, 768)),
    Case("mm_bias_gelu", "SUB", "128x768x3072 + bias + gelu", forms.MatmulGelu(128, 768, 3072)),
    Case("attention", "SUB", "attention head 512x512x64", forms.Attention(512, 512, 64)),
    Case("eltwise", "SUB", "relu(a + b) * c, 1024x1024", forms.Elementwise(1024, 1024)),
    Case("redsum_ax1", "SUB", "row sums 4096x4096", forms.SumOf(4096, 4096, 1)),
    Case("redsum_ax0", "SUB", "column sums 4096x4096", forms.SumOf(4096, 4096, 0)),
    Case("maxpool", "SUB", "max-pool 64 at 112, 2x2", forms.MaxPool(1, 64, 112)),
)
# The 13 cases of the duel: those with a MetaSchedule figure from the reference machine.
DUEL: Final = (
    "gmm_512", "gmm_1024", "gmm_1000", "c2d_r64", "c2d_r512", "c2d_r64_nhwc", "c2d_r512_nhwc",
    "dep_384", "nrm_256", "nrm_16x1024", "convlayer", "tbg", "softmax_2048x512",
)  # fmt: skip
BATCHED: Final = (
    "c1d", "c2d_r64", "c2d_r128", "c2d_r256", "c2d_r512", "c2d_first", "c2d_1x1", "c3d", "grp",
    "dil", "dep_32", "dep_384", "t2d", "cap", "nrm_256", "convlayer", "tbg",
)  # fmt: skip


def takes_winograd(case: str) -> bool:
    """Return whether Winograd's transforms apply: three taps, step 1, no groups."""
    match CASES[case].form:
        case forms.Conv(kernel=3, stride=1, groups=1):
            return True
        case _:
            return False


def batched(case: Case) -> Case:
    """Return the case with a batch of 16; the form must have a batch."""
    form = case.form
    assert isinstance(
        form,
        forms.Conv
        | forms.TransposedConv
        | forms.Capsule
        | forms.Norm
        | forms.TransposedBatchMatmul,
    )
    title = f"{case.title}, batch {LARGE_BATCH}"
    large = replace(form, batch=LARGE_BATCH)
    return replace(case, name=case.name + SUFFIX, title=title, form=large, batch=LARGE_BATCH)


def _all() -> Mapping[str, Case]:
    ones = {case.name: case for case in ONE}
    title = f"{LARGE_BATCH} matmuls 512"
    many = [
        Case(f"gmm_512{SUFFIX}", "GMM", title, forms.BatchMatmul(16, 512, 512, 512), LARGE_BATCH),
        *(batched(ones[name]) for name in BATCHED),
    ]
    return MappingProxyType(ones | {case.name: case for case in many})


CASES: Final = _all()
