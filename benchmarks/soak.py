"""Ten minutes of all that an engine does at once, on two cores: nothing is lost, wrong or left.

    python benchmarks/soak.py
    python benchmarks/soak.py --seconds 60

Callers ask what `mixed_load.py` says: pages, cascades, streams, sequences, poison, time limits,
priorities, a state on a device, and a function in a process that is killed now and then. They wait,
give time limits that are too short, or go away. Every five seconds a pipeline gets another version
of its plan. Each question must have one answer, and a right one; what the engines count must be
what the callers got; at the end nothing may be in flight, alive or kept. Before the clock starts
pages are asked for at one time that need more memory than any later, until what is resident stands
still: who meets whom is luck, and a peak that comes after minutes looks like growth. So does an
arena whose last pages nobody came to until then: memory is written to when it is taken, so that it
is resident from then on. After the
first minute neither resident memory nor the blocks in use in Python's heap may grow by more than
2%; the bytes in use in the C library's heap may grow by 5% (`mixed_gauges.py` says why). Needs
glibc 2.33.
"""

import argparse
import gc
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from mixed_callers import Record, crowd, run
from mixed_gauges import GROWTH, Gauges, growth, write_what_is_taken
from mixed_load import crowd_of, load_of, plans

from headrace.compiler.plan import Plan
from headrace.runtime.devices.ledger import Ledger
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.repository.heap import bound_heaps
from headrace.runtime.repository.repository import Repository
from headrace.runtime.service import Service

RELOAD, KILL, SHOW = 5, 10, 30  # seconds
CROWDS, QUIET = 20, 4  # at most so many, until there were so many in which nothing has grown
STILL = 1.002  # times what was held before is no growth


class Bugs(logging.Handler):
    """Accuses what is logged as a bug of ours, and what ends a thread."""

    def __init__(self, record: Record) -> None:
        super().__init__(logging.ERROR)
        self._record = record

    def emit(self, record: logging.LogRecord) -> None:
        if "bug" in (message := record.getMessage()):
            self._record.accuse(f"{message}: {record.exc_info}")

    def ended(self, how: threading.ExceptHookArgs) -> None:
        name = how.thread.name if how.thread is not None else ""
        self._record.accuse(f"thread {name} ended: {how.exc_type.__name__}: {how.exc_value}")


def soak(seconds: float) -> tuple[Record, list[Gauges]]:
    """Run it; return what came of it, and what was held each second."""
    record = Record()
    bugs, hook = Bugs(record), threading.excepthook
    logging.getLogger("headrace").addHandler(bugs)
    threading.excepthook = bugs.ended
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as name:
        known = plans(Path(name))
        config = EngineConfig(workers=1, intra_op_threads=1)
        engines = {app: [Engine(plan, config) for plan in known[app]] for app in known}
        callers, largest = load_of(Path(name), engines), crowd_of(Path(name), engines)
        for engine in [one for versions in engines.values() for one in versions]:
            engine.close()
    before = Gauges.now()
    repository = Repository(EngineConfig(workers=2, intra_op_threads=1))
    for app, versions in known.items():
        repository.load(app, versions[0])
    service = Service(repository, Limits())
    service.set_ready(True)
    reach_peak(lambda: crowd(service, largest, record))
    threads = run(service, callers, record, stop)
    try:
        samples = disturb(repository, known, seconds, record)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    check_left(repository, record)
    repository.close()
    check_counts(repository, record)
    gc.collect()
    after = Gauges.now()
    if after.threads > before.threads or after.descriptors > before.descriptors:
        record.accuse(f"held before: {before}; after: {after}")
    logging.getLogger("headrace").removeHandler(bugs)
    threading.excepthook = hook
    return record, samples


def reach_peak(ask: Callable[[], None]) -> None:
    """Ask until resident memory stands still, or for so many times: at each time it is luck whose
    runs overlap, and how."""
    most, quiet = 0, 0
    for _ in range(CROWDS):
        ask()
        held = Gauges.now().rss
        quiet = quiet + 1 if held < STILL * most else 0
        most = max(most, held)
        if quiet == QUIET:
            break


