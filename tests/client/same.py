"""One plan, called here and over each carrier: what the tests of likeness ask."""

import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import headrace
from headrace import App, Client
from headrace.client import Tls
from headrace.runtime import tls as server_tls
from headrace.runtime.access import policy_of, read_tokens
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import serve
from headrace.runtime.server_config import Carrier, ServerConfig

FUNCTIONS = """
import threading

import headrace

def told(x, context: headrace.Context):
    known = ",".join(f"{name}={value}" for name, value in sorted(context.parameters.items()))
    return f"{context.id}/{known}/{context.priority}/{context.remaining() is not None}"

def fails(x):
    if x == 13:
        raise ValueError("thirteen")
    return x

def squares(n):
    import numpy as np
    return [np.full((i, i), i, np.float32) for i in range(int(n))]
"""
SOURCE = """
fn told(x: f32) -> (said: string) = python "stages.py:told"
fn fails(x: f32) -> (y: f32) = python "stages.py:fails"
fn squares(n: i64) -> (square: list<f32[N, M]>) = python "stages.py:squares"

pipeline numbers(a: f32, b: i64 = 7, c: f64[N], d: f32[N, 2 * N], e: u8[3], f: bool, g: f16[N])
    -> (a: f32, b: i64, c: f64[N], d: f32[N, 2 * N], e: u8[3], f: bool, g: f16[N])
{
    return a = a, b = b, c = c, d = d, e = e, f = f, g = g
}
pipeline texts(a: string, b: bytes, c: string[N], d: string = "nöne") -> (
    a: string, b: bytes, c: string[N], d: string)
{
    return a = a, b = b, c = c, d = d
}
pipeline defaults(
    a: f32 = 0.9, b: f16 = 0.1, c: f32[3] = [1, 0.1, 2], d: bool = true, e: string = "it's \\"",
    f: f64 = 1e-9, g: i64[0] = []) -> (
    a: f32, b: f16, c: f32[3], d: bool, e: string, f: f64, g: i64[0])
{
    return a = a, b = b, c = c, d = d, e = e, f = f, g = g
}
pipeline same(x: string) -> (x: f32) { return x = 1.5 }
pipeline maybe(x: f32?, y: f32[N]?) -> (x: f32?, y: f32[N]?) { return x = x, y = y }
pipeline lists(a: list<f32[4]>, b: list<f32[2, W]>, c: list<string>) -> (
    a: list<f32[4]>, b: list<f32[2, W]>, c: list<string>)
{
    return a = a, b = b, c = c
}
pipeline ragged(n: i64) -> (square: list<f32[N, M]>) { return square = squares(n) }
pipeline rows(x: f32, v: f32[3], t: string, l: list<f32[2]>) -> (
    x: f32, v: f32[3], t: string, l: list<f32[2]>) batch 4
{
    return x = x + 1, v = v, t = t, l = l
}
pipeline maybe_rows(x: f32, v: f32[3]?, t: string?, l: list<f32[2]>?) -> (
    x: f32, v: f32[3]?, t: string?, l: list<f32[2]>?) batch 4
{
    return x = x, v = v, t = t, l = l
}
pipeline two(x: f32) -> (a: f32, b: f32) { return a = x + 1, b = x + 2 }
pipeline asks(x: f32) -> (said: string) { return said = told(x) }
pipeline fault(x: f32) -> (y: f32) { return y = fails(x) }
pipeline items(x: f32[N]) -> (y: f32[N]) {
    found = for one in x { yield y = fails(one) }
    return y = found.y
}
pipeline counted(x: f32) -> (y: f32) per sequence idle 30s {
    state n: f32 = 0
    next n = n + x
    return y = n + fails(x)
}
pipeline spoken(x: f32, most: i64 = 3) -> stream (text: string, n: i64, image: f32[2, 2]) {
    last = loop (n: i64 = 0) max 1000 {
        y = fails(x + cast(n, f32))
        emit text = told(y), n = n, image = zeros([2, 2]) when n < most
        next n = n + 1
        stop when n >= most
    }
}
pipeline growing(x: f32) -> stream (y: f32) per sequence {
    state n: f32 = 0
    emit y = n
    emit y = n + x
    next n = n + x
}
pipeline timeout(timeout: f32, id: string) -> (y: f32, id: string) {
    return y = timeout, id = id
}
"""
EMBEDDED, SECURE = "embedded", ("grpcs", "https")
WAYS = (EMBEDDED, "grpc", "native", "http", *SECURE)
TOKEN = "lPk3v9sN0mW8yQ2x"


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for localhost with the openssl command; return its path and its key's."""
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
    return made, key


def plan_in(folder: Path) -> headrace.CompiledPlan:
    """Compile the pipelines of this file."""
    (folder / "stages.py").write_text(FUNCTIONS)
    (folder / "same.pipe").write_text(SOURCE)
    return headrace.compile(folder / "same.pipe")


@contextmanager
def callers(folder: Path) -> Generator[dict[str, App | Client]]:
    """Serve the plan in each way, and load it."""
    plan, chain = plan_in(folder), certificate(folder)
    engine = Engine(plan.plan, EngineConfig(workers=2, intra_op_threads=1))
    shown, key = chain[0].read_bytes(), chain[1].read_bytes()
    secure = server_tls.Tls(shown, key, client_authority=shown)
    tokens = policy_of([], read_tokens(f"tests infer,read {TOKEN}"))
    client_tls = Tls(chain[0], *chain)
    with ExitStack() as opened:
        opened.callback(engine.close)
        made: dict[str, App | Client] = {
            EMBEDDED: opened.enter_context(headrace.load(plan, intra_op_threads=1, workers=2))
        }
        settings: dict[str, Any]  # Any: of a configuration
        for carrier, settings in (
            (Carrier.GRPCIO, {}),
            (Carrier.NATIVE, {}),
            (Carrier.GRPCIO, {"tls": secure, "policy": tokens}),
        ):
            config = ServerConfig(
                http_port=0, grpc_port=0, metrics_port=None, carrier=carrier, **settings
            )
            where = opened.enter_context(serve([engine], config)).addresses
            said: dict[str, Any] = {}  # Any: as of a client
            names = {"grpc": where.grpc, "http": where.http}
            if settings:
                said |= {"tls": client_tls, "token": TOKEN}
                names = {
                    f"{one}s": f"localhost:{str(at).rpartition(':')[2]}"
                    for one, at in names.items()
                }
            elif carrier is Carrier.NATIVE:
                names = {"native": where.grpc}
            for name, at in names.items():
                scheme = "grpc" if name == "native" else name
                made[name] = opened.enter_context(Client(f"{scheme}://{at}", **said))
        yield made
