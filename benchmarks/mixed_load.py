"""What the soak asks: pipelines of the examples and those in `mixed/`, with the right answers."""

import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
from mixed_callers import Callers, Question, question

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine
from headrace.runtime.request import Code, InSequence, Request

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
LETTERS = 'schedule generate on "server" { lm { batch { max = 8, wait = 1ms } } }\n'
DOWN = frozenset({Code.FAILED, Code.UNAVAILABLE})  # of a worker that was killed
FULL = frozenset({Code.OVERLOADED})
CROWD = 3  # of each question


def module(path: Path) -> Any:  # Any: a file's names
    spec = spec_from_file_location(f"soak_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def plans(folder: Path) -> dict[str, tuple[Plan, ...]]:
    """Return the plans by app; those of one app give the same answers, or say which they are."""
    import onnx

    for name in ("ocr", "cascade", "tokens", "vad"):
        shutil.copytree(EXAMPLES / name, folder / name)
    shutil.copytree(HERE / "mixed", folder / "mixed")
    module(folder / "mixed" / "make_models.py").make(folder / "mixed")
    cascade = module(folder / "cascade" / "make_models.py")
    for made in (cascade.quick(), cascade.exact()):
        onnx.save(made, folder / "cascade" / f"{made.graph.name}.onnx")
    onnx.save(module(folder / "tokens" / "make_model.py").model(), folder / "tokens" / "lm.onnx")

    def compiled(app: str, name: str, schedule: str | None = "server", **words: str) -> Plan:
        path = folder / app / f"{name}.pipe"
        source = path.read_text()
        for word, value in words.items():
            path.write_text(source := source.replace(word, value))
        return headrace.compile(path, schedule=schedule).plan

    source = (folder / "mixed" / "mixed.pipe").read_text()
    mixed: list[Plan] = []
    for tag in ("1.0", "2.0"):
        (folder / "mixed" / "mixed.pipe").write_text(source)
        mixed.append(compiled("mixed", "mixed", TAG=tag))
    alone = compiled("tokens", "tokens", None)
    tokens = folder / "tokens" / "tokens.pipe"
    tokens.write_text(tokens.read_text() + LETTERS)
    return {
        "ocr": (compiled("ocr", "ocr"), compiled("ocr", "ocr", "default")),
        "vad": (compiled("vad", "vad"), compiled("vad", "vad", "default")),
        "tokens": (compiled("tokens", "tokens"), alone),
        "mixed": tuple(mixed),
        "cascade": (compiled("cascade", "cascade"),),
        "placed": (compiled("mixed", "placed"),),
    }


class Asking:
    """Makes questions, of which the engines of an app know the answers."""

    def __init__(self, engines: dict[str, list[Engine]]) -> None:
        self._engines = engines

    def of(self, app: str, pipeline: str, **inputs: Any) -> Question:  # Any: items
        return question(self._engines[app], Request(pipeline, inputs))

    def of_steps(self, app: str, pipeline: str, field: str, values: Any) -> Question:  # Any: rows
        requests = [
            Request(pipeline, {field: value}, sequence=InSequence("inline", start=i == 0))
            for i, value in enumerate(values)
        ]
        asked = question(self._engines[app], *requests)
        for engine in self._engines[app]:
            engine.sequences[pipeline].end("inline")
        return asked


def load_of(folder: Path, engines: dict[str, list[Engine]]) -> list[Callers]:
    """Return who asks what; `folder` is that of the plans."""
    asking = Asking(engines)
    pages = [page(folder, one) for one in ("sign", "blank")]
    points, _ = module(folder / "cascade" / "make_models.py").points(64, seed=9)
    sound = (folder / "vad" / "speech.wav").read_bytes()[44:]
    speech = (np.frombuffer(sound, "<i2") / 2**15).astype(np.float32)
    chunks = speech[: len(speech) // 512 * 512].reshape(-1, 512)
    rows = np.random.default_rng(3).integers(0, 9, (40, 8)).astype(np.float32)
    poison = rows[:12].copy()
    poison[:8:4, 0] = -1000
    heard = [chunks[8 * n :][:24] for n in range(4)]
    say = [("generate", one) for one in ("the ", "when", "r")]
    say += [("complete", one) for one in ("the ", "when")]
    pages_read = [asking.of("ocr", "ocr", photo=one) for one in pages]
    return [
        Callers(pages_read, 2, 0.5),
        Callers([asking.of("cascade", "sort", points=points[: 4 * n]) for n in range(17)], 2, 0.05),
        Callers([asking.of("tokens", name, prompt=text) for name, text in say], 2, 0.05),
        Callers([asking.of_steps("vad", "vad", "audio", one) for one in heard], 6),
        Callers([asking.of_steps("placed", "sums", "x", rows[n:][:20, :2]) for n in range(8)], 4),
        Callers([asking.of("mixed", "poison", x=x) for x in poison], 4, 0.02),
        Callers([asking.of("mixed", "rescued", xs=poison[n:]) for n in range(9)], 2, 0.05),
        Callers([asking.of("mixed", "outside", x=x).failing(DOWN) for x in rows], 3, 0.02),
        Callers([asking.of("mixed", "urgent", x=x).failing(FULL) for x in rows], 12, 0.02),
        Callers([patient(asking, x, n) for x in rows[:6] for n in (0, 5, 9, 20)], 2, 0.05),
    ]


def crowd_of(folder: Path, engines: dict[str, list[Engine]]) -> list[Question]:
    """Return what needs most memory, to be asked at one time: a page that is larger than those of
    the load, lines that fill batches though no pages meet, and the largest page of the load."""
    asking = Asking(engines)
    asked = (("ocr_chunked", "words40"), ("ocr_chunked", "sign"), ("ocr", "sign"))
    return [asking.of("ocr", name, photo=page(folder, one)) for name, one in asked] * CROWD


def page(folder: Path, name: str) -> bytes:
    return (folder / "ocr" / "pages" / f"{name}.png").read_bytes()


def patient(asking: Asking, x: Any, milliseconds: int) -> Question:  # Any: an array
    """Return what is right whether it was in time or not."""
    quick, slow = (asking.of("mixed", "patient", x=x, seconds=np.float32(s)) for s in (0.0, 1.0))
    return asking.of("mixed", "patient", x=x, seconds=np.float32(milliseconds / 1000)).or_else(
        *quick.answers[0], *slow.answers[0]
    )
