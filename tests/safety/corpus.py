"""Requests that fuzzing starts from and that are tried again at each run, one a file.

    corpus/http/NAME     bytes as they go over a connection
    corpus/grpc/NAME     the bytes of a ModelInferRequest

`python -m tests.safety.corpus` writes the sound ones; what fuzzing finds is put beside them.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from headrace.runtime.protocols.messages import ModelInferRequest

FOLDER: Final = Path(__file__).parent / "corpus"
ODD: Final = (
    *(b"", b"\0", b"\xff", b"-1", b"0", b"9" * 19, b"9" * 40, b"1e999", b"NaN", b"null", b"true"),
    *(
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"\\u0000",
        b"\\ud800",
        b",",
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b": ",
    ),
    *(b"..", b"/", b"%00", b"%2e", b"chunked", b"Content-Length: 5\r\n", b"Upgrade: h2c\r\n"),
    *(b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
)


def entries(kind: str) -> list[bytes]:
    """Return what there is of a kind, in the order of the names."""
    return [path.read_bytes() for path in sorted((FOLDER / kind).iterdir())]


def mutated(random: Random, entry: bytes, others: list[bytes]) -> bytes:
    """Return an entry with one to four changes."""
    made = bytearray(entry)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(made) + 1)
        size = random.choice((0, 1, 1, 2, 4, 16))
        match random.randrange(6):
            case 0 if made:
                place = random.randrange(len(made))
                made[place] ^= 1 << random.randrange(8)
            case 1:
                made[at : at + size] = random.choice(ODD)
            case 2:
                made[at : at + size] = b""
            case 3:
                made[at:at] = made[at : at + size] * random.choice((1, 2, 8, 64))
            case 4:
                other = random.choice(others)
                start = random.randrange(len(other) + 1)
                made[at:] = other[start:]
            case _:
                made[at : at + size] = random.randbytes(size)
    return bytes(made)


def _tensor(shape: list[int], datatype: str = "FP32", **more: object) -> dict[str, object]:
    return {"name": "x0", "datatype": datatype, "shape": shape, **more}


def _post(path: str, body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("Host: localhost", *headers))
    length = f"Content-Length: {len(body)}\r\n\r\n"
    return f"POST /v2/{path} HTTP/1.1\r\n{lines}{length}".encode() + body


def _json(path: str, content: object, *headers: str) -> bytes:
    return _post(path, json.dumps(content).encode(), *headers)


def _binary(path: str, tensor: dict[str, object], raw: bytes) -> bytes:
    tensor = tensor | {"parameters": {"binary_data_size": len(raw)}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return _post(path, head + raw, f"Inference-Header-Content-Length: {len(head)}")


def sound_http() -> Iterator[tuple[str, bytes]]:
    infer, words = "models/echo_f32/infer", b"\2\0\0\0ab\0\0\0\0"
    yield "json", _json(infer, {"inputs": [_tensor([2], data=[0.5, 1.5])], "id": "a"})
    yield "binary", _binary(infer, _tensor([2]), struct.pack("<2f", 0.5, 1.5))
    yield "strings", _binary("models/echo_bytes/infer", _tensor([2], "BYTES"), words)
    yield "no_json", _post(infer, bytes(8), "Inference-Header-Content-Length: 0")
    asked = {"name": "y0", "parameters": {"binary_data": True, "classification": 2}}
    parameters = {"timeout": 10**7, "priority": 1, "free": "x", "sequence_id": 0}
    yield (
        "all",
        _json(
            infer,
            {
                "inputs": [_tensor([2], data=[1, 2])],
                "outputs": [asked],
                "parameters": parameters,
                "id": "b",
            },
        ),
    )
    for name, datatype, value in (
        ("i8", "INT8", -128),
        ("u64", "UINT64", 2**64 - 1),
        ("f16", "FP16", 0.5),
        ("bf16", "BF16", 0.5),
        ("bool", "BOOL", True),
    ):
        yield (
            name,
            _json(f"models/echo_{name}/infer", {"inputs": [_tensor([1], datatype, data=[value])]}),
        )
    shapes = {"name": "x0_shape", "datatype": "INT64", "shape": [1, 2], "data": [2, 1]}
    ragged = {"inputs": [_tensor([2], data=[1, 2]), shapes]}
    yield "ragged", _json("models/ragged/infer", ragged)
    text = {"name": "x1", "datatype": "BYTES", "shape": [1, 1], "data": ["a"]}
    yield "rows", _json("models/rows/infer", {"inputs": [_tensor([1, 3], data=[1, 2, 3]), text]})
    yield (
        "matrix",
        _json("models/matrix/infer", {"inputs": [_tensor([3, 1], data=[[1], [2], [3]])]}),
    )
    memory = {"shared_memory_region": "r", "shared_memory_byte_size": 8, "shared_memory_offset": 0}
    yield "memory", _json(infer, {"inputs": [_tensor([2], parameters=memory)]})
    packed = zlib.compress(json.dumps({"inputs": [_tensor([1], data=[1])]}).encode())
    yield "deflate", _post(infer, packed, "Content-Encoding: deflate", "Accept-Encoding: gzip")
    body = b'{"inputs":[]}'
    chunks = b"%x\r\n%b\r\n0\r\nX-A: b\r\n\r\n" % (len(body), body)
    head = f"POST /v2/{infer} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield "chunks", head.encode() + chunks
    yield "generate", _json("models/two/generate", {"x0": [1.5], "x1": "a", "id": "c", "free": 1})
    yield "generate_stream", _json("models/two/generate_stream", {"x0": [1.5], "x1": "a"})
    yield "version", _json("models/echo_f32/versions/1/infer", {"inputs": []})
    for number, path in enumerate(
        ("", "/models/two", "/models/two/config", "/models/stats", "/health/ready", "/logging")
    ):
        yield f"get_{number}", f"GET /v2{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    yield "index", _json("repository/index", {"ready": True})
    yield "load", _json("repository/models/two/load", {"parameters": {"unload_dependents": True}})
    yield "register", _json("systemsharedmemory/region/r/register", {"key": "/r", "byte_size": 8})
    yield "settings", _json("trace/setting", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
    wish = ("Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    yield "upgrade", _json(infer, {"inputs": []}, *wish)


def sound_grpc() -> Iterator[tuple[str, bytes]]:
    def asked(model: str, datatype: str = "FP32", shape: tuple[int, ...] = (2,), **more: object):
        message = ModelInferRequest(model_name=model, id="a", **more)
        message.inputs.add(name="x0", datatype=datatype, shape=shape)
        return message

    raw = asked("echo_f32", raw_input_contents=[bytes(8)])
    raw.outputs.add(name="y0").parameters["classification"].int64_param = 1
    yield "raw", raw.SerializeToString(deterministic=True)
    for datatype, field, values in (
        ("FP32", "fp32_contents", [0.5, 1.5]),
        ("INT64", "int64_contents", [-1, 1]),
        ("BOOL", "bool_contents", [True, False]),
        ("BYTES", "bytes_contents", [b"", b"\xff"]),
        ("UINT8", "uint_contents", [0, 255]),
    ):
        name = {"FP32": "f32", "INT64": "i64", "UINT8": "u8"}.get(datatype, datatype.lower())
        typed = asked(f"echo_{name}", datatype)
        getattr(typed.inputs[0].contents, field).extend(values)
        yield f"typed_{datatype.lower()}", typed.SerializeToString(deterministic=True)
    strings = asked("echo_bytes", "BYTES", raw_input_contents=[b"\2\0\0\0ab\0\0\0\0"])
    strings.parameters["timeout"].int64_param = 10**7
    strings.parameters["priority"].uint64_param = 1
    strings.parameters["free"].string_param = "x"
    strings.inputs[0].parameters["shared_memory_region"].string_param = "r"
    yield "strings", strings.SerializeToString(deterministic=True)
    version = asked("two", model_version="1", raw_input_contents=[bytes(8), b"\1\0\0\0a"])
    version.inputs.add(name="x1", datatype="BYTES", shape=[1])
    yield "two", version.SerializeToString(deterministic=True)


if __name__ == "__main__":
    for kind, found in (("http", sound_http()), ("grpc", sound_grpc())):
        (FOLDER / kind).mkdir(parents=True, exist_ok=True)
        for name, content in found:
            (FOLDER / kind / name).write_bytes(content)
