"""The one library of a bundle: the object files of verified kernels, and the driver."""

from ansorpy.bundle.driver import driver_text
from ansorpy.bundle.memory import ModelMemory
from ansorpy.bundle.plan import ModelPlan
from ansorpy.codegen.driver_object import driver_object
from ansorpy.codegen.link import link
from ansorpy.errors import BuildError


def model_library(plan: ModelPlan, memory: ModelMemory, prefix: str) -> bytes:
    """Return the linked library of a model.

    Raises:
        BuildError: there is no linker, or it fails.
    """
    objects = {k.library.prefix: k.library.object_code for k in plan.kernels}
    driver = driver_object(driver_text(plan, memory, prefix), prefix)
    linked = link([*objects.values(), driver])
    if isinstance(linked, str):
        raise BuildError(f"cannot build the library of model {plan.name!r} because {linked}")
    return linked
