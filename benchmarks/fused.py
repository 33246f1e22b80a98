"""What fusing brings: pipelines as they are compiled against the same with nothing fused.

Three subjects: a page of the OCR example; a chain of five small models, beside five calls of
`session.run`; and a second of sound through the wake words, beside the package whose models they
use, where it is installed (without it and its models that part is left out). One thread on all
sides, one request at a time. The answers of all contenders are compared before they are timed.
Beside the table stands the processor time of a call, which what else the machine does changes less.
"""

import sys
import tempfile
import time
import warnings
import wave
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from chain import WIDTH, Matrix, merged, session, write
from harness import Contender, Outcome, cores, duration, measure, options, report

import headrace
from headrace.compiler.driver import compile_source
from headrace.dsl.read import read_source

EXAMPLES = Path(__file__).parent.parent / "examples"
PAGES = ("sign", "words40")
CHAIN = 5
Timed: TypeAlias = tuple[Outcome, str]
"""What was measured, and a line about the processor time."""

FRAME = 1280  # samples, 80 ms
FRAMES = 12  # of a call: about a second
HEADS = {
    "alexa": "alexa",
    "mycroft": "hey_mycroft",
    "jarvis": "hey_jarvis",
    "rhasspy": "hey_rhasspy",
    "weather": "weather",
}


def both(stack: ExitStack, path: Path) -> tuple[headrace.App, headrace.App]:
    """Load a source fused and unfused."""
    source = read_source(path, path.name)
    plans = [compile_source(source, optimise=how) for how in (True, False)]
    fused, unfused = (
        stack.enter_context(headrace.load(plan, workers=1, intra_op_threads=1)) for plan in plans
    )
    return fused, unfused


def time_both(subject: str, contenders: list[Contender], rounds: int, calls: int = 1) -> Timed:
    """Measure by the clock, then by what the processor has worked in this process."""
    outcome = measure(subject, contenders, rounds=rounds, calls=calls, warmup=calls)
    worked: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            start = time.process_time()
            for _ in range(calls):
                contender.call()
            worked[contender.name].append((time.process_time() - start) / calls)
    shown = [f"{name} {duration(median(seconds))}" for name, seconds in worked.items()]
    return outcome, f"{subject}, processor time: {', '.join(shown)}"


def ocr(stack: ExitStack, rounds: int) -> list[Timed]:
    """Read pages; what is fused into the models is normalising, transposing and decoding."""
    fused, unfused = both(stack, EXAMPLES / "ocr" / "ocr.pipe")
    timed: list[Timed] = []
    for page in PAGES:
        photo = (EXAMPLES / "ocr" / "pages" / f"{page}.png").read_bytes()
        if list(fused.ocr(photo=photo).text) != list(unfused.ocr(photo=photo).text):
            raise SystemExit(f"{page}: what is fused reads other lines")
        contenders = [
            Contender("headrace", reading(fused, photo)),
            Contender("headrace, nothing fused", reading(unfused, photo)),
        ]
        timed.append(time_both(f"ocr, {page}", contenders, rounds))
    return timed


def reading(app: headrace.App, photo: bytes) -> Callable[[], object]:
    pipeline = app.ocr
    return lambda: pipeline(photo=photo)


def chain(stack: ExitStack, rounds: int) -> list[Timed]:
    """Call five models one after the other, which become one."""
    random = np.random.default_rng(0)
    weights: list[Matrix] = [
        random.normal(0, 0.125, size=(WIDTH, WIDTH)).astype(np.float32) for _ in range(CHAIN)
    ]
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    fused, unfused = (app.chain for app in both(stack, write(folder, weights, "N")))
    links = [session(merged([matrix], "N")) for matrix in weights]
    item: Matrix = random.normal(size=WIDTH).astype(np.float32)

    def calls() -> Any:  # run() may return things other than arrays
        value: Any = item[None]
        for link in links:
            value = link.run(None, {"x": value})[0]
        return value

    for app in (fused, unfused):
        np.testing.assert_array_equal(app(x=item).y, calls()[0])
    contenders = [
        Contender("headrace", lambda: fused(x=item)),
        Contender("headrace, nothing fused", lambda: unfused(x=item)),
        Contender("five session.run", calls),
    ]
    return [time_both("five models", contenders, rounds, calls=200)]


def wakeword(stack: ExitStack, rounds: int, gate: float) -> list[Timed]:
    """Hear a second of sound: spectrum, features, voice and six heads, frame by frame.

    Without a gate the package does not ask whether there is a voice; ours always says.
    """
    package = import_module("openwakeword.model")  # in no extra: not everyone has it
    apps = both(stack, EXAMPLES / "wakeword" / "wakeword.pipe")
    np.random.seed(0)  # the package begins with noise
    peer: Any = package.Model(inference_framework="onnx", vad_threshold=gate)
    with wave.open(str(EXAMPLES / "vad" / "speech.wav")) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    frames = sound[: len(sound) // FRAME * FRAME].reshape(-1, FRAME)
    streams = [stack.enter_context(app.wakeword.sequence()) for app in apps]
    for frame in frames:
        theirs = peer.predict(frame)
        for stream in streams:
            ours = stream(audio=frame, least_speech=gate)
            for name, label in HEADS.items():
                if float(getattr(ours, name)) != float(theirs[label]):
                    raise SystemExit(f"{name}: ours is {getattr(ours, name)}, {theirs[label]} is")
    piece = frames[-FRAMES:]

    def hear(frame_by_frame: Callable[[Any], object]) -> Callable[[], None]:
        def call() -> None:
            for frame in piece:
                frame_by_frame(frame)

        return call

    fused, unfused = (
        hear(lambda frame, stream=stream: stream(audio=frame, least_speech=gate))
        for stream in streams
    )
    contenders = [
        Contender("headrace", fused),
        Contender("headrace, nothing fused", unfused),
        Contender("openwakeword", hear(peer.predict)),
    ]
    subject = f"wake words, {FRAMES} frames, " + (f"gate {gate}" if gate else "no gate")
    return [time_both(subject, contenders, rounds)]


def has_wakeword() -> bool:
    found = find_spec("openwakeword")
    places = found.submodule_search_locations if found is not None else None
    return places is not None and any(
        (Path(place) / "resources/models/alexa_v0.1.onnx").exists() for place in places
    )


def main() -> int:
    arguments = options("What fusing brings", rounds=15).parse_args()
    warnings.simplefilter("ignore")  # the package looks for another runtime first
    notes: list[str] = []
    with cores(1), ExitStack() as stack:
        timed = ocr(stack, max(arguments.rounds // 3, 1))
        timed += chain(stack, arguments.rounds)
        if has_wakeword():
            for gate in (0.0, 0.3):
                timed += wakeword(stack, arguments.rounds, gate)
        else:
            notes.append("wake words left out: openwakeword or its models are not there")
    report("fused", [outcome for outcome, _ in timed], [*(note for _, note in timed), *notes])
    return 0


if __name__ == "__main__":
    sys.exit(main())
