"""TLS and mutual TLS on both protocols: who is turned away, and what is told at the start."""

import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import TypeAlias

import grpc
import httpx
import pytest

from headrace.cli import main
from headrace.client import NEVER, Client
from headrace.client import Tls as ClientTls
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier, ServerConfig
from headrace.runtime.tls import Tls, read_tls
from tests.runtime.wire.plans import toy_plan
from tests.safety.hosted import GOOD, INFER

pytestmark = pytest.mark.skipif(which("openssl") is None, reason="there is no openssl command")
LIVE = "/inference.GRPCInferenceService/ServerLive"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates with the openssl command."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.own = Pair(folder / f"{name}.pem", folder / f"{name}.key")
        self._new_key(self.own.key)
        config = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign")
        self._openssl("req", "-x509", "-key", self.own.key, "-subj", f"/CN={name}", *config,
                      "-days", "2", "-out", self.own.certificate)  # fmt: skip

    def sign(
        self, name: str, *, expired: bool = False, names: str = "DNS:localhost,IP:127.0.0.1"
    ) -> Pair:
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request, said = self._folder / f"{name}.csr", self._folder / f"{name}.txt"
        said.write_text(f"subjectAltName={names}\n")
        self._new_key(made.key)
        self._openssl("req", "-new", "-key", made.key, "-subj", f"/CN={name}", "-out", request)
        times = ("-days", "0") if expired else ("-days", "2")
        self._openssl("x509", "-req", "-in", request, "-CA", self.own.certificate,
                      "-CAkey", self.own.key, "-CAcreateserial", "-extfile", said, *times,
                      "-out", made.certificate)  # fmt: skip
        return made

    def _new_key(self, path: Path) -> None:
        curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        self._openssl("genpkey", *curve, "-out", path)

    def _openssl(self, *words: object) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@dataclass(frozen=True, slots=True)
class Papers:
    """All that the tests show each other."""

    authority: Path
    server: Pair
    client: Pair
    expired: Pair
    stranger: Pair
    elsewhere: Pair


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    ours = Authority(tmp_path_factory.mktemp("ours"), "ours")
    theirs = Authority(tmp_path_factory.mktemp("theirs"), "theirs")
    return Papers(
        ours.own.certificate,
        ours.sign("server"),
        ours.sign("client"),
        ours.sign("expired", expired=True),
        theirs.sign("stranger"),
        ours.sign("elsewhere", names="DNS:elsewhere.example,IP:192.0.2.1"),
    )


def serving(shown: Pair, authority: Path | None) -> Iterator[Server]:
    engine = Engine(toy_plan(), EngineConfig(workers=2))
    tls = read_tls(shown.certificate, shown.key, authority)
    config = ServerConfig(http_port=0, grpc_port=0, metrics_port=None, tls=tls)
    with closing(engine), serve([engine], config) as server:
        assert server.addresses.carrier is Carrier.GRPCIO
        yield server


@pytest.fixture(scope="module")
def plain(papers: Papers) -> Iterator[Server]:
    yield from serving(papers.server, None)


@pytest.fixture(scope="module")
def mutual(papers: Papers) -> Iterator[Server]:
    yield from serving(papers.server, papers.authority)


def over_http(server: Server, authority: Path, shown: Pair | None) -> bool:
    """Whether a caller who trusts that authority and shows that is answered."""
    context = ssl.create_default_context(cafile=str(authority))
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    try:
        answer = httpx.post(
            f"https://{server.addresses.http}{INFER}", content=GOOD, verify=context, timeout=60
        )
    except httpx.TransportError:
        return False
    return answer.status_code == 200


def over_grpc(server: Server, authority: Path, shown: Pair | None) -> bool:
    key = None if shown is None else shown.key.read_bytes()
    chain = None if shown is None else shown.certificate.read_bytes()
    credentials = grpc.ssl_channel_credentials(authority.read_bytes(), key, chain)
    with grpc.secure_channel(str(server.addresses.grpc), credentials) as channel:
        try:
            return channel.unary_unary(LIVE)(b"", timeout=60) == b"\x08\x01"
        except grpc.RpcError:
            return False


Asks: TypeAlias = Callable[[Server, Path, Pair | None], bool]
WAYS = pytest.mark.parametrize("asks", [over_http, over_grpc], ids=["http", "grpc"])


@WAYS
def test_who_trusts_the_authority_is_answered(plain: Server, papers: Papers, asks: Asks) -> None:
    assert asks(plain, papers.authority, None)
    assert asks(plain, papers.authority, papers.client)


@WAYS
def test_only_who_shows_a_certificate_that_was_asked_for_is_answered(
    mutual: Server, papers: Papers, asks: Asks
) -> None:
    assert asks(mutual, papers.authority, papers.client)
    assert not asks(mutual, papers.authority, None)
    assert not asks(mutual, papers.authority, papers.stranger)
    assert not asks(mutual, papers.authority, papers.expired)
    assert asks(mutual, papers.authority, papers.client)


@pytest.fixture(scope="module")
def elsewhere(papers: Papers) -> Iterator[Server]:
    yield from serving(papers.elsewhere, None)


