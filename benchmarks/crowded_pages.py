"""Pages with 1 to 50 lines, asked for by eight clients: who may share a run of a model?

Ours lets lines of one width meet, of whatever page, as the example's schedule "server" says. The
peers are the same plan where only the lines of one page meet (each client's thread runs its own
page), and the schedule "default", in which every line is read alone. All have one thread a run.
"""

import io
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from clients import CLIENTS, Clients
from harness import Contender, measure, options, report

import headrace

EXAMPLE = Path(__file__).parent.parent / "examples" / "ocr"
LINES = (1, 2, 4, 7, 12, 20, 33, 50)


def pages() -> list[bytes]:
    """Return a page with so many words for each of LINES."""
    spec = spec_from_file_location("render", EXAMPLE / "render.py")
    assert spec is not None
    assert spec.loader is not None
    render: Any = module_from_spec(spec)  # Any: a script's names
    spec.loader.exec_module(render)
    found: list[bytes] = []
    for count in LINES:
        words = [render.WORDS[i % len(render.WORDS)] for i in range(count)]
        buffer = io.BytesIO()
        render.words(words, render.WORDS_TURNED).save(buffer, "PNG")
        found.append(buffer.getvalue())
    return found


def main() -> int:
    arguments = options("Pages of many lines from many clients", rounds=5).parse_args()
    photos, clients = pages(), Clients()
    plans = [headrace.compile(EXAMPLE / "ocr.pipe", schedule=one) for one in ("server", "default")]
    with (
        headrace.load(plans[0], intra_op_threads=1) as server,
        headrace.load(plans[1], intra_op_threads=1) as default,
    ):
        for photo in photos:
            texts = [list(app.ocr(photo=photo).text) for app in (server, default)]
            if texts[0] != texts[1]:
                raise SystemExit(f"they read differently: {texts}")
        contenders = [
            Contender(
                "lines of all pages meet",
                lambda: clients.ask(lambda one: server.ocr.submit(photo=one).result(), photos),
            ),
            Contender(
                "lines of a page meet",
                lambda: clients.ask(lambda one: server.ocr(photo=one), photos),
            ),
            Contender(
                "each line alone",
                lambda: clients.ask(lambda one: default.ocr.submit(photo=one).result(), photos),
            ),
        ]
        subject = f"pages of {LINES[0]} to {LINES[-1]} lines, {CLIENTS} clients"
        outcome = measure(subject, contenders, rounds=arguments.rounds)
        stage = server.metrics[-1].stage("read")
        notes = [
            f"a batch of `read` had {stage.rows / stage.executions:.2f} lines, "
            f"and {stage.mixed / stage.executions:.0%} were of several pages"
        ]
    report("crowded_pages", [outcome], notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
