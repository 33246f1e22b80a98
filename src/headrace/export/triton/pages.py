"""The readme of a repository, and what its Python models need installed."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment

from ...compiler.plan import Plan
from ...version import VERSION
from ..needs import extras_of, imports_of
from .light import PLAN_FILE
from .stages import Form, Served

_NUMPY = "numpy<2  # Triton before 24.11 reads arrays of NumPy 2 as empty; drop it with a later one"


@dataclass(frozen=True, slots=True)
class Entry:
    """A pipeline, what it has become, and why."""

    name: str
    kind: str
    why: str


def readme(
    name: str,
    entries: list[Entry],
    models: Iterable[Served],
    notes: list[str],
    *,
    python: bool,
) -> str:
    """Return the text of README.md."""
    has_bls = any(entry.kind == "a BLS model" for entry in entries)
    template = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    text = files(__spec__.parent).joinpath("readme.md.j2").read_text("utf-8")
    return template.from_string(text).render(
        name=name,
        version=VERSION,
        entries=entries,
        models=[_shown(one, python=python) for one in models],
        notes=notes,
        has_bls=has_bls,
        needs_python=has_bls or python,
        plan_file=PLAN_FILE,
    )


def requirements(plans: Iterable[Plan], *, python: bool) -> str:
    """Return the text of requirements.txt for what the plans run in Python; empty for nothing."""
    plans = list(plans)
    if not plans and not python:
        return ""
    lines = ["# For the Python that runs Triton's Python backend."]
    if plans:
        extras = sorted({"server"}.union(*map(extras_of, plans)))
        if any(one.backend == "onnx" for plan in plans for one in plan.segments):
            extras = ["cpu", *extras]
        lines.append(f"headrace[{','.join(extras)}]=={VERSION}")
    if python:
        lines.append("onnxruntime>=1.23")
    others = sorted({module for plan in plans for module in imports_of(plan)})
    if others:
        lines.append(f"# and what gives {', '.join(others)}, which Python stages import")
    return "\n".join([*lines, _NUMPY]) + "\n"


def _shown(served: Served, *, python: bool) -> dict[str, str]:
    rows = {
        Form.ROWS: f"up to {served.rows}",
        Form.ITEM: "one",
        Form.WHOLE: "as they come",
    }
    return {
        "name": served.name,
        "stages": ", ".join(f"`{one}`" for one in served.segment.members),
        "backend": "the Python backend" if python else "the ONNX Runtime backend",
        "rows": rows[served.form],
    }
