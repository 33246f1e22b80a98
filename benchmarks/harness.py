"""Runs contenders alternately in one process and reports how ours compares, with the spread.

A benchmark gives `measure` two or more contenders, ours first. Every round runs each of them
once, in an order that turns from round to round, so that a machine that slows down or speeds up
does so for all. A ratio is taken within a round (the peer's time over ours: above 1 we are
faster) and the median over rounds is reported beside its quartiles.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("headrace", "numpy", "onnxruntime", "onnx", "opencv-python-headless")


@dataclass(frozen=True, slots=True)
class Contender:
    """Something to time. `call` does the whole work of one call and checks nothing."""

    name: str
    call: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call of one contender: the median over rounds and its quartiles."""

    name: str
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """A peer's time over ours, within each round: median, quartiles, extremes.

    `extra` is how many seconds a call of ours takes more, the median over rounds.
    """

    peer: str
    median: float
    low: float
    high: float
    least: float
    most: float
    extra: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One subject measured: `timings` in the order of the contenders, ratios against the first."""

    subject: str
    rounds: int
    calls: int
    timings: tuple[Timing, ...]
    ratios: tuple[Ratio, ...]


def measure(
    subject: str, contenders: Sequence[Contender], *, rounds: int, calls: int = 1, warmup: int = 1
) -> Outcome:
    """Time the contenders: `rounds` rounds of `calls` calls each, after `warmup` calls each."""
    for contender in contenders:
        for _ in range(warmup):
            contender.call()
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        turn = number % len(contenders)
        for contender in (*contenders[turn:], *contenders[:turn]):
            seconds[contender.name].append(_seconds_per_call(contender.call, calls))
    return summarize(subject, rounds, calls, seconds)


def summarize(
    subject: str, rounds: int, calls: int, seconds: Mapping[str, Sequence[float]]
) -> Outcome:
    """Return the outcome of times per call that were measured in rounds, ours first."""
    timings = tuple(Timing(name, *_quartiles(values)) for name, values in seconds.items())
    ours, *peers = seconds
    ratios = tuple(_ratio(peer, seconds[ours], seconds[peer]) for peer in peers)
    return Outcome(subject, rounds, calls, timings, ratios)


def _seconds_per_call(call: Callable[[], object], calls: int) -> float:
    gc.collect()
    gc.disable()  # a collection would fall on whoever happens to be running
    try:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls
    finally:
        gc.enable()


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return median, lower and upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def _ratio(peer: str, ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    values = [their / our for their, our in zip(theirs, ours, strict=True)]
    extra = statistics.median(our - their for their, our in zip(theirs, ours, strict=True))
    return Ratio(peer, *_quartiles(values), least=min(values), most=max(values), extra=extra)


@contextmanager
def cores(count: int) -> Generator[None]:
    """Keep this thread, and the threads started meanwhile, on the last `count` cores.

    Libraries start their pools when first used and keep them, so one process measures one count.
    """
    allowed = os.sched_getaffinity(0)
    if count > len(allowed):
        raise SystemExit(f"this needs {count} cores and may use {len(allowed)}")
    os.sched_setaffinity(0, sorted(allowed)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def machine() -> dict[str, object]:
    """Return what the figures depend on: processor, cores, load, versions."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _installed(name))},
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as text, one line a subject and contender."""
    rows = [("subject", "contender", "median", "quartiles", "ours is faster by", "spread")]
    for outcome in outcomes:
        ratios = {ratio.peer: ratio for ratio in outcome.ratios}
        for timing in outcome.timings:
            ratio = ratios.get(timing.name)
            rows.append(
                (
                    outcome.subject,
                    timing.name,
                    duration(timing.median),
                    f"{duration(timing.low)} to {duration(timing.high)}",
                    f"{ratio.median:.2f} x" if ratio else "",
                    f"{ratio.low:.2f} to {ratio.high:.2f}" if ratio else "",
                )
            )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    pattern = "  ".join(f"{{:<{width}}}" for width in widths)
    return "\n".join(pattern.format(*row).rstrip() for row in rows)


def duration(seconds: float) -> str:
    """Return a time with a unit in which it reads well."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def report(name: str, outcomes: Sequence[Outcome], notes: Sequence[str] = ()) -> None:
    """Print the table and keep it, with all figures and the machine, under results/."""
    text = "\n".join([table(outcomes), *notes])
    print(text)
    keep(name, text, {"notes": list(notes), "outcomes": [asdict(o) for o in outcomes]})


def keep(name: str, text: str, figures: Mapping[str, object]) -> None:
    """Keep a table, and all figures, with what is known of the machine, under results/."""
    facts = machine()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(
        json.dumps({"machine": facts, **figures}, indent=2) + "\n"
    )
    where = f"{facts['processor']}, {facts['cores']} cores, load {facts['load']}"
    heading = f"{where}, {facts['when']}, {_versions(facts)}"
    (RESULTS / f"{name}.txt").write_text(f"{heading}\n\n{text}\n")


def _versions(facts: dict[str, object]) -> str:
    packages = facts["packages"]
    assert isinstance(packages, dict)
    return ", ".join(f"{name} {found}" for name, found in packages.items())


def options(description: str, *, rounds: int) -> argparse.ArgumentParser:
    """Return a parser with what every benchmark takes; a benchmark may add its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"default {rounds}")
    return parser


if __name__ == "__main__":
    sys.exit("the harness is used by the benchmarks beside it; run one of those")