def of_ours(server: Server, authority: Path, _: Pair | None) -> bool:
    """Whether our own client takes the server for the one that it has asked for, over both."""
    told: list[bool | Code] = []
    addresses = f"https://{server.addresses.http}", f"grpcs://{server.addresses.grpc}"
    for address in addresses:
        with Client(address, 60, tls=ClientTls(str(authority)), retries=NEVER) as client:
            try:
                told.append("two" in client.pipelines())
            except Fault as fault:
                told.append(fault.code)
    assert told in ([True, True], [Code.UNAVAILABLE, Code.UNAVAILABLE])
    return told[0] is True


@pytest.mark.parametrize("asks", [over_http, over_grpc, of_ours], ids=["http", "grpc", "client"])
def test_a_certificate_of_another_name_is_none(
    plain: Server, elsewhere: Server, papers: Papers, asks: Asks
) -> None:
    """Whoever signed it: it is the caller who sees that this is not whom he has asked for."""
    assert asks(plain, papers.authority, None)
    assert not asks(elsewhere, papers.authority, None)


def test_who_speaks_no_tls_is_not_answered(plain: Server) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{plain.addresses.http}/v2", timeout=60)
    with (
        grpc.insecure_channel(str(plain.addresses.grpc)) as channel,
        pytest.raises(grpc.RpcError),
    ):
        channel.unary_unary(LIVE)(b"", timeout=60)


@pytest.mark.parametrize("scheme", ["grpcs", "https"])
def test_our_client_says_why_it_trusts_nobody_and_what_can_be_done(
    plain: Server, elsewhere: Server, papers: Papers, scheme: str
) -> None:
    """A failed handshake is no request that is lost."""

    def told(server: Server, tls: ClientTls | None, name: str = scheme) -> str:
        at = server.addresses.grpc if "grpc" in name else server.addresses.http
        with (
            Client(f"{name}://{at}", 60, tls=tls, retries=NEVER) as client,
            pytest.raises(Fault) as error,
        ):
            client.pipelines()
        assert error.value.code is Code.UNAVAILABLE
        return error.value.message

    authority = ClientTls(papers.authority)
    assert "name who has, with `Tls(authority)`" in told(plain, None)
    assert "is of another name" in told(elsewhere, authority)
    if scheme == "grpcs":
        assert "write grpcs://" in told(plain, None, "grpc")


def test_our_client_names_the_file_that_is_wrong(papers: Papers, tmp_path: Path) -> None:
    """grpcio ends the whole process where a certificate comes without its key."""
    own, key = papers.client.certificate, papers.server.key
    for tls, named in (
        (ClientTls(key), f"`{key}` is no PEM"),
        (ClientTls(papers.authority, own), f"`{own}` is no PEM"),
        (ClientTls(papers.authority, own, key), "is not the key of the certificate"),
    ):
        for address in ("grpcs://127.0.0.1:1", "https://127.0.0.1:1"):
            with pytest.raises(ValueError, match=named):
                Client(address, tls=tls)
    for address in ("grpcs://127.0.0.1:1", "https://127.0.0.1:1"):
        with pytest.raises(FileNotFoundError, match=r"nobody\.pem"):
            Client(address, tls=ClientTls(tmp_path / "nobody.pem"))
    with pytest.raises(ValueError, match="without its certificate"):
        ClientTls(papers.authority, key=key)


def test_a_key_may_lie_with_its_certificate(mutual: Server, papers: Papers, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(papers.client.certificate.read_bytes() + papers.client.key.read_bytes())
    for address in (f"grpcs://{mutual.addresses.grpc}", f"https://{mutual.addresses.http}"):
        with Client(address, 60, tls=ClientTls(papers.authority, both), retries=NEVER) as client:
            assert "two" in client.pipelines()


def test_old_versions_are_not_spoken(plain: Server, papers: Papers) -> None:
    context = ssl.create_default_context(cafile=str(papers.authority))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.TransportError):
        httpx.get(f"https://{plain.addresses.http}/v2", verify=context, timeout=60)


@pytest.mark.parametrize("wrong", ["key", "certificate", "authority", "missing"])
def test_what_is_wrong_is_told_at_the_start_with_the_files_name(
    papers: Papers, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    pipe, rubbish = tmp_path / "p.pipe", tmp_path / "rubbish.pem"
    pipe.write_text("pipeline p(x: f32) -> (y: f32) { return y = x }\n")
    rubbish.write_text("no certificate")
    chosen = {
        "certificate": rubbish if wrong == "certificate" else papers.server.certificate,
        "key": papers.client.key if wrong == "key" else papers.server.key,
        "client-authority": rubbish if wrong == "authority" else papers.authority,
    }
    if wrong == "missing":
        chosen["key"] = tmp_path / "missing.key"
    words = [word for name, path in chosen.items() for word in (f"--tls-{name}", str(path))]
    assert main(["run", str(pipe), *words, "--http-port", "0"]) == 2
    said = capsys.readouterr().err
    named = {"key": papers.client.key, "missing": tmp_path / "missing.key"}.get(wrong, rubbish)
    assert named.name in said


@pytest.mark.slow
def test_a_key_that_is_another_certificates_is_refused_from_python(papers: Papers) -> None:
    engine = Engine(toy_plan(), EngineConfig(workers=1))
    tls = Tls(papers.server.certificate.read_bytes(), papers.client.key.read_bytes())
    config = ServerConfig(http_port=0, grpc_port=0, metrics_port=None, tls=tls)
    with closing(engine), pytest.raises(ValueError, match="is not the key of the certificate"):
        serve([engine], config)
