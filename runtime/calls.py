"""Requests that are answered in the threads of their callers, without a queue."""

from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import NoReturn, cast

from ..stdlib.op import Item
from .admission import FULL
from .awaiting import leave_loop, return_to
from .blame import overloaded, own_fault, too_large
from .context import Context
from .flow import ONE
from .inline import Inline, answer_in_turn, call_all, emit_in_turn
from .inside import Inside
from .metrics import Metrics
from .prepared import Prepared
from .present import nothing, present
from .request import EngineClosed, Fault, InSequence, Request
from .room import Room
from .rows import Rows, Value, size_of
from .streams import gathered, require_stream


class Calls:
    """Those of one engine. `clock` tells deadlines."""

    def __init__(
        self, metrics: Metrics, inside: Inside, clock: Callable[[], float], room: Room
    ) -> None:
        self._metrics, self._inside, self._clock, self._room = metrics, inside, clock, room

    def run(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        outputs: tuple[str, ...] | None = None,
        deadline: float | None = None,
        sequence: InSequence | None = None,
        request: Request | None = None,
        priority: int = 0,
        *,
        bounded: bool = False,
    ) -> dict[str, Item]:
        """Answer in this thread with the results by name; raises Fault. With `bounded` its inputs
        take room as those of a request that is submitted.

        Of a stream each result is the list of what it has emitted. Stages that ask for the request
        are told of `request`, and of `priority`.
        """
        tally = self._metrics.tally()
        start = perf_counter()
        tally.inside += 1  # before it looks whether the engine is closed, so that `drain` sees it
        told, ended, held = None, False, 0
        loop = leave_loop()
        try:
            if self._inside.closed and not self._inside.is_amid(tally.inside - 1):
                raise EngineClosed
            columns = pipeline.accept(inputs)
            if bounded:
                held = self.taken(pipeline, columns)
            block, presenters = pipeline.whole if outputs is None else pipeline.wanted(outputs)
            plan, clock = pipeline.plan, self._clock
            group = ONE if plan.batch is None else pipeline.group(columns)
            if plan.batch is not None and group.count == 0:
                tally.pipelines[pipeline.index].count_nothing()
                return nothing(presenters)
            if plan.deadline is not None:
                deadline = pipeline.deadline(clock(), deadline)
            told = pipeline.context(request, priority, deadline, clock)
            direct = block.calls is not None or block.only is not None
            if direct and pipeline.sequences is None and sequence is None:
                if told is not None:  # its one stage asks
                    columns = [*columns, Rows.shared(cast("Value", told), group.count)]
                answer = present(
                    presenters, call_all(block, columns, group, tally, clock, deadline, plan.name)
                )
            else:
                inline = Inline(pipeline, tally, clock, deadline)
                if sequence is not None or pipeline.sequences is not None:
                    answer = answer_in_turn(
                        pipeline, sequence, outputs, columns, inline, deadline, told
                    )
                elif plan.stream:
                    flow = pipeline.tell(block.start(columns, group), told)
                    answer = gathered(pipeline.names, list(inline.emitted(flow, presenters)))
                else:
                    flow = pipeline.tell(block.start(columns, group), told)
                    answer = present(presenters, inline.finish(flow))
        except Exception as error:
            self.refuse(pipeline, error)
        else:
            seconds = perf_counter() - start
            cell = tally.pipelines[pipeline.index]
            cell.successes += 1
            cell.duration += seconds
            cell.last = start + seconds
            if group.count != 1:
                cell.count_rows(group.count, seconds)
            pipeline.measured(seconds)
            ended = True
            return answer if told is None else told.remarked(answer)
        finally:
            return_to(loop)
            if held:
                self._room.give(held)
            if told is not None:
                told.end(cancelled=not ended)
            tally.inside -= 1
            if self._inside.closed:
                self._inside.tell_left()

    def taken(self, pipeline: Prepared, columns: list[Rows]) -> int:
        """Take room for inputs; return how much. Raises Fault when there is none."""
        size, name = size_of(columns), pipeline.plan.name
        if self._room.take(size):
            return size
        if self._room.too_large(size):
            raise too_large(name, size)
        raise overloaded(name, None, pipeline.average, FULL)

    def stream(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        deadline: float | None = None,
        sequence: InSequence | None = None,
        request: Request | None = None,
        priority: int = 0,
    ) -> Iterator[dict[str, Item]]:
        """Answer in this thread, one response of a stream after the other, as they are asked for.

        Raises RequestError at once, and other faults where they happen. A request of a sequence has
        its turn from the first that is asked for to the end.
        """
        if self._inside.closed and not self._inside.is_amid(self._metrics.tally().inside):
            raise EngineClosed
        require_stream(pipeline.plan.name, pipeline.plan.stream)
        try:
            columns = pipeline.accept(inputs)
        except Exception as error:
            self.refuse(pipeline, error)
        if pipeline.plan.deadline is not None:
            deadline = pipeline.deadline(self._clock(), deadline)
        if sequence is not None or pipeline.sequences is not None:
            pipeline.require(sequence)
        told = pipeline.context(request, priority, deadline, self._clock)
        return self._stream(pipeline, columns, deadline, sequence, told)

    def _stream(
        self,
        pipeline: Prepared,
        columns: list[Rows],
        deadline: float | None,
        sequence: InSequence | None,
        told: Context | None,
    ) -> Iterator[dict[str, Item]]:
        tally, start = self._metrics.tally(), perf_counter()
        block, presenters = pipeline.wanted(None)
        inline = Inline(pipeline, tally, self._clock, deadline)
        counted = self._inside.begin_reading(inline)
        ended = False
        try:
            if sequence is not None:
                emitted = emit_in_turn(pipeline, sequence, columns, inline, deadline, told)
            else:
                flow = pipeline.tell(pipeline.start(columns, block), told)
                emitted = inline.emitted(flow, presenters)
            for outputs in emitted:
                if counted:
                    self._inside.hand_out(inline, emitted)
                yield outputs
                if counted:
                    self._inside.read_on(inline)
        except Exception as error:
            self.refuse(pipeline, error)
        else:
            cell = tally.pipelines[pipeline.index]
            cell.successes += 1
            cell.last = perf_counter()
            cell.duration += cell.last - start
            ended = True
        finally:
            if told is not None:
                told.end(cancelled=not ended)
            if counted:
                self._inside.end_reading(inline)

    def count_refused(self, pipeline: Prepared, error: Exception) -> Fault:
        """Count a request that fails before it is taken in; return what its caller is to learn."""
        fault = own_fault(error, pipeline.plan.name)
        self._metrics.tally().pipelines[pipeline.index].end(fault)
        return fault

    def refuse(self, pipeline: Prepared, error: Exception) -> NoReturn:
        """Count a request that fails, and raise what its caller is to learn."""
        if isinstance(error, EngineClosed):
            raise error  # nothing of it was done here, so nothing is counted here
        fault = self.count_refused(pipeline, error)
        pipeline.failed(fault)
        try:
            if fault is error:
                raise fault
            raise fault from error
        finally:
            del fault, error  # whose traceback holds this frame
