"""Questions about one task: its pool is opened on a slot before the first of them."""

from concurrent.futures import Future
from typing import Any, Final, TypeVar

from ansorpy.cluster.crew import Crew
from ansorpy.cluster.messages import answered, question
from ansorpy.cluster.slots import LostSlotError, ReturnedError
from ansorpy.errors import RunError, WireError

ATTEMPTS: Final = 2  # slots that a question is given to; then its answer is a failure
CALL_S: Final = 900.0  # seconds of a race, an export or a check of a finalist

T = TypeVar("T")


class TaskCalls:
    """Calls of the methods of a task's pools.

    Args:
        number: of the pools of the task, on every slot.
        opening: arguments of `slot_daemon.LocalPools.open`.
    """

    def __init__(self, crew: Crew, number: int, opening: tuple[Any, ...]) -> None:
        self.crew = crew
        self._number, self._opening = number, opening
        self._opened: set[str] = set()
        self._home = ""

    def ask(
        self, name: str, limit_s: float, method: str, *arguments: Any, **options: Any
    ) -> "Future[bytes]":
        """Call a method on a slot, whose answers come in the order of the questions."""
        if name not in self._opened:
            self._opened.add(name)
            self.crew.ask(name, question("open", self._number, *self._opening), CALL_S)
        return self.crew.ask(name, question(method, self._number, *arguments, **options), limit_s)

    def home(self) -> str:
        """Return the slot of the finalists; if it is lost, another one from now on."""
        usable = self.crew.wait()
        if self._home not in usable:
            self._home = usable[0]
        return self._home

    def begin(self, method: str, *arguments: Any, **options: Any) -> None:
        """Call a method of the slot of the finalists without waiting for its end."""
        self.ask(self.home(), CALL_S, method, *arguments, **options)

    def at_home(
        self, kind: type[T] | tuple[type[Any], ...], method: str, *arguments: Any, **options: Any
    ) -> T:
        """Return the answer of the slot of the finalists; of another one if that slot is lost.

        Raises:
            RunError: two slots were lost, or the answer is none of `kind`.
        """
        reason, losses = "", 0
        while losses < ATTEMPTS:
            name = self.home()
            future = self.ask(name, CALL_S, method, *arguments, **options)
            try:
                found = answered(self.crew.answer(future))
            except ReturnedError:
                continue
            except LostSlotError as error:
                reason, losses = str(error), losses + 1
                continue
            except WireError as error:
                raise RunError(f"slot {name}: {error}") from error
            if not isinstance(found, kind):
                raise RunError(f"slot {name} answered {method} with a {type(found).__name__}")
            return found
        raise RunError(f"cannot {method} kernels because {reason}; expected a slot that answers")

    def close(self) -> None:
        """Close the pools on the slots that are there; may be called twice."""
        for name in self._opened & {*self.crew.usable()}:
            self.crew.ask(name, question("close", self._number), CALL_S)
        self._opened.clear()
