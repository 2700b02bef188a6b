"""Every exception ansorpy raises on purpose.

AnsorError
  + SpecError       the request is wrong               -> HTTP 422, exit code 2
      + DimError    an operator needs the number that only a call knows
      + ShapeError  a document does not match its schema: names the place
      + GraphError  a model cannot be compiled: names the node, its operator, the attribute
          + UnknownValueError  an operator needs a value that is computed at run time
      + TraceError  a function cannot be traced: names the function, file and line
  + StepError       a transform broke its condition    -> a bug in a rule or a mutation
  + RuleError       a derivation rule raised, or does not end: names the rule and the stage
  + PluginError     a part of another package raised: names the package and the method
  + LoweringError   a complete candidate cannot become loops
  + BuildError      the back end rejected the source   -> recorded as Failed("build")
  + RunError        the kernel crashed or hung         -> recorded as Failed("run")
      + OverrunError  a kernel wrote beside a buffer -> recorded as Failed("out-of-bounds")
      + DeviceError   the driver of a GPU refused a call
          + DeviceMemoryError  its memory is full    -> recorded as Failed("memory")
          + DeviceFault        a kernel failed: the process must be replaced
  + RecordError     a stored record cannot be read or replayed
  + PackageError    a kernel package is damaged, or made for another machine
  + WireError       bytes of a measuring process are no answer -> recorded as Failed("crash")
"""


class AnsorError(Exception):
    """The root of every error that ansorpy raises on purpose."""


class SpecError(AnsorError):
    """The request is wrong: the message names the place, the value and the limit."""


class DimError(SpecError):
    """The size of the dim `dim`, which only a call knows, is used as a number."""

    def __init__(self, message: str, dim: str) -> None:
        super().__init__(message)
        self.dim = dim


class ShapeError(SpecError):
    """A document does not match its schema at one place.

    Args:
        message: names the place, the value and the expected kind.
        place: the way to the value, such as `spec.nodes[2].body[0].a`.
        code: the kind of mistake, as in the problem details of the service.
        expected: the valid values, in words of the schema alone.
    """

    def __init__(self, message: str, place: str, code: str, expected: str) -> None:
        super().__init__(message)
        self.place, self.code, self.expected = place, code, expected


class GraphError(SpecError):
    """A model cannot be compiled: the message names the node, its operator and the attribute."""


class UnknownValueError(GraphError):
    """An operator needs the elements of `value`, which is computed at run time."""

    def __init__(self, message: str, value: str) -> None:
        super().__init__(message)
        self.value = value


class TraceError(SpecError):
    """A function cannot be traced: the message names the operation, function, file and line."""


class StepError(AnsorError):
    """A transform was applied where its condition does not hold."""


class PluginError(AnsorError):
    """A part of another package cannot be loaded, raised, or gave a wrong answer.

    The message names the part, its package, and the stage.
    """


class RuleError(AnsorError):
    """A derivation rule raised or does not end: the message names the rule, stage and reason.

    `state` is the loop nest that the rule was given, "" if it is not known.
    """

    def __init__(self, message: str, rule: str, stage: str, state: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.stage = stage
        self.state = state


class LoweringError(AnsorError):
    """A complete candidate cannot become loops."""


class BuildError(AnsorError):
    """The back end rejected generated source."""


class RunError(AnsorError):
    """A kernel crashed, hung, or could not be started."""


class OverrunError(RunError):
    """A kernel wrote beside a buffer: the message names buffer and place."""


class DeviceError(RunError):
    """The driver of a GPU refused a call."""


class DeviceMemoryError(DeviceError):
    """The memory of a GPU is full."""


class DeviceFault(DeviceError):  # noqa: N818 - the field's word
    """A kernel failed on a GPU; no later call of the process can succeed."""


class RecordError(AnsorError):
    """A stored record cannot be read or replayed.

    `field` and `expected` name a field that is refused, without its value; "" if none is.
    """

    def __init__(self, message: str, field: str = "", expected: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.expected = expected


class PackageError(AnsorError):
    """A kernel package is damaged, was tampered with, or was made for another machine."""


class WireError(AnsorError):
    """The bytes are no value of the expected type."""


def shown(text: object, width: int = 72) -> str:
    """Return at most `width` characters of an object, for the message of an error."""
    whole = str(text)
    return whole if len(whole) <= width else whole[: width - 3] + "..."


def quoted(value: object) -> str:
    """Return a short `repr` of any value that a request may hold."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return shown(repr(value))
