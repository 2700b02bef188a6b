"""The builders of one task, the batches that they have in progress, and the cache of results.

A batch may stay in progress while the caller does other work: candidates of the next round are
built while it is proposed (ADR-0039). Its results are taken at the next opportunity.
"""

import select
from collections.abc import Iterator, Sequence

from ansorpy.measure.code_cache import CodeCache
from ansorpy.measure.outcome import Failed
from ansorpy.measure.protocols import Builder, BuildRequest, BuildResult

Batch = tuple[BuildRequest, ...]


class BuildQueue:
    """Builders and their batches; every machine code goes to `cache`.

    Args:
        quiet: cores that no build may occupy while something is timed.
        cores: of this machine, of which the caller occupies one; one per builder unless given.
    """

    def __init__(
        self,
        builders: Sequence[Builder],
        quiet: frozenset[int],
        cache: CodeCache,
        cores: int | None = None,
    ) -> None:
        self.builders = tuple(builders)
        self._beside = (cores or len(self.builders)) - 1  # builders that work beside the caller
        self.quiet = quiet
        self.cache = cache
        self.batches: dict[Builder, Batch] = {}  # in progress
        self._following: tuple[Batch, float] = (), 0.0  # to be started, and its time-out

    def disturbs(self, builder: Builder) -> bool:
        """Return whether a build of this builder would slow down a measurement."""
        return bool(builder.cores & self.quiet)

    @property
    def disturbing(self) -> bool:
        """True if a batch is in progress that would slow down a measurement."""
        return any(map(self.disturbs, self.batches))

    def start(self, builder: Builder, requests: Sequence[BuildRequest], timeout_s: float) -> None:
        """Start a batch on a builder that has none."""
        builder.submit(requests, timeout_s)
        self.batches[builder] = tuple(requests)

    def take(self, builder: Builder) -> Iterator[tuple[BuildRequest, BuildResult | Failed]]:
        """Wait for the batch of a builder; yield its requests and results."""
        batch = self.batches.pop(builder)
        for request, result in zip(batch, builder.results(), strict=True):
            if isinstance(result, BuildResult):
                self.cache.put_code(request, result)
            yield request, result

    def take_finished(self) -> None:
        """Take the results of every batch that is finished."""
        for builder in tuple(self.batches):
            poll = select.poll()
            poll.register(builder.fileno(), select.POLLIN)
            if poll.poll(0):
                list(self.take(builder))

    def prebuild(
        self, requests: Sequence[BuildRequest], timeout_s: float, later: bool = False
    ) -> None:
        """Start to build the missing requests on idle builders; return at once.

        One core stays without a build, because the caller occupies it. Builders on quiet cores
        come last: a batch in progress there would delay the next measurement.

        Args:
            later: start once the next pipeline has nothing left to build.
        """
        if later:
            self._following = tuple(requests), timeout_s
            return
        order = sorted(self.builders, key=self.disturbs)
        self._share(order[: self._beside], requests, timeout_s)

    def start_following(self, beside: bool) -> None:
        """Start the requests that wait; `beside` a measurement, on builders off its cores only."""
        requests, timeout_s = self._following
        if not requests:
            return
        able = [one for one in self.builders if one.idle and not self.disturbs(one)]
        if able or not beside:
            self._following = (), 0.0
            if beside:
                self._share(able, requests, timeout_s)
            else:
                self.prebuild(requests, timeout_s)

    def _share(
        self, builders: Sequence[Builder], requests: Sequence[BuildRequest], timeout_s: float
    ) -> None:
        missing = self._missing(requests)
        idle = [one for one in builders if one.idle]
        for number, builder in enumerate(idle):
            share = missing[number :: len(idle)]
            if share:
                self.start(builder, share, timeout_s)

    def prebuild_one(
        self, request: BuildRequest, timeout_s: float, builders: int = 1, aside: bool = False
    ) -> None:
        """Start to build delivered source or a library; return at once.

        Args:
            builders: how many idle builders build the same. Numba loads for half a second: a
                builder that has loaded it compiles the finalists sooner.
            aside: use builders only that do not disturb a measurement; if there is none, do
                nothing.
        """
        if not self._missing([request]):
            return
        free = [one for one in self.builders if one not in self.batches]
        able = [one for one in free if not (aside and self.disturbs(one))]
        for builder in able[:builders]:
            self.start(builder, [request], timeout_s)

    def _missing(self, requests: Sequence[BuildRequest]) -> list[BuildRequest]:
        self.take_finished()
        under_way = {request for batch in self.batches.values() for request in batch}
        return [one for one in requests if one not in under_way and self.cache.code(one) is None]

    def wait_quiet(self) -> None:
        """Wait for every batch that would slow down a measurement."""
        for builder in tuple(filter(self.disturbs, self.batches)):
            list(self.take(builder))

    def forget(self) -> None:
        """Forget the batches in progress and to come: the builders were killed."""
        self.batches.clear()
        self._following = (), 0.0
