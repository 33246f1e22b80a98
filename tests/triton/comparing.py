"""What two servers of one repository tell and answer, without what is each one's own."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.triton.config import Message, data_type_name

_REQUESTS = 3
_VALUES = {"TYPE_STRING": "a", "TYPE_BOOL": True}
_CLIENTS_READ = (
    *("name", "platform", "backend", "max_batch_size", "input", "output", "version_policy"),
    *("batch_input", "batch_output", "model_transaction_policy", "parameters", "instance_group"),
    *("dynamic_batching", "sequence_batching", "ensemble_scheduling", "response_cache"),
)


def ask(address: str, path: str, body: object = None) -> tuple[int, Any]:  # Any: JSON
    """Return the status and the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}/v2/{path}", data)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, _read(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, _read(error.read())


def _read(content: bytes) -> Any:  # Any: JSON
    """Return an answer, or a list of those that an event stream holds."""
    if content.startswith(b"data: "):
        return [json.loads(one.removeprefix(b"data: ")) for one in content.split(b"\n\n") if one]
    return json.loads(content or b"{}")


def question(config: Message) -> dict[str, Any]:  # Any: JSON
    """Return a request to a model, with two rows where it takes them."""
    rows = [2] if config.max_batch_size > 1 else [1] if config.max_batch_size else []
    return {
        "inputs": [
            {
                "name": one.name,
                "datatype": _datatype(data_type_name(one.data_type)),
                "shape": (shape := rows + [dim if dim > 0 else 3 for dim in one.dims]),
                "data": [_VALUES.get(data_type_name(one.data_type), 1)] * _count(shape),
            }
            for one in config.input
        ]
    }


def _datatype(name: str) -> str:
    return name.removeprefix("TYPE_").replace("STRING", "BYTES")


def _count(shape: list[int]) -> int:
    count = 1
    for dim in shape:
        count *= dim
    return count


def told(
    address: str, config: Message, asks: Sequence[tuple[str, str]] = ()
) -> Iterator[tuple[str, object]]:
    """Yield what a server tells of a model, answers to three requests to it and to what a case
    `asks` of it, and counts of it."""
    name = config.name
    _, metadata = ask(address, f"models/{name}")
    yield "metadata", metadata
    _, found = ask(address, f"models/{name}/config")
    found.get("ensemble_scheduling", {}).pop("max_inflight_requests", None)  # newer than 2.51
    yield from ((f"config.{one}", found.get(one)) for one in _CLIENTS_READ)
    special = config.model_transaction_policy.decoupled or config.HasField("sequence_batching")
    for _ in range(0 if special else _REQUESTS):
        yield "answer", _plain(ask(address, f"models/{name}/infer", question(config)))
    own = [(path, body) for path, body in asks if path.partition("/")[0] == name]
    for number, (path, body) in enumerate(own, start=1):
        yield f"answer {number}", _plain(ask(address, f"models/{path}", json.loads(body)))
    if special:
        return
    for one in _counted(address, name, _REQUESTS + len(own)):
        version = one["version"]
        yield f"{version} counts", (one["inference_count"], one["execution_count"])
        yield f"{version} requests", _counts(one["inference_stats"])
        sizes = {size["batch_size"]: _counts(size) for size in one["batch_stats"]}
        yield f"{version} executions", sorted(sizes.items())


_OWN = ("sequence_id", "sequence_start", "sequence_end", "error")


def _plain(told: tuple[int, Any]) -> tuple[int, Any]:  # Any: JSON
    """Return an answer without the words of an error, and what only ensembles there say: of which
    sequence it is."""
    status, answer = told
    if isinstance(answer, list):
        return status, [_plain((status, one))[1] for one in answer]
    answer = {name: one for name, one in answer.items() if name not in _OWN}
    said = answer.pop("parameters", {})
    answer["parameters"] = {name: one for name, one in said.items() if name not in _OWN}
    answer["outputs"] = sorted(answer.get("outputs", []), key=lambda one: one["name"])
    return status, answer


def _counts(kinds: Mapping[str, Any]) -> dict[str, int]:  # Any: JSON
    """Return how often each kind of time was taken."""
    return {kind: one["count"] for kind, one in kinds.items() if isinstance(one, dict)}


def _counted(address: str, name: str, requests: int) -> list[Any]:  # Any: JSON
    """Return the statistics when all requests are counted: theirs may be after the answer."""
    last = time.monotonic() + 5
    while True:
        _, statistics = ask(address, f"models/{name}/stats")
        found = statistics["model_stats"]
        counted = [one["inference_stats"] for one in found]
        count = sum(one["success"]["count"] + one["fail"]["count"] for one in counted)
        if count >= requests or time.monotonic() > last:
            return found
        time.sleep(0.02)
