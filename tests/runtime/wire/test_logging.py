"""The settings of the log, as stock clients read and change them."""

import logging
from collections.abc import Iterator

import pytest
from tritonclient.utils import InferenceServerException

from headrace.runtime.access import Access, policy_of
from headrace.runtime.blame import own_fault
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.faults import write_fault
from headrace.runtime.request import Code, Fault
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from headrace.runtime.service import explain
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.plans import toy_plan
from tests.runtime.wire.stock import KINDS, Stock, stock

LOG = logging.getLogger("headrace")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    engine = Engine(toy_plan(), EngineConfig(workers=1))
    config = free_ports(Carrier.AUTO, policy=policy_of([Access.SETTINGS], ()))
    with serve([engine], config) as server:
        yield server
    engine.close()


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Stock]:
    before = LOG.level
    LOG.setLevel(logging.WARNING)
    with stock(request.param, server) as client:
        yield client
    LOG.setLevel(before)


def settings(client: Stock) -> dict[str, object]:
    found = client.get_log_settings()
    if client.is_http:
        return found
    return {name: next(iter(value.values()), 0) for name, value in found["settings"].items()}


def test_the_level_is_told_and_changed(client: Stock) -> None:
    found = settings(client)
    assert (found["log_info"], found["log_warning"], found["log_error"]) == (False, True, True)
    client.update_log_settings({"log_info": True})
    assert LOG.level == logging.INFO
    client.update_log_settings({"log_verbose_level": 1})
    assert LOG.level == logging.DEBUG
    assert settings(client)["log_verbose_level"] == 1
    client.update_log_settings({"log_verbose_level": 0, "log_info": False})
    assert LOG.level == logging.WARNING
    client.update_log_settings({"log_warning": False, "log_error": False})
    assert not LOG.isEnabledFor(logging.CRITICAL)
    assert settings(client)["log_error"] is False


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"log_file": "/tmp/x"}, "`log_file` is set where the server is started"),
        ({"log_format": "ISO8601"}, "`log_format` is set where the server is started"),
        ({"log_everything": True}, "there is no setting 'log_everything'"),
        ({"log_error": False}, "cannot be switched off"),
    ],
)
def test_what_cannot_be_set_is_refused_and_nothing_changes(
    client: Stock, change: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InferenceServerException, match=complaint):
        client.update_log_settings(change)
    assert LOG.level == logging.WARNING


@pytest.mark.parametrize(
    "change",
    [{"log_info": "yes"}, {"log_info": 1}, {"log_verbose_level": True}, {"log_info": None}],
)
def test_values_of_another_kind_are_refused(server: Server, change: dict[str, object]) -> None:
    level = LOG.level
    with (
        stock("http", server) as client,
        pytest.raises(InferenceServerException, match="must be"),
    ):
        client.update_log_settings(change)
    assert LOG.level == level


def test_what_a_bug_of_ours_says_is_for_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    """In a stage, amid a stream, behind one: callers learn no more than that there is one."""
    bug = own_fault(KeyError("/secret/path"), "p")
    for one in (KeyError("/secret/path"), bug, Fault(Code.INTERNAL, "/secret/path", stage="s")):
        with caplog.at_level(logging.ERROR):
            told = explain(one, "7")
        assert str(told) == "[request id: '7'] internal error in headrace; its log has more"
        assert "secret" not in write_fault(told)
        assert "/secret/path" in caplog.text
        caplog.clear()
