"""The OCR example with its models on a device of their own: the device counts the copies."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler import compile_source
from headrace.dsl.source import Source
from headrace.runtime.devices.sim import SimDevice
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request

PIPE = Path(__file__).parents[2] / "examples" / "ocr" / "ocr.pipe"


@pytest.mark.parametrize("pipeline", ["ocr", "ocr_chunked"])
@pytest.mark.slow
def test_no_copy_is_made_but_of_what_a_model_takes_and_what_it_gives(
    pipeline: str, page: Callable[[str], bytes], render: ModuleType
) -> None:
    text = f'{PIPE.read_text()}\nschedule {pipeline} on "sim" {{\n    device = sim\n}}\n'
    engine = Engine(
        compile_source(Source(PIPE.name, text, PIPE), schedule="sim"),
        EngineConfig(workers=1, intra_op_threads=1),
    )
    answer = engine.call(Request(pipeline, {"photo": page("sign")}))
    assert np.asarray(answer.outputs["text"]).tolist() == list(render.SIGN)
    device = engine._stages.device("sim")  # pyright: ignore[reportPrivateUsage]
    assert isinstance(device, SimDevice)
    ledger, lines = device.ledger, len(render.SIGN)
    engine.close()
    # In: the view; of each line two strips with where their ink is. Out: the heat; of each line
    # whether it is upside down and what the reader saw.
    assert (ledger.h2d, ledger.d2h, ledger.d2d) == (1 + 4 * lines, 1 + 2 * lines, 0)
    assert ledger.balanced
    assert ledger.live_bytes == 0
