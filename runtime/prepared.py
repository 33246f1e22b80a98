"""A pipeline made ready to run: its border, its bound blocks, how long it takes."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from ..compiler.plan import Block as PlannedBlock
from ..compiler.plan import PipelinePlan, TryStep
from ..compiler.plan_walk import segments_of, steps_of
from .accept import Acceptor, require_results
from .bind import bind_block
from .cache import Cache, CacheUse
from .chain_stage import ChainStage
from .chains import chained
from .context import NO_PARAMETERS, Context, told_of
from .flow import ONE, Block, Flow, Group
from .in_sequence import first_of, initial_states, walk_in_sequence
from .metrics import Snapshot
from .op_stage import OpStage
from .present import Presenter
from .prune import prune
from .queue_policy import level_of
from .request import Fault, InSequence, Request, RequestError
from .rows import Rows, size_of
from .sequences import States, Turn
from .stage import Awaiting, Policy, Stage
from .stage_calls import CountedBlock, StageCalls
from .turns import Sequences

CHEAP_SECONDS = 200e-6
"""Below this a hop to another thread costs about as much as the request. What is cheap is so until
its mean is twice that: on a busy machine the same request takes longer, and most where it hops."""

_SUBSETS = 32
"""Different sets of wanted results that are kept bound; a caller cannot make more stay."""


class Meeting(NamedTuple):
    """Requests whose stage has nothing to decide of whoever waits for it: those that come while
    so many `runs` are under way, where that is bounded, may wait and then share one of so many
    `rows`."""

    rows: int = 0
    runs: int = 0


APART: Final = Meeting()
"""Of requests that do not wait for each other so."""


def _group(count: int) -> Group:
    return Group(count, None, (), range(count))


_GROUPS: Final = tuple(map(_group, range(9)))
"""Those of most requests, which nobody changes."""


class Prepared:
    """`average` is the running mean of the seconds that a request computes, `start_seconds` of
    those until it first waits for a stage; None before the first. `cheap` says whether a
    request takes so little time that the receiving thread had better run it, `queued` whether
    any of the stages has a queue, `takes` whether any takes resources of the rate limiter's or
    may run again, `limited` which run under a time limit of a `try`. `whole` is the block that
    gives all results, and what presents them. `told` are the stages that are given the request,
    each with the number of its parameters; `body` is the plan's with its `chains` as one call
    each; `awaits` those for which a stream is parked until they have something to give. `meets`
    says whether it is so simple that requests may wait for each other outside of the queues."""

    def __init__(
        self,
        pipeline: PipelinePlan,
        index: int,
        stages: Sequence[Stage],
        transfer: Callable[[str], Stage],
        sequences: Sequences | None = None,
        caches: Mapping[int, Cache] | None = None,
        told: Mapping[int, int] | None = None,
        chains: Sequence[ChainStage] = (),
        *,
        counted: bool = False,
    ) -> None:
        """With `counted` it counts what it asks of each stage."""
        self.plan, self.index, self.sequences = pipeline, index, sequences
        self.average: float | None = None
        self.start_seconds: float | None = None
        self.cheap = False
        self.chains = chains
        self.body = self._chained(pipeline.body)
        called, asked = segments_of(pipeline.body), segments_of(self.body)
        self.queued = any(stages[one].policy is not None for one in asked)
        policies = [stages[one].policy for one in called]
        self.takes = any(one is not None and (one.resources or one.again) for one in policies)
        self.names = tuple(field.name for field in pipeline.results)
        self.limited = _limited(pipeline.body, stages)
        acceptor = Acceptor(pipeline)
        self.accept, self._size = acceptor.accept, acceptor.size
        self._stages, self._transfer = stages, transfer
        self.awaits = _awaiting(called, stages) if pipeline.stream else {}
        known = {*called, *asked}
        self.told = {one: count for one, count in (told or {}).items() if one in known}
        self._caches = {
            one: CacheUse(cache, index, one)
            for one, cache in (caches or {}).items()
            if one in called
        }
        self.calls = {one: StageCalls(index, one) for one in called} if counted else {}
        self._alone = not self.queued and sequences is None and not self._caches
        presenters = tuple(Presenter(pipeline, i) for i in range(len(pipeline.results)))
        self.whole = self._bound(pipeline.body), presenters
        self.meets = self._meeting([stages[one].policy for one in asked])
        self._keeping = threading.Lock()
        self._subsets: dict[tuple[str, ...], tuple[Block, tuple[Presenter, ...]]] = {}

    @property
    def caches(self) -> tuple[CacheUse, ...]:
        """The caches of its stages, with what it has found in them."""
        return tuple(self._caches.values())

    def ask(self, sequence: InSequence | None) -> tuple[Sequences, Turn]:
        """Give a request its turn in its sequence; raises Fault when it cannot have one."""
        sequences, sequence = self.require(sequence)
        return sequences, sequences.ask(sequence)

    def require(self, sequence: InSequence | None) -> tuple[Sequences, InSequence]:
        """Raise RequestError where a sequence is named and none is kept, or the reverse."""
        if sequence is None and self.sequences is not None:
            raise RequestError(
                f"`{self.plan.name}` keeps state for a sequence, and this request names none: give "
                "sequence_id, with sequence_start on the first; in Python, call "
                f"`{self.plan.name}.sequence()`",
                pipeline=self.plan.name,
            )
        if sequence is None or self.sequences is None:
            raise RequestError(
                f"`{self.plan.name}` keeps nothing for a sequence; leave out sequence_id",
                pipeline=self.plan.name,
            )
        return self.sequences, sequence

    def size(self, columns: Sequence[Rows]) -> int:
        """Return about how many bytes the inputs of a request take."""
        return size_of(columns) if self._size is None else self._size

    def start(self, columns: list[Rows], block: Block) -> Flow:
        """Return the walk of one request."""
        return block.start(columns, self.group(columns))

    def start_turn(self, turn: Turn, columns: list[Rows], block: Block) -> Flow:
        """Return the walk of a request of a sequence, which begins when its turn has come."""
        sequences = self.sequences
        assert sequences is not None
        return self._walk(turn.sequence, lambda: (sequences.begin(turn), turn.slot), columns, block)

    def start_first(self, columns: list[Rows], block: Block) -> Flow:
        """Return the walk of one request that nobody has made; the first of a sequence where there
        are any."""
        if self.plan.idle is None:
            flow = self.start(columns, block)
        else:
            states = initial_states(self.plan)
            flow = self._walk(first_of(self.plan), lambda: (states, None), columns, block)
        return self.tell(flow, Context() if self.told else None)

    def context(
        self,
        request: Request | None,
        priority: int,
        deadline: float | None,
        clock: Callable[[], float],
    ) -> Context | None:
        """Return what stages are told of a request, None where none asks; `request` None is one of
        which no more is known than `priority` and `deadline`."""
        if not self.told:
            return None
        levels = self.plan.priority
        asked = priority if levels is None else level_of(priority, levels)
        id, parameters = (
            ("", NO_PARAMETERS) if request is None else (request.id, request.parameters)
        )
        sequence, holds = (None, ()) if request is None else (request.sequence, request.behind)
        return Context(id, parameters, asked, deadline, clock, sequence, holds)

    def tell(self, flow: Flow, context: Context | None) -> Flow:
        """Return the walk of a request whose stages are told of it where they ask."""
        return flow if context is None else told_of(flow, context, self.told)

    def _walk(
        self,
        sequence: InSequence,
        begin: Callable[[], tuple[States, int | None]],
        columns: list[Rows],
        block: Block,
    ) -> Flow:
        group = self.group(columns)
        return walk_in_sequence(self.plan, block, columns, sequence, begin, self._transfer, group)

    def group(self, columns: list[Rows]) -> Group:
        """Return the rows of one request."""
        if self.plan.batch is None:
            return ONE
        count = columns[0].count if columns else 1
        return _GROUPS[count] if count < len(_GROUPS) else _group(count)

    def wanted(self, outputs: tuple[str, ...] | None) -> tuple[Block, tuple[Presenter, ...]]:
        """Return the block that gives these results and what presents them."""
        if outputs is None:
            return self.whole
        found = self._subsets.get(outputs)
        if found is None:
            found = self._narrow(outputs)
            with self._keeping:
                if len(self._subsets) >= _SUBSETS:
                    del self._subsets[next(iter(self._subsets))]
                self._subsets[outputs] = found
        return found

    def deadline(self, now: float, given: float | None) -> float | None:
        """Return the shorter of the pipeline's own deadline, from `now`, and the caller's."""
        if self.plan.deadline is None:
            return given
        own = now + self.plan.deadline
        return own if given is None else min(own, given)

    def measured(self, seconds: float | None) -> None:
        """Take one more request that was answered into the running mean; None where it is not known
        how long it has computed."""
        if seconds is None:
            return
        average = self.average = running_mean(self.average, seconds)
        if self._alone:
            self.cheap = average < (2 * CHEAP_SECONDS if self.cheap else CHEAP_SECONDS)

    def failed(self, fault: Fault | None) -> None:
        """Be told of a request that failed, or that its caller has taken back."""

    def started(self, seconds: float) -> None:
        """Note how long a request took to reach its first queue."""
        self.start_seconds = running_mean(self.start_seconds, seconds)

    def _meeting(self, policies: Sequence[Policy | None]) -> Meeting:
        waits = self.plan.stream or self.takes or self._caches or self.sequences is not None
        if waits or not self.whole[0].single or len(policies) != 1:
            return APART
        (policy,) = policies
        if policy is None or policy.queueing is not None or policy.priorities is not None:
            return APART
        batching = policy.batching
        if (
            batching.maximum == 1
            or batching.wait > 0
            or batching.prefer
            or batching.padding is not None
        ):
            return APART
        return Meeting(batching.maximum, policy.instances or 0)

    def _bound(self, body: PlannedBlock) -> Block:
        body = self._chained(body)
        block = bind_block(body, self._stages, self._transfer, self._caches)
        if self.told:
            block.calls = None  # what goes through them tells stages of no request
            if block.only is not None and block.only.stage.index not in self.told:
                block.only = None
        counts = {one.index for one in self.chains}  # themselves
        return block if counts.issuperset(segments_of(body)) else self.counting(block)

    def _chained(self, body: PlannedBlock) -> PlannedBlock:
        return chained(body, [(one.chain, one.index) for one in self.chains])

    def counting(self, block: Block) -> Block:
        """Return a block that counts what it asks, where that is counted."""
        return CountedBlock(block, self.calls) if self.calls else block

    def _narrow(self, outputs: tuple[str, ...]) -> tuple[Block, tuple[Presenter, ...]]:
        require_results(self.plan, outputs)
        indices = tuple(self.names.index(name) for name in outputs)
        count = len(self.plan.body.results)
        wanted = (*indices, *range(count - len(self.plan.states), count))
        body = self.plan.body if self.plan.stream else prune(self.plan.body, wanted)
        block = self._bound(body)
        return block, tuple(self.whole[1][index] for index in indices)


def _limited(block: PlannedBlock, stages: Sequence[Stage]) -> frozenset[int]:
    """Return the models and functions that run under a time limit of a `try`."""
    found: set[int] = set()
    for step in steps_of(block):
        if isinstance(step, TryStep) and step.within is not None:
            called = segments_of(step.body)
            found |= {one for one in called if not isinstance(stages[one], OpStage)}
    return frozenset(found)


def _awaiting(called: Iterable[int], stages: Sequence[Stage]) -> Mapping[int, Awaiting]:
    found = ((one, stages[one]) for one in called)
    return {one: cast("Awaiting", stage) for one, stage in found if hasattr(stage, "ready")}


def with_stages(snapshot: Snapshot, pipelines: Iterable[Prepared]) -> Snapshot:
    """Return the counts with what the pipelines have asked of their stages and found in caches."""
    for pipeline in pipelines:
        for calls in pipeline.calls.values():
            snapshot = snapshot.with_calls(calls)
        for use in pipeline.caches:
            snapshot = snapshot.with_cache(use)
    return snapshot


def running_mean(mean: float | None, seconds: float) -> float:
    """Take one more time into a mean. One that something else held up counts as twice the mean:
    on a busy machine a single such would otherwise hide what requests cost for a while."""
    if mean is None:
        return seconds
    return mean + (seconds - mean if seconds < 2 * mean else mean) * 0.2