def disturb(
    repository: Repository, known: Mapping[str, Sequence[Plan]], seconds: float, record: Record
) -> list[Gauges]:
    """Replace plans and kill workers for that time; return what was held, each second."""
    start, before = time.monotonic(), set[int]()
    changing = [name for name, versions in known.items() if len(versions) > 1]
    loads: list[Future[None]] = []
    samples: list[Gauges] = []
    while len(samples) < seconds:
        threading.Event().wait(max(0.0, start + len(samples) + 1 - time.monotonic()))
        samples.append(Gauges.now())
        second = len(samples)
        if second % RELOAD == 0:
            turn, number = divmod(len(loads), len(changing))
            name = changing[number]
            loads.append(repository.load_later(name, known[name][(turn + 1) % 2]))
        if second % KILL == 0:
            # only those that were up by the last time: a plan is not loaded without its workers
            there = isolated()
            for number in there & before:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            before = there
        if second % SHOW == 0:
            print(f"{second:5} s  {samples[-1]}  {record.came.total()} answers", flush=True)
    for load in loads:
        if (error := load.exception()) is not None:
            record.accuse(f"a plan was not replaced: {error}")
    return samples


def isolated() -> set[int]:
    """Return the processes of isolated stages that this one has started."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"headrace worker of" in (path / "cmdline").read_bytes():
                found.add(int(path.name))
    return found


def check_left(repository: Repository, record: Record) -> None:
    """Accuse what is left over though all callers have their answers."""
    if record.answers != record.futures:
        record.accuse(f"{record.answers} answers to {record.futures} requests")
    if not repository.drain(30):
        record.accuse("something is still in flight")
    for engine in repository.engines:
        engine.settle(30)  # a worker lets go of values a moment after the answer
        if over := left_over(engine):
            record.accuse(f"{engine.plan.pipelines[0].name}: left over {over}")


def left_over(engine: Engine) -> dict[str, int]:
    """Return what an engine holds that it did not before the first request."""
    inside: Any = engine  # Any: nobody else wants to know what is looked at here
    workers = inside._crew.workers
    over: dict[str, int] = workers._scheduler.leftovers() if workers else {}
    for name, sequences in engine.sequences.items():
        over |= {f"sequences of {name}": len(sequences)} if len(sequences) else {}
    if any(getattr(segment, "device", "") == "sim" for segment in engine.plan.segments):
        ledger: Ledger = inside._stages.device("sim").ledger
        over |= {} if ledger.balanced else {"bytes on the device": ledger.live_bytes}
    return over


def check_counts(repository: Repository, record: Record) -> None:
    """Accuse engines that have counted something else than callers have got."""
    counted: Counter[tuple[str, str]] = Counter()
    for (name, _), counts in repository.totals().pipelines.items():
        counted[name, "right"] += counts.successes
        for code, count in counts.failures.items():
            counted[name, code] += count
        if counts.pending:
            record.accuse(f"{name}: {counts.pending} wait in line")
    came = record.came.copy()
    for name in {name for name, outcome in came if outcome == "left"}:
        # whoever leaves a stream does not know whether it has ended meanwhile
        came[name, "right"] += came.pop((name, "left"))
        counted[name, "right"] += counted.pop((name, "cancelled"), 0)
    for key in (+came - counted) | (counted - came):
        record.accuse(f"{' '.join(key)}: counted {counted[key]}, and callers got {came[key]}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Mixed load for a long time")
    parser.add_argument("--seconds", type=float, default=600.0, help="default 600")
    seconds = parser.parse_args().seconds
    bound_heaps()  # as `headrace run` does
    write_what_is_taken()
    record, samples = soak(seconds)
    for (pipeline, outcome), count in sorted(record.came.items()):
        print(f"{pipeline:12} {outcome:12} {count:8}")
    for of, most in GROWTH.items():
        if (grown := growth(samples, of)) is not None:
            print(f"{of} has grown by {grown:.2%} after the first minute")
            if grown > most:
                record.accuse(f"{of} grows")
    return 1 if record.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
