"""The first requests of docs/serving.md, made of the program of docs/cli.md, get what is shown."""

import re
import shlex
from collections.abc import Iterator
from urllib.request import urlopen

import pytest

import headrace
from headrace.runtime.repository.repository import Repository
from headrace.runtime.server import serve
from headrace.runtime.server_config import ServerConfig
from tests.docs.test_docs import ROOT, blocks_of

pytestmark = pytest.mark.slow
SHOWN = (ROOT / "docs" / "serving.md").read_text("utf-8").partition("\n## First requests\n")[2]
PORT = "127.0.0.1:8000"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("uvicorn", reason="needs headrace[server]")
    folder = tmp_path_factory.mktemp("greet")
    for block in blocks_of(ROOT / "docs" / "cli.md"):
        if block.about in ("greet.pipe", "stages.py"):
            (folder / block.about).write_text(block.text, "utf-8")
    repository = Repository()
    repository.load("greet", headrace.compile(folder / "greet.pipe").plan)
    with serve(repository, ServerConfig(http_port=0, grpc_port=None, metrics_port=None)) as server:
        yield str(server.addresses.http)
    repository.close()


def block_of(language: str) -> str:
    found = re.search(f"```{language}\n(.*?)```", SHOWN, re.DOTALL)
    assert found is not None
    return found[1]


def test_curl_gets_what_is_shown(address: str) -> None:
    lines = block_of("text").splitlines()
    for asked, shown in zip(lines[::2], lines[1::2], strict=True):
        prompt, curl, url, option, body = shlex.split(asked)
        assert (prompt, curl, option) == ("$", "curl", "-d")
        with urlopen(url.replace(PORT, address), body.encode()) as answer:
            assert answer.read().decode() == shown


def test_a_stock_client_gets_what_is_shown(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    text = block_of("python")
    exec(compile(text.replace(PORT, address), "serving.md", "exec"), {})
    assert capsys.readouterr().out.strip() == text.rpartition("# ")[2].strip()
