"""The facts of slots that come and go: each is asked until it has told them."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from ansorpy.cluster.messages import Question, SlotFacts, answered
from ansorpy.cluster.slots import LostSlotError, ReturnedError
from ansorpy.errors import WireError

HELLO_S: Final = 60.0


class Greeting:
    """The facts of slots by name.

    Args:
        ask: sends a question to a slot.
    """

    def __init__(self, ask: "Callable[[str, Question, float], Future[bytes]]") -> None:
        self._ask = ask
        self._asked: dict[str, Future[bytes]] = {}
        self._facts: dict[str, SlotFacts] = {}

    def known(self, names: Collection[str]) -> Mapping[str, SlotFacts]:
        """Return the facts of those among `names` that have told them; ask the others."""
        for gone in self._asked.keys() - {*names}:
            del self._asked[gone]
            self._facts.pop(gone, None)
        for name in names:
            if name not in self._asked:
                self._asked[name] = self._ask(name, Question("hello"), HELLO_S)
            elif name not in self._facts and self._asked[name].done():
                with suppress(LostSlotError, ReturnedError, WireError):
                    found = answered(self._asked[name].result())
                    if isinstance(found, SlotFacts):
                        self._facts[name] = found
                        continue
                del self._asked[name]  # it is asked again
        return dict(self._facts)
