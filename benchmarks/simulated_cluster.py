"""Discrete-event simulation of tunings on slots, with measured seconds of each part.

A driver is one Python process: its main thread proposes rounds, trains, and stores; each round
under way has a thread, which looks at the slots, encodes questions and decodes answers. Threads
share one processor in equal parts, as they share the lock of the interpreter; LightGBM trains
outside that lock. A round that has candidates but no slot looks again after POLL_S, a round with a
slot after TICK_S (`cluster.sharing`). Questions pass the network interface and
the bridge one after the other; a transaction of the database is served in turn.

Not simulated: lost slots, slots that disagree, the opening of search spaces, final races.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from random import Random
from typing import Final

TICK_S: Final = 0.5  # cluster.sharing.TICK_S
POLL_S: Final = 0.05  # cluster.crew.POLL_S
MARKS: Final = 3  # kernels that each slot times to find its factor
FIRST_ROUND: Final = 8  # trials of the first round of a task
POOLS: Final = 4  # open pools beside one for each round under way
LINE_BYTES_PER_S: Final = 125e6  # 1 Gbit/s
BRIDGE_S: Final = 0.8e-3  # a pipelined call of an actor of Ray (measured beside its evaluation)

Action = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds that grow linearly with a count."""

    fixed_s: float
    each_s: float

    def at(self, count: float) -> float:
        """Return the seconds at a count."""
        return self.fixed_s + self.each_s * count


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured seconds.

    build, trial, propose, open   samples: of a candidate, a candidate, a round, a pool on a slot
    train, history, checkpoint    by known candidates, by known ones of the task, by rounds
    encode, decode                of a batch by its candidates
    look                          a look at the slots, by their number
    store, commit                 of the driver and of the database, by records
    question_bytes, answer_bytes  of a candidate
    """

    build: Sequence[float]
    trial: Sequence[float]
    propose: Sequence[float]
    open: Sequence[float]
    train: Line
    history: Line
    checkpoint: Line
    encode: Line
    decode: Line
    look: Line
    store: Line
    commit: Line
    question_bytes: float = 20_000.0
    answer_bytes: float = 200.0


@dataclass(frozen=True, slots=True)
class Scene:
    """The cluster, the tunings on it, and the design.

    Args:
        slots: of all drivers together; each driver owns an equal share of them.
        trials: of each driver.
        builders: of each slot.
        most: rounds under way at most; also at most as many as the driver has slots.
        growth: share by which the known candidates grow until the model is trained again.
        aside: training goes on beside the rounds.
        polls: a round looks for idle slots at intervals; else an idle slot wakes it.
        pools: open pools at most; None: `most` + POOLS.
        prefers: a batch goes to a slot that knows the task, if there is an idle one.
        one_scale: a slot times marks for its first task only.
    """

    slots: int
    drivers: int = 1
    tasks: int = 1
    trials: int = 1024
    seed: int = 0
    builders: int = 2
    most: int = 8
    round_trials: int = 64
    batch: int = 16
    growth: float = 0.0
    aside: bool = False
    polls: bool = True
    pools: int | None = None
    prefers: bool = False
    one_scale: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds of a simulation, and the share of them in which each part was busy.

    `slots` counts candidates, marks and openings; `other` is the part of marks and openings.
    """

    seconds: float
    trials: int
    slots: float
    other: float
    driver: float
    training: float
    network: float
    bridge: float
    database: float

    @property
    def rate(self) -> float:
        """Trials per second."""
        return self.trials / self.seconds

    @property
    def first(self) -> str:
        """The busiest part."""
        names = "slots", "driver", "training", "network", "bridge", "database"
        return max(names, key=lambda name: float(getattr(self, name)))


class Clock:
    """Simulated time and the events to come."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Action]] = []
        self._count = 0

    def at(self, when_s: float, action: Action) -> None:
        """Run an action at a time; actions of one time run in the order of these calls."""
        self._count += 1
        heapq.heappush(self._due, (when_s, self._count, action))

    def run(self) -> None:
        """Run all events."""
        while self._due:
            self.now_s, _, action = heapq.heappop(self._due)
            action()


class Queue:
    """A server that serves one request after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._free_s, self.busy_s = clock, 0.0, 0.0

    def add(self, seconds: float, after_s: float = 0.0) -> float:
        """Return the end of a request that arrives now, or at a later time."""
        begin_s = max(self._free_s, self._clock.now_s, after_s)
        self._free_s = begin_s + seconds
        self.busy_s += seconds
        return self._free_s


