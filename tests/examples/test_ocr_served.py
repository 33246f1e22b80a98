"""The OCR example behind HTTP and gRPC, asked by stock clients."""

import asyncio
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.runtime.engine import Engine
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import ServerConfig

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "ocr"
CLIENTS = 32
Answer = tuple[list[str], np.ndarray, np.ndarray]
NAMES = ("text", "score", "box")


@pytest.fixture(scope="module")
def photos(render: ModuleType, encode: Callable[[Any], bytes]) -> list[bytes]:
    """Return four small pages of different words; the last has none."""
    from PIL import Image

    drawn: list[bytes] = []
    for words in (("river", "gauge"), ("pump", "valve", "north"), ("stairs",), ()):
        paper = Image.new("RGB", (260, 260), "white")
        for row, word in enumerate(words):
            turned = word == "valve"
            paper.paste(render.strip(word, 34, True, turned, "black", "white"), (20, 20 + row * 80))
        drawn.append(encode(paper))
    return drawn


@pytest.fixture(scope="module")
def expected(package: Callable[[bytes, bool], Answer], photos: list[bytes]) -> list[Answer]:
    return [package(photo, False) for photo in photos]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    plan = headrace.compile(EXAMPLE / "ocr.pipe", schedule="server").plan
    engine = Engine(plan)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[Server]:
    with serve([engine], ServerConfig(http_port=0, grpc_port=0, metrics_port=0)) as server:
        yield server


def asked(library: Any, photo: bytes) -> list[Any]:  # Any: the client's own classes
    tensor = library.InferInput("photo", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([photo], object))
    return [tensor]


def answer(result: Any) -> Answer:  # Any: the client's own class
    text, score, box = (result.as_numpy(name) for name in NAMES)
    return [each.decode() for each in text.tolist()], score, box


def assert_same(ours: Answer, theirs: Answer) -> None:
    assert ours[0] == theirs[0]
    assert ours[1].dtype == ours[2].dtype == np.float32
    np.testing.assert_array_equal(ours[2], theirs[2])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_stock_clients_get_the_lines_of_the_package(
    protocol: str, server: Server, photos: list[bytes], expected: list[Answer]
) -> None:
    library = pytest.importorskip(f"tritonclient.{protocol}")
    address = getattr(server.addresses, protocol)
    with library.InferenceServerClient(address) as client:
        assert client.is_model_ready("ocr")
        for photo, lines in zip(photos, expected, strict=True):
            assert_same(answer(client.infer("ocr", asked(library, photo))), lines)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_stock_clients_of_an_event_loop_get_the_lines_of_the_package(
    protocol: str, server: Server, photos: list[bytes], expected: list[Answer]
) -> None:
    library = pytest.importorskip(f"tritonclient.{protocol}.aio")
    address = getattr(server.addresses, protocol)

    async def ask() -> list[Answer]:
        client = library.InferenceServerClient(address)
        try:
            results = [client.infer("ocr", asked(library, photo)) for photo in photos]
            return [answer(result) for result in await asyncio.gather(*results)]
        finally:
            await client.close()

    for ours, theirs in zip(asyncio.run(ask()), expected, strict=True):
        assert_same(ours, theirs)


def test_many_clients_at_once_get_their_own_lines_and_crops_of_pages_meet(
    server: Server, engine: Engine, photos: list[bytes], expected: list[Answer]
) -> None:
    library = pytest.importorskip("tritonclient.grpc")

    def ask(number: int) -> Answer:
        with library.InferenceServerClient(server.addresses.grpc) as client:
            photo = photos[number % len(photos)]
            return answer(client.infer("ocr", asked(library, photo), client_timeout=120))

    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(ask, range(CLIENTS)))
    for number, ours in enumerate(answers):
        assert_same(ours, expected[number % len(expected)])
    stages = {stage.name: stage for stage in engine.metrics.stages}
    for name in ("angle", "read"):
        assert stages[name].mixed > 0, f"no run of `{name}` held crops of two pages"
        assert max(stages[name].sizes) > 3, f"no run of `{name}` held more than one page has"


def test_the_metrics_port_shows_that_pages_met(server: Server) -> None:
    with urllib.request.urlopen(f"http://{server.addresses.metrics}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    assert any('stage="read"' in line and "mixed" in line for line in lines)
