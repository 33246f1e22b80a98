"""A recording as text: a line a call site, and what the times add up to."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...compiler.plan import Place
from ...dsl.cells import cells
from .recording import Part, Recording, Span
from .sums import compute_of, sum_up, until

_HEADING = ("stage", "line", "calls", "rows", "batch", "queue", "compute", "")
_RIGHT = (2, 3, 5, 6)
_GAP = "  "
_SIZES = 4  # of different batches that are shown


@dataclass(slots=True)
class _Site:
    """A stage as one line of the source calls it."""

    stage: str
    place: Place
    calls: int = 0
    rows: int = 0
    queue: float = 0.0
    compute: float = 0.0
    parts: list[Part] = field(default_factory=list[Part])
    hits: int | None = None
    copied: int = 0
    failed: list[str] = field(default_factory=list[str])


def show(recording: Recording) -> str:
    """Return the text."""
    sites = _sites(recording)
    lines = [_HEADING, *map(_line, sites)]
    widths = [max(cells(line[i]) for line in lines) for i in range(len(_HEADING))]
    text = [_aligned(line, widths) for line in lines] if sites else []
    for fell in recording.fell:
        text.append(f"try at {fell.place}: {_count(fell.rows, 'row')} went to its else")
    if recording.emitted:
        first = milliseconds(recording.emitted[0] - recording.begun)
        text.append(
            f"emitted {_count(len(recording.emitted), 'response')}, the first after {first}"
        )
    sums = sum_up(recording)
    parts = [
        f"line {milliseconds(sums.line)}",
        f"queue {milliseconds(sums.queue)}",
        f"compute {milliseconds(sums.compute)}",
        f"between {milliseconds(sums.between)}",
    ]
    less = f" - at once {milliseconds(sums.at_once)}" if sums.at_once > 0 else ""
    text.append(f"total {milliseconds(sums.total)} = {' + '.join(parts)}{less}")
    if recording.fault is not None:
        text.append(f"failed ({recording.fault.code.value}): {ascii(str(recording.fault))[1:-1]}")
    return "\n".join(text)


def milliseconds(seconds: float) -> str:
    """Return a time as a person reads it: `12.3 ms`."""
    value = seconds * 1e3
    return f"{value:.1f} ms" if value >= 10 else f"{value:.3f} ms"


def _sites(recording: Recording) -> list[_Site]:
    sites: dict[tuple[str, Place], _Site] = {}
    for span in list(recording.spans):
        site = sites.setdefault((span.stage, span.place), _Site(span.stage, span.place))
        _add(site, span, until(span, recording))
    return list(sites.values())


def _add(site: _Site, span: Span, end: float) -> None:
    compute = compute_of(span, end)
    site.calls += 1
    site.rows += span.rows
    site.compute += compute
    site.queue += end - span.asked - compute
    site.parts += span.parts
    site.copied += span.copied
    if span.hits is not None:
        site.hits = (site.hits or 0) + span.hits
    if span.fault is not None:
        site.failed.append(span.fault.code.value)


def _line(site: _Site) -> tuple[str, ...]:
    return (
        site.stage,
        f"{site.place.file}:{site.place.line}",
        str(site.calls),
        str(site.rows),
        _batches(site.parts),
        milliseconds(site.queue),
        milliseconds(site.compute),
        ", ".join(_notes(site)),
    )


def _batches(parts: Sequence[Part]) -> str:
    """Return `4 of 16` for a batch of which four rows were its own, `12 in 12 runs` of rows that
    no other request shared."""
    texts: dict[str, int] = {}
    for run, rows in parts:
        if run.requests > 1 or rows < run.rows:
            text = f"{rows} of {run.rows}"
        else:
            text = f"{rows} in {run.executions} runs" if run.executions > 1 else str(rows)
        texts[text] = texts.get(text, 0) + 1
    shown = [text if n == 1 else f"{n} x {text}" for text, n in texts.items()]
    return ", ".join(shown[:_SIZES]) + (", ..." if len(shown) > _SIZES else "")


def _notes(site: _Site) -> list[str]:
    notes: list[str] = []
    padded = sum(part.run.padded for part in site.parts)
    if padded:
        notes.append(f"{padded} rows padded")
    if site.hits is not None:
        notes.append(f"{site.hits} of {site.rows} from cache")
    if site.copied:
        notes.append(f"copied {size(site.copied)}")
    notes += [f"failed ({code})" for code in dict.fromkeys(site.failed)]
    return notes


def size(count: int) -> str:
    """Return bytes as a person reads them."""
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count / 1024:.1f} KiB"


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        " " * (width - cells(text)) + text if i in _RIGHT else text + " " * (width - cells(text))
        for i, (text, width) in enumerate(zip(line, widths, strict=True))
    ]
    return _GAP.join(padded).rstrip()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
