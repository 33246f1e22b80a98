"""Pages of text: the OCR example against the package whose models it uses.

With `--cores 1` each page alone, ONNX Runtime with one thread on both sides: `ocr` against
`RapidOCR(rec_batch_num=1)`, `ocr_chunked` against `RapidOCR()`. With `--cores 2` eight pages
submitted at once to ours, against the package called in a loop, with as many threads as it
takes. With one core every page's text is compared before it is timed.
"""

import sys
from pathlib import Path
from typing import Any

from harness import Contender, Outcome, cores, measure, options, report
from rapidocr_onnxruntime import RapidOCR

import headrace

EXAMPLE = Path(__file__).parent.parent / "examples" / "ocr"
AT_ONCE = 8
PEERS: dict[str, dict[str, Any]] = {"ocr": {"rec_batch_num": 1}, "ocr_chunked": {}}


def pages() -> dict[str, bytes]:
    """Return the pages that ship with the example, and a scanned one if scikit-image is here."""
    found = {path.stem: path.read_bytes() for path in sorted((EXAMPLE / "pages").glob("*.png"))}
    try:
        import skimage
    except ImportError:
        return found
    found["scan"] = (Path(skimage.__file__).parent / "data" / "page.png").read_bytes()
    return found


def demand_equal(page: str, ours: Any, theirs: Any) -> None:  # untyped, as both give it
    """Refuse to time two that do not read the same lines in the same order."""
    expected = [line[1] for line in theirs or []]
    if list(ours.text) != expected:
        raise SystemExit(f"{page}: ours reads {list(ours.text)}, the package {expected}")


def one_at_a_time(app: headrace.App, name: str, page: str, photo: bytes, rounds: int) -> Outcome:
    """Time a pipeline against the package on one page."""
    peer: Any = RapidOCR(intra_op_num_threads=1, **PEERS[name])  # settings are untyped keywords
    pipeline = app[name]
    demand_equal(page, pipeline(photo=photo), peer(photo)[0])

    def ours() -> None:
        pipeline(photo=photo)

    def theirs() -> None:
        peer(photo)

    contenders = [Contender(f"headrace {name}", ours), Contender(shown(name), theirs)]
    return measure(f"{page}, one core", contenders, rounds=rounds)


def at_once(app: headrace.App, name: str, photos: dict[str, bytes], rounds: int) -> Outcome:
    """Time eight pages at once against eight in a loop."""
    work = ([*photos.values()] * AT_ONCE)[:AT_ONCE]
    peer: Any = RapidOCR(**PEERS[name])  # settings are untyped keywords
    pipeline = app[name]

    def ours() -> None:
        for future in [pipeline.submit(photo=photo) for photo in work]:
            future.result()

    def theirs() -> None:
        for photo in work:
            peer(photo)

    contenders = [
        Contender(f"headrace {name}, 8 at once", ours),
        Contender(f"{shown(name)} in a loop", theirs),
    ]
    return measure(f"8 of {', '.join(photos)}; two cores", contenders, rounds=rounds)


def shown(name: str) -> str:
    return f"RapidOCR({', '.join(f'{key}={value}' for key, value in PEERS[name].items())})"


def main() -> int:
    parser = options("OCR pages: headrace against rapidocr-onnxruntime", rounds=5)
    parser.add_argument("--cores", type=int, choices=(1, 2), default=1, help="default 1")
    parser.add_argument("--page", action="append", help="only these pages (may be repeated)")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    photos = pages()
    if arguments.page:
        photos = {name: photos[name] for name in arguments.page}
    plan = headrace.compile(EXAMPLE / "ocr.pipe", schedule="default")
    with cores(arguments.cores), headrace.load(plan) as app:
        if arguments.cores == 1:
            outcomes = [
                one_at_a_time(app, name, page, photo, rounds)
                for name in PEERS
                for page, photo in photos.items()
            ]
        else:
            outcomes = [at_once(app, name, photos, rounds) for name in PEERS]
    report(f"ocr_pages_{arguments.cores}_core{'s' if arguments.cores > 1 else ''}", outcomes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
