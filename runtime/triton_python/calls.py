"""What a model asks of the server: other models, metrics, loading. Nothing here waits."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Protocol

import ml_dtypes
import numpy as np

from ...stdlib.op import Item
from ..context import Context
from ..custom_metrics import Labels, Refused
from ..meetings import Lend, Tell
from ..nested import Nested, tell_of, urgency_of
from ..protocols.datatypes import Datatype
from ..protocols.inputs import read_inputs
from ..protocols.models import Model
from ..protocols.raw import Flat
from ..protocols.results import WireTensor, result_tensors
from ..pump import Pump
from ..request import Code, Fault, InSequence, Request, Response
from ..streams import Stream
from .worker.triton_python_backend_utils.contents import Places, pack
from .worker.triton_python_backend_utils.link import Answered

Header = dict[str, Any]  # Any: JSON
_ELEMENTS: Final = 1 << 24  # of texts in one input
_INTERNAL: Final = 1
_CODES: Final = {
    Code.NOT_FOUND: 2,
    Code.INVALID: 3,
    Code.OVERLOADED: 4,
    Code.UNAVAILABLE: 4,
    Code.UNSUPPORTED: 5,
    Code.CANCELLED: 7,
    Code.DEADLINE: 4,
}
_LEFT_OUT: Final = ("sequence_id", "sequence_start", "sequence_end", "priority", "timeout")


class Asks(Protocol):
    """The process of a worker that asks."""

    def answer(
        self,
        call: int,
        answer: Header | Answered,
        chunks: Sequence[Any] = (),  # Any: bytes
    ) -> None: ...

    def contexts(self, number: int | None) -> list[Context]: ...

    @property
    def patient(self) -> bool:
        """Whether nothing else need be heard of it while it waits for an answer."""
        ...

    def lends(self, call: int) -> Lend | None:
        """Return what lends the thread that waits for an answer, where that is one here."""
        ...


class Calls:
    """What the workers of one stage ask; `outputs` are those of its model."""

    def __init__(self, nested: Nested, outputs: list[str]) -> None:
        self._nested, self.outputs = nested, outputs
        self._streams: dict[tuple[Asks, int], _Reader] = {}
        self._pump = Pump("headrace-nested-streams")
        self._running: set[int] = set()

    def end(self, asks: Asks) -> None:
        """Let go of what a worker that has ended was reading."""
        for key in [key for key in list(self._streams) if key[0] is asks]:
            reader = self._streams.pop(key, None)
            if reader is not None:
                reader.cancel()

    def close(self) -> None:
        """End what reads streams."""
        self._pump.close()

    def take(self, asks: Asks, call: int, header: Header) -> None:
        """Do what is asked; the answer may come later, from another thread."""
        if header["do"] == "cancel":
            reader = self._streams.pop((asks, header["stream"]), None)
            if reader is not None:
                reader.cancel()
            return
        try:
            match header["do"]:
                case "next":
                    self._next(asks, call, header["stream"])
                case "family" | "labels" | "metric":
                    asks.answer(call, self._metric(header))
                case "ready":
                    ready = self._nested.ready(header["model"], _version(header["version"]))
                    asks.answer(call, {"ready": ready})
                case "load":
                    done = self._nested.load(header["model"], header["config"])
                    done.add_done_callback(partial(_settled, asks, call))
                case "unload":
                    self._nested.unload(header["model"])
                    asks.answer(call, {})
                case other:
                    asks.answer(call, _refused(f"there is no call {other!r}"))
        except Fault as fault:
            asks.answer(call, _failed(fault, header.get("model", "")))
        except Refused as refused:
            asks.answer(call, _refused(str(refused)))

    def ask(
        self,
        asks: Asks,
        call: int,
        header: Header,
        content: Any,  # Any: bytes
    ) -> None:
        """Ask a model; the answer may come later, from another thread."""
        try:
            self._ask(asks, call, header, content)
        except Fault as fault:
            asks.answer(call, _failed(fault, header["model"]))

    def _ask(self, asks: Asks, call: int, header: Header, content: Any) -> None:  # Any: bytes
        version = _version(header["version"])
        try:
            model = self._nested.model(header["model"], version)
        except Fault as fault:
            said = (
                f"Failed for execute the inference request. Model '{header['model']}' is not ready."
            )
            raise Fault(fault.code, f"{said} {fault}") from fault
        streams = model.pipeline.stream
        if streams and not header["decoupled"]:
            raise Fault(
                Code.INVALID,
                f"Model {model.name} is using the decoupled. The current BLS request call doesn't "
                "support models using the decoupled transaction policy. Please use "
                "'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled "
                "models.",
            )
        request = self._request(model, asks, header, content)
        if not header["decoupled"]:
            tell = partial(_told, asks, call, model)
            if header["waits"] and asks.patient:
                self._run(request, version, tell, asks.lends(call))
            else:
                tell_of(self._nested.submit(request, version), tell)
            return
        reader = _Reader(asks, model, request.outputs, self._pump)
        self._streams[asks, call] = reader
        reader.begin(self._nested, request, version, streams=streams)
        asks.answer(call, {"stream": call})

    def _run(self, request: Request, version: str, tell: Tell, lend: Lend | None) -> None:
        """Ask from a thread that need hear nothing until the answer is there, which runs requests
        but once at a time: models that ask each other would nest deep."""
        here = threading.get_ident()
        if here in self._running:
            tell_of(self._nested.submit(request, version), tell)
            return
        lends = None if lend is None else partial(self._lend, lend)
        self._once(lambda: self._nested.run(request, version, tell, lends))

    def _lend(self, lend: Lend, work: Callable[[], object]) -> bool:
        return lend(partial(self._once, work))

    def _once(self, work: Callable[[], object]) -> None:
        here = threading.get_ident()
        self._running.add(here)
        try:
            work()
        finally:
            self._running.discard(here)

    def _next(self, asks: Asks, call: int, stream: int) -> None:
        reader = self._streams.get((asks, stream))
        if reader is None:
            asks.answer(call, {"over": True})
        else:
            reader.next(call)

    def _request(
        self,
        model: Model,
        asks: Asks,
        header: Header,
        content: Any,  # Any: bytes
    ) -> Request:
        places: Places = header["tensors"]
        given = [
            (name, datatype, values.shape, values)
            for name, datatype, values in places.arrays(content)
        ]
        inputs = read_inputs(model, given, _read, _ELEMENTS)
        urgency = urgency_of(asks.contexts(header["parent"]))
        outputs = model.wanted(header["outputs"]) if header["outputs"] else None
        if header["more"] is None:
            return Request(
                model.name,
                inputs,
                deadline=urgency.deadline,
                priority=urgency.priority,
                outputs=outputs,
                parameters=urgency.parameters,
                behind=urgency.behind,
            )
        id, correlation, flags, timeout, text = header["more"]
        deadline, parameters = urgency.deadline, json.loads(text or "{}")
        if timeout:
            own = self._nested.now() + timeout / 1e6
            deadline = own if deadline is None else min(own, deadline)
        sequence = None
        if correlation:
            sequence = InSequence(correlation, bool(flags & 1), bool(flags & 2))
        return Request(
            model.name,
            inputs,
            id,
            deadline=deadline,
            priority=parameters.get("priority", urgency.priority),
            outputs=outputs,
            parameters={
                **urgency.parameters,
                **{name: one for name, one in parameters.items() if name not in _LEFT_OUT},
            },
            sequence=sequence,
            behind=urgency.behind,
        )

    def _metric(self, header: Header) -> Header:
        metrics, name = self._nested.metrics, header.get("family", "")
        labels: Labels = tuple((str(key), str(one)) for key, one in header.get("labels", ()))
        match header["do"]:
            case "family":
                metrics.declare(header["name"], header["description"], header["kind"])
            case "labels":
                metrics.label(name, labels, header["buckets"])
            case _:
                return {"value": metrics.change(name, labels, header["what"], header["value"])}
        return {}


class _Reader:
    """Hands on the responses of a nested request, each when it is asked for. All but `begin` and
    `cancel` is done in the pump's thread."""

    def __init__(
        self, asks: Asks, model: Model, outputs: tuple[str, ...] | None, pump: Pump
    ) -> None:
        self._asks, self._model, self._outputs, self._pump = asks, model, outputs, pump
        self._stream: Stream[Mapping[str, Item]] | None = None
        self._found: list[Mapping[str, Item]] = []
        self._call: int | None = None
        self._once: Future[Response] | None = None

    def begin(self, nested: Nested, request: Request, version: str, *, streams: bool) -> None:
        if streams:
            self._stream = nested.open(request, version, lambda: self._pump.do(self._go_on))
        else:  # a model that answers once is a stream of one response
            self._once = nested.submit(request, version)
            self._once.add_done_callback(lambda _: self._pump.do(self._go_on))

    def next(self, call: int) -> None:
        """Answer a call with the next response, now or when there is one."""

        def asked() -> None:
            self._call = call
            self._go_on()

        self._pump.do(asked)

    def cancel(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        elif self._once is not None:
            self._once.cancel()

    def _go_on(self) -> None:
        call = self._call
        if call is None:
            return
        try:
            found = self._take()
        except Fault as fault:
            answer, chunks = _failed(fault, self._model.name), list[Any]()
        else:
            if found is None:
                return
            answer, chunks = found
        self._call = None
        self._asks.answer(call, answer, chunks)

    def _take(self) -> tuple[Header | Answered, list[Any]] | None:  # Any: bytes of tensors
        """Return the next answer, None while there is none."""
        if self._once is not None:
            once = self._once
            if not once.done():
                return None
            self._once = None
            return _outputs(self._model, once.result().outputs)
        if self._stream is None:
            return {"over": True}, []
        if not self._found:
            self._found = list(self._stream.take())
        if not self._found:
            return ({"over": True}, []) if self._stream.over else None
        outputs = self._found.pop(0)
        wanted = self._outputs or tuple(outputs)
        return _outputs(self._model, {name: outputs[name] for name in wanted})


def _told(asks: Asks, call: int, model: Model, outcome: Response | BaseException) -> None:
    if isinstance(outcome, Response):
        asks.answer(call, *_outputs(model, outcome.outputs))
    elif isinstance(outcome, Fault):
        asks.answer(call, _failed(outcome, model.name))
    else:
        asks.answer(call, _refused(f"{type(outcome).__name__}: {outcome}"))


def _settled(asks: Asks, call: int, future: "Future[None]") -> None:
    error = future.exception()
    asks.answer(call, {} if error is None else _refused(str(error)))


def _outputs(model: Model, outputs: Mapping[str, Item]) -> tuple[Answered, list[Any]]:
    chunks: list[Any] = []  # Any: bytes of tensors
    found = [
        _packable(tensor)
        for name, item in outputs.items()
        for tensor in result_tensors(model.outputs[name], item)
    ]
    return Answered("answer", pack(found, chunks)), chunks


def _packable(tensor: WireTensor) -> tuple[str, str, Any]:  # Any: an array
    name, datatype, shape, flat = tensor
    if not datatype.width:
        values = np.empty(len(flat), object)
        values[:] = list(flat)
        return name, "BYTES", values.reshape(shape)
    values = np.asarray(flat).reshape(shape)
    return name, datatype.name, values.view(np.uint16) if datatype.name == "BF16" else values


def _read(values: Any, datatype: Datatype, count: int) -> Flat:  # Any: an array of a worker
    del count  # the message was held to it
    if not datatype.width:
        return values.ravel().tolist()
    flat = values.reshape(-1)
    return flat.view(ml_dtypes.bfloat16) if datatype.name == "BF16" else flat


def _version(asked: object) -> str:
    return "" if asked in (-1, "", "-1") else str(asked)


def _failed(fault: Fault, model: str) -> Header:
    said = f"Model {model} - Error when running inference: {fault}"
    return {"error": [said, _CODES.get(fault.code, _INTERNAL)]}


def _refused(message: str) -> Header:
    return {"error": [message, _INTERNAL]}