class Processor:
    """A processor that threads share in equal parts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: list[tuple[float, int, Action]] = []
        self._work_s = self._last_s = 0.0  # seconds that each thread has got
        self._count = self._version = 0
        self.busy_s = 0.0

    def add(self, seconds: float, then: Action) -> None:
        """Run a job of a thread, and an action at its end."""
        self._advance()
        self._count += 1
        self.busy_s += seconds
        heapq.heappush(self._jobs, (self._work_s + seconds, self._count, then))
        self._plan()

    def _advance(self) -> None:
        if self._jobs:
            self._work_s += (self._clock.now_s - self._last_s) / len(self._jobs)
        self._last_s = self._clock.now_s

    def _plan(self) -> None:
        self._version += 1
        if self._jobs:
            left_s = max(0.0, self._jobs[0][0] - self._work_s) * len(self._jobs)
            self._clock.at(self._clock.now_s + left_s, partial(self._ended, self._version))

    def _ended(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        self._work_s = max(self._work_s, self._jobs[0][0])
        ended = []
        while self._jobs and self._jobs[0][0] <= self._work_s:
            ended.append(heapq.heappop(self._jobs)[2])
        self._plan()
        for then in ended:
            then()


@dataclass(slots=True, eq=False)
class Pool:
    """The pools of a task on the slots of a driver: where they are open, and the scale."""

    opened: set[int] = field(default_factory=set)
    factors: set[int] = field(default_factory=set)

    @property
    def marked(self) -> bool:
        """True if the first slot has set the scale."""
        return bool(self.factors)


@dataclass(slots=True, eq=False)
class Task:
    """A task: its trials, and its rounds that are under way; the first one is measured."""

    number: int
    trials: int = 0
    rounds: deque["Round"] = field(default_factory=deque)


class Slots:
    """The slots of a driver: which are idle, and the seconds of work of all."""

    def __init__(self, scene: Scene, costs: Costs, clock: Clock, random: Random) -> None:
        self._scene, self._costs, self._clock, self._random = scene, costs, clock, random
        self.count = scene.slots // scene.drivers
        self.idle = dict.fromkeys(range(self.count))
        self.busy_s = self.other_s = 0.0

    def seconds(self, candidates: int) -> float:
        """Return the seconds of a batch: builders work side by side, trials one by one."""
        pick, build, trial = self._random.choice, self._costs.build, self._costs.trial
        builders = [0.0] * self._scene.builders
        end_s = 0.0
        for _ in range(candidates):
            built_s = heapq.heappop(builders) + pick(build)
            heapq.heappush(builders, built_s)
            end_s = max(end_s, built_s) + pick(trial)
        return end_s

    def opening(self) -> float:
        """Return the seconds in which a slot opens a pool before its first trial."""
        return self._random.choice(self._costs.open)

    def free(self, pool: Pool, held: Set[int], waiting: int, prefers: bool) -> list[int]:
        """Return the idle slots that a round looks at, in their order.

        Args:
            held: slots whose outcomes wait for a factor.
            waiting: batches that wait.
            prefers: slots that know the task come first.
        """
        if not waiting:
            return [slot for slot in held if slot in self.idle]
        if not prefers:
            return list(islice(self.idle, waiting + len(held)))
        known = [slot for slot in pool.factors if slot in self.idle]
        others = (slot for slot in self.idle if slot not in pool.factors)
        return [*known, *islice(others, max(0, waiting + len(held) - len(known)))]


class Round:
    """Candidates of a round on their way through the slots; as `cluster.sharing.SharedRound`."""

    def __init__(self, driver: "Driver", task: Task, count: int, pool: Pool) -> None:
        self.driver, self.task, self.count, self.pool = driver, task, count, pool
        size = max(1, min(driver.scene.batch, -(-count // driver.slots.count)))
        sizes = [min(size, count - begin) for begin in range(0, count, size)]
        self.waiting = deque(enumerate(sizes))
        self.running: dict[int, int] = {}  # slot -> number of the batch, -1: the marks
        self.held: set[int] = set()  # slots whose outcomes wait for a factor
        self.answered: list[tuple[int, int, int]] = []
        self.done = self.asleep = False
        self._woken = 0

    def start(self) -> None:
        """Count the slots, then look for idle ones."""
        self.driver.cpu.add(self.driver.look_s, self.look)

    def look(self) -> None:
        """Look for idle slots."""
        self.driver.cpu.add(self.driver.look_s, self._give)

    def _give(self) -> None:
        """Give a batch or the marks to each idle slot that can take one."""
        pool, given, slots = self.pool, list[tuple[int, int, int]](), self.driver.slots
        self.held -= pool.factors
        for slot in slots.free(pool, self.held, len(self.waiting), self.driver.scene.prefers):
            known = slot in pool.factors
            if not known and pool.marked and (self.waiting or slot in self.held):
                given.append((slot, -1, MARKS))
            elif self.waiting and (known or slot not in self.held):
                given.append((slot, *self.waiting.popleft()))
            else:
                continue
            del slots.idle[slot]
        for slot, batch, _ in given:
            self.running[slot] = batch
        costs = self.driver.costs
        encode_s = sum(costs.encode.at(count) for _, _, count in given)
        if given:
            self.driver.cpu.add(encode_s, partial(self._send, given))
        else:
            self._sleep()

    def _send(self, given: Sequence[tuple[int, int, int]]) -> None:
        driver, now_s = self.driver, self.driver.clock.now_s
        for slot, batch, count in given:
            taken_s = driver.slots.seconds(count)
            other_s = taken_s if batch < 0 else 0.0
            if slot not in self.pool.opened:
                self.pool.opened.add(slot)
                open_s = driver.slots.opening()
                taken_s, other_s = taken_s + open_s, other_s + open_s
            driver.slots.busy_s += taken_s
            driver.slots.other_s += other_s
            sent_s = driver.network.add(count * driver.costs.question_bytes / LINE_BYTES_PER_S)
            there_s = driver.bridge.add(BRIDGE_S, sent_s)
            answer = partial(self._arrive, slot, batch, count)
            driver.clock.at(max(now_s, there_s) + taken_s, answer)
        self._sleep()

    def _sleep(self) -> None:
        """Wait for an answer, a tick or an idle slot; end if nothing is left."""
        if self.answered:
            self._take()
        elif self.running or self.waiting or self.held:
            self.asleep = True
            self._woken += 1
            if self.driver.scene.polls:
                pause_s = TICK_S if self.running else POLL_S
                again = partial(self._tick, self._woken)
                self.driver.clock.at(self.driver.clock.now_s + pause_s, again)
        else:
            self.done = True
            self.driver.measured(self)

    def _tick(self, number: int) -> None:
        if self.asleep and number == self._woken:
            self.asleep = False
            self.start()  # two looks: of the settlement or the pause, and for idle slots

    def notify(self) -> None:
        """Look again if candidates wait: a slot is idle."""
        if self.asleep and (self.waiting or self.held):
            self.asleep = False
            self.look()

    def _arrive(self, slot: int, batch: int, count: int) -> None:
        size = count * self.driver.costs.answer_bytes
        self.driver.network.busy_s += size / LINE_BYTES_PER_S
        self.answered.append((slot, batch, count))
        if self.asleep:
            self.asleep = False
            self._take()

    def _take(self) -> None:
        """Decode the answers that are there, free their slots, settle, and look again."""
        answers, self.answered = self.answered, []
        decode_s = sum(self.driver.costs.decode.at(count) for _, _, count in answers)
        self.driver.cpu.add(decode_s, partial(self._free, answers))

    def _free(self, answers: Sequence[tuple[int, int, int]]) -> None:
        pool = self.pool
        for slot, batch, _ in answers:
            del self.running[slot]
            if batch < 0:
                pool.factors.add(slot)
            elif slot not in pool.factors:
                if not pool.marked and not batch:
                    pool.factors.add(slot)
                else:
                    self.held.add(slot)
        self.driver.free([slot for slot, _, _ in answers])
        self.driver.cpu.add(self.driver.look_s, self.look)  # `sharing._settle` looks, too


class Driver:
    """A tuning: the main thread and its rounds; as `tuner.tune.search`."""

    def __init__(
        self, scene: Scene, costs: Costs, clock: Clock, database: Queue, seed: int
    ) -> None:
        self.scene, self.costs, self.clock, self._database = scene, costs, clock, database
        self._random = Random(seed)
        self.slots = Slots(scene, costs, clock, self._random)
        self.cpu, self.network, self.bridge = Processor(clock), Queue(clock), Queue(clock)
        self.look_s = costs.look.at(self.slots.count)
        self.trained_s = 0.0
        self._tasks = [Task(number) for number in range(scene.tasks)]
        self._pools: OrderedDict[int, Pool] = OrderedDict()
        self._under_way: deque[Round] = deque()
        self._most = max(1, min(scene.most, self.slots.count))
        self._given = self._known = self._rounds = self._learned = 0
        self._factors: set[int] = set()  # slots that `one_scale` knows
        self._waits = False
        self._training = 0.0  # end of a training beside the rounds
        self.end_s = 0.0

    def step(self) -> None:
        """Propose a round if one may begin, else end the oldest."""
        task = self._next() if len(self._under_way) < self._most else None
        if task is not None:
            seconds = self._random.choice(self.costs.propose)
            self.cpu.add(seconds + self.costs.history.at(task.trials), partial(self._begin, task))
        elif self._under_way:
            if self._under_way[0].done:
                self._end(self._under_way.popleft())
            else:
                self._waits = True
        else:
            self.end_s = self.clock.now_s

    def _next(self) -> Task | None:
        """Return a task without a round under way, else one with one, at random."""
        if self._given >= self.scene.trials:
            return None
        free = [one for one in self._tasks if not one.rounds]
        free = free or [one for one in self._tasks if len(one.rounds) < 2]
        return self._random.choice(free) if free else None

    def _begin(self, task: Task) -> None:
        count = self.scene.round_trials if task.trials or task.rounds else FIRST_ROUND
        count = min(count, self.scene.trials - self._given)
        self._given += count
        begun = Round(self, task, count, self._pool(task))
        self._under_way.append(begun)
        task.rounds.append(begun)
        if len(task.rounds) == 1:
            begun.start()
        self.step()

    def _pool(self, task: Task) -> Pool:
        """Return the open pool of a task; at the limit the least recently used is closed."""
        limit = self.scene.most + POOLS if self.scene.pools is None else self.scene.pools
        if task.number not in self._pools:
            while len(self._pools) >= limit:
                self._pools.popitem(last=False)
            pool = self._pools[task.number] = Pool()
            if self.scene.one_scale:
                pool.factors = self._factors
        self._pools.move_to_end(task.number)
        return self._pools[task.number]

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back, and wake rounds that have candidates for them."""
        self.slots.idle |= dict.fromkeys(slots)
        if not self.scene.polls:
            for one in self._under_way:
                one.notify()

    def measured(self, begun: Round) -> None:
        """Let the next round of a task begin; end the round if the main thread waits for it."""
        rounds = begun.task.rounds
        rounds.popleft()
        if rounds:
            rounds[0].start()
        if self._waits and self._under_way[0].done:
            self._waits = False
            self._end(self._under_way.popleft())

    def _end(self, begun: Round) -> None:
        """Learn from the outcomes of a round, then store them."""
        begun.task.trials += begun.count
        self._known += begun.count
        self._rounds += 1
        now_s, then = self.clock.now_s, partial(self._store, begun)
        due = self._known >= self._learned * (1.0 + self.scene.growth)
        if not due or (self.scene.aside and now_s < self._training):
            then()
            return
        self._learned = self._known
        train_s = self.costs.train.at(self._known)
        self.trained_s += train_s
        self._training = now_s + train_s
        self.clock.at(now_s if self.scene.aside else self._training, then)

    def _store(self, begun: Round) -> None:
        costs = self.costs
        store_s = costs.store.at(begun.count) + costs.checkpoint.at(self._rounds)
        store_s += costs.history.at(begun.task.trials) + self.look_s
        self.cpu.add(store_s, partial(self._commit, begun))

    def _commit(self, begun: Round) -> None:
        self.clock.at(self._database.add(self.costs.commit.at(begun.count)), self.step)


