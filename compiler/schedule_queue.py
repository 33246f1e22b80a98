"""`queue { }`, with bounds of single priorities, and `priority { }` of a stage or a pipeline."""

from collections.abc import Sequence

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic
from . import schedule_values as read
from .policies import Priorities, Queueing
from .schedule_values import Keys, Mistake, Section

DEFAULT_QUEUE_SIZE = 1024  # requests that wait, where a schedule asks for a queue and gives no size

OF_QUEUE = ("size", "timeout", "on_timeout", "override")
OF_PRIORITY = ("levels", "default")
QUEUE_KEYS = Keys("`queue`", (*OF_QUEUE, "level(n)"))
PRIORITY_KEYS = Keys("`priority`", OF_PRIORITY)

ANY_PRIORITY = Priorities(1 << 31, 1)
"""Stands for a `priority` that is a mistake itself, so that no level of it is another."""


def read_priority(setting: ast.Setting, diagnostics: list[Diagnostic]) -> Priorities | None:
    """Read `priority { levels = 3, default = 2 }`; without `default` it is the lowest."""
    section = Section(PRIORITY_KEYS, read.entries(setting))
    levels = section.take("levels", read.count)
    default = section.take("default", lambda s: _default(s, levels))
    section.close(setting, diagnostics, needs="levels = 2")
    return Priorities(levels, default or levels) if levels is not None else None


def _default(setting: ast.Setting, levels: int | None) -> int:
    default = read.count(setting)
    if levels is not None and default > levels:
        message = f"`default` is {default}, but `levels` is {levels}"
        span = read.value(setting).span
        raise Mistake("HR406", message, span, "no priority is that low")
    return default


def read_queueing(
    setting: ast.Setting, priority: Priorities | None, diagnostics: list[Diagnostic]
) -> Queueing:
    """Read `queue { size, timeout, on_timeout, override, level(n) { } }`; `priority` says which
    levels there are (None: requests are all of one)."""
    settings = read.entries(setting)
    section = Section(QUEUE_KEYS, settings)
    bounds = _bounds(section, settings, Queueing(DEFAULT_QUEUE_SIZE))
    levels: dict[int, Queueing] = {}
    for entry in settings:
        number = read.numbered(entry.key, "level")
        if number is None:
            continue
        if priority is None:
            message = f"`{entry.key.text}` has no effect: requests are all of one priority"
            section.refuse(entry.key.text, "HR403", message, "add `priority { levels = 2 }`")
            continue
        found = section.take(
            entry.key.text, lambda s, n=number: _level(s, n, bounds, priority, diagnostics)
        )
        if found is not None:
            levels[number] = found
    diagnostics += section.finish()
    return Queueing(
        bounds.size,
        bounds.timeout,
        bounds.on_timeout,
        bounds.override,
        tuple(sorted(levels.items(), key=lambda level: level[0])),
    )


def _level(
    setting: ast.Setting,
    number: int,
    queue: Queueing,
    priority: Priorities,
    diagnostics: list[Diagnostic],
) -> Queueing:
    """Read the bounds of one priority; what they do not say is as of the whole queue."""
    if not 1 <= number <= priority.levels:
        message = f"there is no priority {number}: `levels` is {priority.levels}"
        raise Mistake("HR406", message, setting.key.span, f"1 to {priority.levels}")
    settings = read.entries(setting)
    if not settings:
        message = f"`{setting.key.text}` has no effect: it says nothing"
        raise Mistake("HR403", message, setting.key.span, "has no effect", "add `size = 16`")
    section = Section(Keys(f"`{setting.key.text}`", OF_QUEUE), settings)
    bounds = _bounds(section, settings, queue)
    diagnostics += section.finish()
    return bounds


def _bounds(section: Section, settings: Sequence[ast.Setting], default: Queueing) -> Queueing:
    """Take what a queue and a level of one have both; `default` is what is not said."""
    given = {entry.key.text for entry in settings}
    size = section.take("size", read.count)
    timeout = section.take("timeout", read.positive_duration)
    override = "override" in given and section.take("override", read.word("on")) is not None
    if default.timeout is None and not default.override and not given & {"timeout", "override"}:
        message = "`on_timeout` has no effect without `timeout`"
        section.refuse("on_timeout", "HR403", message, "add `timeout = 500ms`")
    on_timeout = section.take("on_timeout", read.word("reject", "delay"))
    return Queueing(
        size or default.size,
        timeout or default.timeout,
        on_timeout or default.on_timeout,
        override or default.override,
    )
