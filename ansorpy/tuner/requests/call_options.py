"""Arguments that functions of Python take beside the options of a tuning, each defined once."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Annotated, Any

from ansorpy.records import RecordStore
from ansorpy.state.rule import Rule
from ansorpy.target import Target
from ansorpy.tuner.options.option import Option
from ansorpy.tuner.requests.own_kernels import Given

TargetOption = Annotated[
    Target | str | None,
    Option(
        "The machine, or its name: `cuda:sm_90`, `cuda` for the GPU that is present; this one,"
        " with `cores` threads, unless given."
    ),
]
BindOption = Annotated[
    Mapping[str, float],
    Option('Values of symbols and of scalar inputs by name: `{"N": 512}`, `{"batch": 1}`.'),
]
ShapesOption = Annotated[
    Mapping[str, Sequence[int]],
    Option("Shapes of inputs of a model by name: {'x': (1, 3, 224, 224)}."),
]
RulesOption = Annotated[
    tuple[Rule, ...] | None,
    Option("The rule set of Dags; the registered one of the target unless given (docs/rules.md)."),
]
StoreOption = Annotated[
    RecordStore | str | None,
    Option(
        "Records of earlier tunings, which are answers or warm starts, and of this one; the store"
        " of the commands unless given. An installed store may be given by name: database, file,"
        " memory, or a plug-in (`ansorpy plugins`)."
    ),
]
OutOption = Annotated[
    PathLike[str] | str | None,
    Option(
        "Folder of the zips, or of the bundle of a model, which a name that ends in .zip names;"
        " in the data folder unless given."
    ),
]
OwnOption = Annotated[
    Given,
    Option(
        "Kernels of your own for the final race: functions of arrays (NumPy, numba) or paths of"
        " delivered zips, one or several, of several tasks by name. Each that passes every"
        " check is timed beside the winner and the baselines, and told with the result."
    ),
]
ProgressOption = Annotated[
    bool | None,
    Option(
        "Show progress on standard error: True, False, or None: only on a terminal and in Jupyter."
    ),
]
EXAMPLES = (
    "Example arguments of its `forward`, or one tensor; their shapes become fixed unless"
    " `dynamic_shapes` keeps extents open."
)
DynamicOption = Annotated[
    Any,
    Option(
        "Extents of a module that calls decide, as of `torch.export.export`:"
        " `{'x': {0: torch.export.Dim('batch', min=1, max=16)}}`."
    ),
]