def simulated(scene: Scene, costs: Costs) -> Outcome:
    """Simulate the tunings of a scene until the last one has its trials.

    Raises:
        ValueError: there are fewer slots than drivers.
    """
    if scene.slots < scene.drivers:
        raise ValueError(f"cannot divide {scene.slots} slots among {scene.drivers} drivers")
    clock = Clock()
    database = Queue(clock)
    drivers = [
        Driver(scene, costs, clock, database, scene.seed * 1000 + k) for k in range(scene.drivers)
    ]
    for driver in drivers:
        driver.step()
    clock.run()
    end_s = max(driver.end_s for driver in drivers)
    each_s = end_s * scene.drivers

    def share(of: Callable[[Driver], float]) -> float:
        return sum(map(of, drivers)) / each_s

    return Outcome(
        seconds=end_s,
        trials=scene.trials * scene.drivers,
        slots=share(lambda one: one.slots.busy_s / one.slots.count),
        other=share(lambda one: one.slots.other_s / one.slots.count),
        driver=share(lambda one: one.cpu.busy_s),
        training=share(lambda one: one.trained_s),
        network=share(lambda one: one.network.busy_s),
        bridge=share(lambda one: one.bridge.busy_s),
        database=database.busy_s / end_s,
    )


def line(points: Mapping[float, float]) -> Line:
    """Return the line of least squares of relative errors through seconds by count."""
    weights = [1.0 / seconds**2 for seconds in points.values()]
    total = sum(weights)
    mean_x = sum(w * x for w, x in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, y in zip(weights, points.values(), strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, x in zip(weights, points, strict=True))
    product = sum(
        w * (x - mean_x) * (y - mean_y)
        for w, (x, y) in zip(weights, points.items(), strict=True)
    )  # fmt: skip
    each_s = max(0.0, product / spread) if spread else 0.0
    return Line(max(0.0, mean_y - each_s * mean_x), each_s)
