"""Requests that two servers might read differently, and heads and bodies that do not end."""

import socket
import threading

import pytest

from tests.safety.hosted import GOOD, INFER, MIB, Hosted, exchange, post

pytestmark = pytest.mark.slow

HEAD = f"POST {INFER} HTTP/1.1\r\nHost: x\r\n".encode()
SIZE = len(GOOD)
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (SIZE, GOOD)
UNLOAD = b"POST /v2/repository/models/two/unload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
REFUSED = {
    "length and chunks": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % SIZE
    + CHUNKED,
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + CHUNKED,
    "a smuggled request": b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + UNLOAD,
    "two lengths": b"Content-Length: %d\r\nContent-Length: 5\r\n\r\n" % SIZE + GOOD,
    "one length twice": b"Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (SIZE, SIZE) + GOOD,
    "a list of lengths": b"Content-Length: %d, %d\r\n\r\n" % (SIZE, SIZE) + GOOD,
    "a sign": b"Content-Length: +%d\r\n\r\n" % SIZE + GOOD,
    "a negative length": b"Content-Length: -1\r\n\r\n" + GOOD,
    "a length that overflows": b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a space before the colon": b"Content-Length : %d\r\n\r\n" % SIZE + GOOD,
    "a folded header": b"X-A: b\r\n c\r\nContent-Length: %d\r\n\r\n" % SIZE + GOOD,
    "a folded coding": b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKED,
    "a bare line feed": b"X-A: b\nContent-Length: %d\r\n\r\n" % SIZE + GOOD,
    "a bare return": b"X-A: b\rContent-Length: 3\r\nContent-Length: %d\r\n\r\n" % SIZE + GOOD,
    "a NUL": b"X-A: b\0c\r\nContent-Length: %d\r\n\r\n" % SIZE + GOOD,
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKED,
    "chunks that are not last": b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKED,
    "chunks twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED,
    "a negative chunk": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "a chunk that overflows": b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    "a prefixed chunk": b"Transfer-Encoding: chunked\r\n\r\n0x%x\r\n" % SIZE + GOOD,
    "chunks in bare lines": b"Transfer-Encoding: chunked\r\n\r\n%x\n%b\n0\n\n" % (SIZE, GOOD),
}
TAKEN = {
    "chunks": b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED,
    "trailers": b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED[:-2] + b"X-A: b\r\n\r\n",
    "an expectation": b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % SIZE + GOOD,
}


@pytest.mark.parametrize("shape", REFUSED)
def test_a_request_of_two_meanings_is_refused_and_nothing_behind_it_read(
    hosted: Hosted, shape: str
) -> None:
    with hosted.connect() as connection:
        assert exchange(connection, HEAD + REFUSED[shape]) == [400]


@pytest.mark.parametrize("shape", TAKEN)
def test_a_request_of_one_meaning_is_one_request(hosted: Hosted, shape: str) -> None:
    with hosted.connect() as connection:
        assert exchange(connection, HEAD + TAKEN[shape])[-2:] == [200, 200]


def test_who_wishes_for_another_protocol_is_answered_in_this_one(hosted: Hosted) -> None:
    """As Java's HttpClient asks. The body is no other request, however it arrives."""
    wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    with hosted.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(HEAD + wish + b"Content-Length: %d\r\n\r\n" % len(UNLOAD))
        hosted.serves()  # by then the head has been read
        assert exchange(connection, UNLOAD) == [400, 200]


def test_requests_behind_each_other_are_answered_in_turn(hosted: Hosted) -> None:
    wrong = post(INFER, b"{}")
    with hosted.connect() as connection:
        many = (post(INFER, GOOD) + wrong) * 200
        assert exchange(connection, many) == [200, 400] * 200 + [200]


@pytest.mark.parametrize("size", [SIZE, 20_000])
def test_a_body_behind_its_head_is_waited_for(hosted: Hosted, size: int) -> None:
    """As many clients send it. Whoever goes before it has come leaves nothing."""
    good = GOOD.ljust(size)
    head = HEAD + b"Content-Length: %d\r\n\r\n" % size
    with hosted.connect() as leaving:
        leaving.sendall(head + good[:5])
    with hosted.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in (head, good[:5], good[5:] + head + good[:7]):
            connection.sendall(part)
            hosted.serves()  # by then it has been read
        assert exchange(connection, good[7:]) == [200, 200, 200]


@pytest.mark.parametrize(
    "line",
    [
        b"GET /v2/%00%ff HTTP/1.1\r\n\r\n",
        b"GET /v2/\xff HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 60000 + b" HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\n\r\n",
        b"TRACE /v2 HTTP/1.1\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\n\r\n",
        b"GET /v2 HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
    ],
)
def test_a_strange_first_line_is_refused(hosted: Hosted, line: bytes) -> None:
    with hosted.connect() as connection:
        statuses = exchange(connection, line)
    assert statuses
    assert statuses[0] in (400, 404, 405)
    hosted.serves()


def test_a_socket_that_is_half_closed_is_closed(hosted: Hosted) -> None:
    """Who sends no more is taken for gone: so do those look who vanish while a request waits."""
    with hosted.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    hosted.serves()


def endless(connection: socket.socket, piece: bytes) -> None:
    """Send until the server closes; fails when it takes 64 MiB."""
    for _ in range(64 * MIB // len(piece)):
        try:
            connection.sendall(piece)
        except OSError:
            return
    pytest.fail("the server goes on to read")


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /v2 HTTP/1.1\r\n", b"X-A: b\r\n" * 1000),
        (b"GET /v2 HTTP/1.1\r\nX-A: ", b"a" * 8000),
        (b"GET /", b"a" * 8000),
        (b"", b"\r\n" * 4000),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-A: b\r\n" * 1000),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: ", b"a" * 8000),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a" * 8000),
    ],
    ids=["headers", "a header", "a path", "lines", "trailers", "a trailer", "an extension"],
)
def test_b29_what_does_not_end_ends_the_connection(
    hosted: Hosted, start: bytes, piece: bytes
) -> None:
    before = hosted.forget_peak()
    with hosted.connect() as connection:
        connection.sendall(start)
        endless(connection, piece)
    hosted.serves()
    assert hosted.peak() - before < 16 * MIB


def test_b29_a_million_chunks_of_a_byte_each_are_a_body_and_others_are_served(
    hosted: Hosted,
) -> None:
    before = hosted.forget_peak()
    content = GOOD.ljust(1_000_000)
    with hosted.connect() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in content)
        sender = threading.Thread(target=connection.sendall, args=(pieces + b"0\r\n\r\n",))
        sender.start()
        hosted.serves()
        assert connection.recv(12) == b"HTTP/1.1 200"
        sender.join()
    assert hosted.peak() - before < 64 * MIB
