"""A server's life: addresses, carriers, TLS, draining, signals."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import grpc
import httpx
import pytest

from headrace.compiler.plan import Plan
from headrace.dsl.types import Field
from headrace.runtime.engine import Engine
from headrace.runtime.protocols.forms import NoForm
from headrace.runtime.protocols.messages import message
from headrace.runtime.protocols.raw import write_raw
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier, ServerConfig
from headrace.runtime.tls import Tls
from tests.runtime.plans import PlanMaker, block, kind
from tests.runtime.wire.conftest import Gate, Start, eventually, free_ports
from tests.runtime.wire.test_grpc import CARRIERS, GOOD, method, status_of, wait_request


def echo_plan(name: str, type: str) -> Plan:
    maker = PlanMaker()
    fields = (Field("x", kind(type)),)
    maker.pipeline(name, fields, fields, block([0], (), [0]))
    return maker.plan()


def test_addresses_tell_the_ports_that_were_free(one_server: Server) -> None:
    addresses = one_server.addresses
    for address in (addresses.http, addresses.grpc, addresses.metrics):
        host, _, port = str(address).rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
    assert addresses.carrier is Carrier.GRPCIO  # whose limits hold


def test_what_has_no_port_is_not_served() -> None:
    engine = Engine(echo_plan("p", "f32"))
    config = ServerConfig(http_port=0, grpc_port=None, metrics_port=None)
    with serve([engine], config) as server:
        assert server.addresses.grpc is None
        assert server.addresses.metrics is None
        assert httpx.get(f"http://{server.addresses.http}/v2/health/ready").status_code == 200
    engine.close()


@pytest.mark.parametrize("kind", ["http_port", "grpc_port", "metrics_port"])
@CARRIERS
def test_a_port_that_is_taken_is_an_os_error(
    carrier: Carrier, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = Engine(echo_plan("p", "f32"))
    ports: dict[str, Any] = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports[kind] = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {ports[kind]}: Address already in use"):
            serve([engine], ServerConfig(**ports, carrier=carrier))
    engine.close()
    assert capfd.readouterr().err == ""  # where libraries in C would write


def test_plans_with_a_pipeline_of_the_same_name_are_not_served_together() -> None:
    engines = [Engine(echo_plan("p", "f32")), Engine(echo_plan("p", "i64"))]
    with pytest.raises(ValueError, match="two plans hold a pipeline `p`"):
        serve(engines, free_ports(Carrier.AUTO))
    for engine in engines:
        engine.close()


@pytest.mark.slow
def test_plans_of_several_engines_are_served_together() -> None:
    engines = [Engine(echo_plan("p", "f32")), Engine(echo_plan("q", "i64"))]
    with serve(engines, free_ports(Carrier.AUTO)) as server:
        for name in ("p", "q"):
            assert (
                httpx.get(f"http://{server.addresses.http}/v2/models/{name}").json()["name"] == name
            )
    for engine in engines:
        engine.close()


def test_a_value_that_cannot_travel_is_refused_when_the_server_starts() -> None:
    engine = Engine(echo_plan("deep", "list<list<f32[N]>>"))
    with pytest.raises(NoForm, match="pipeline `deep` cannot be served: `x` is list<list<f32"):
        serve([engine], free_ports(Carrier.AUTO))
    engine.close()


def test_the_native_carrier_does_not_pretend_to_do_tls() -> None:
    engine = Engine(echo_plan("p", "f32"))
    config = ServerConfig(carrier=Carrier.NATIVE, tls=Tls(b"", b""), http_port=0, grpc_port=0)
    with pytest.raises(ValueError, match="no TLS"):
        serve([engine], config)
    engine.close()


def certificate(folder: Path) -> tuple[bytes, bytes]:
    """Make a certificate for localhost with the openssl command, and its key."""
    made, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", made),
        ],
        check=True,
        capture_output=True,
    )
    return made.read_bytes(), key.read_bytes()


def test_tls_is_grpcios_and_callers_without_a_certificate_are_turned_away(
    start: Start, tmp_path: Path
) -> None:
    chain, key = certificate(tmp_path)
    server = start(tls=Tls(chain, key, client_authority=chain))
    assert server.addresses.carrier is Carrier.GRPCIO
    port = str(server.addresses.grpc).rpartition(":")[2]
    known = grpc.ssl_channel_credentials(chain, key, chain)
    with grpc.secure_channel(f"localhost:{port}", known) as channel:
        assert method(channel, "ModelInfer")(GOOD, timeout=10)
    unknown = grpc.ssl_channel_credentials(chain)
    with grpc.secure_channel(f"localhost:{port}", unknown) as channel:
        status = status_of(method(channel, "ModelInfer"), GOOD, timeout=10)
        assert status is grpc.StatusCode.UNAVAILABLE


@CARRIERS
@pytest.mark.slow
def test_b26_a_stop_withdraws_readiness_first_and_lets_requests_end(
    start: Start, carrier: Carrier, gates: tuple[Gate, Gate]
) -> None:
    server = start(carrier)
    gate, _ = gates
    ready = f"http://{server.addresses.http}/v2/health/ready"
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        infer = method(channel, "ModelInfer")
        running = infer.future(wait_request(gate))
        gate.entered()
        assert httpx.get(ready).status_code == 200
        stopping = Thread(target=server.stop)
        stopping.start()
        eventually(lambda: httpx.get(ready).status_code == 503)
        assert status_of(infer, GOOD) is grpc.StatusCode.UNAVAILABLE
        answer = httpx.post(f"http://{server.addresses.http}/v2/models/rows/infer", content=b"{}")
        assert answer.status_code in (400, 503)
        gate.open(b"well")
        answer = message("ModelInferResponse").FromString(running.result(timeout=10))
        assert answer.raw_output_contents[0] == write_raw([b"well"])
        stopping.join(10)
        assert not stopping.is_alive()
    with pytest.raises(httpx.ConnectError):
        httpx.get(ready)


@CARRIERS
def test_b26_what_a_stream_was_asked_is_answered_and_then_it_ends(
    start: Start, carrier: Carrier, gates: tuple[Gate, Gate]
) -> None:
    server = start(carrier)
    asked: SimpleQueue[bytes | None] = SimpleQueue()
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        path = "/inference.GRPCInferenceService/ModelStreamInfer"
        answers = channel.stream_stream(path)(iter(asked.get, None))
        asked.put(wait_request(gates[0]))
        gates[0].entered()
        stopping = Thread(target=server.stop)
        stopping.start()
        ready = f"http://{server.addresses.http}/v2/health/ready"
        eventually(lambda: httpx.get(ready).status_code == 503)
        gates[0].open(b"well")
        kind = message("ModelStreamInferResponse")
        found = [kind.FromString(answer) for answer in answers]
        contents = [one.infer_response.raw_output_contents[0] for one in found]
        assert contents == [write_raw([b"well"])]
        asked.put(None)
        stopping.join(10)
        assert not stopping.is_alive()


@CARRIERS
def test_b26_a_stream_left_open_with_nothing_to_come_does_not_hold_up_the_end(
    start: Start, carrier: Carrier
) -> None:
    server = start(carrier)
    asked: SimpleQueue[bytes | None] = SimpleQueue()
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        path = "/inference.GRPCInferenceService/ModelStreamInfer"
        answers = channel.stream_stream(path)(iter(asked.get, None))
        asked.put(GOOD)
        assert next(answers)
        begun = time.monotonic()
        assert server.stop()
        assert time.monotonic() - begun < 3
        asked.put(None)


SERVE = """
import sys
from headrace.runtime.engine import Engine
from headrace.runtime.server import serve
from headrace.runtime.server_config import ServerConfig
from tests.runtime.wire.plans import toy_plan

engine = Engine(toy_plan())
with serve([engine], ServerConfig(http_port=0, grpc_port=0, metrics_port=0)) as server:
    print(server.addresses.http, server.addresses.grpc, flush=True)
    server.wait()
engine.close()
print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_b26_a_signal_drains_and_the_process_ends_well(
    number: signal.Signals, gates: tuple[Gate, Gate]
) -> None:
    gate, _ = gates
    process = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        http, address = process.stdout.readline().split()
        with grpc.insecure_channel(address) as channel:
            running = method(channel, "ModelInfer").future(wait_request(gate))
            gate.entered()
            process.send_signal(number)
            ready = f"http://{http}/v2/health/ready"
            eventually(lambda: httpx.get(ready).status_code == 503)
            gate.open()
            assert running.result(timeout=10)
        assert process.stdout.readline() == "stopped\n"
        assert process.wait(10) == 0
