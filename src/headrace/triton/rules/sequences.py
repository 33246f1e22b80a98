"""Sequences: the tensors that tell a model where it is in one, and what it keeps in between."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic, Label
from ..config import Message, data_type, data_type_name
from ..subject import Subject, meant
from .batching import sizes

_CODE = "HR612"
_CORRELATION = 3
_KINDS = ("START", "READY", "END", "CORRID")
_VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
_IDS = {data_type(one) for one in ("UINT64", "INT64", "UINT32", "INT32", "STRING")}


def check(subject: Subject) -> Iterator[Diagnostic]:
    if not subject.config.HasField("sequence_batching"):
        return
    batching, path = subject.config.sequence_batching, "sequence_batching"
    yield from sizes(subject, batching.oldest.preferred_batch_size, (path, "oldest"))
    if not 0 <= batching.direct.minimum_slot_utilization <= 1:
        yield subject.error(
            _CODE, "a share of slots is from 0 to 1", path, "direct", "minimum_slot_utilization"
        )
    yield from _controls(subject, batching)
    yield from _states(subject, batching)


def _controls(subject: Subject, batching: Message) -> Iterator[Diagnostic]:
    names: dict[str, int] = {}
    kinds: dict[int, tuple[str | int, ...]] = {}
    inputs = {one.name: i for i, one in enumerate(subject.config.input)}
    for i, tensor in enumerate(batching.control_input):
        path = ("sequence_batching", "control_input", i)
        if not tensor.name:
            yield subject.error(_CODE, "a control tensor without a name", *path)
        elif tensor.name in names:
            yield subject.error(
                _CODE,
                f"two control tensors are called `{tensor.name}`",
                *path,
                "name",
                help="one tensor with several `control` blocks is one `control_input`",
            )
        elif tensor.name in inputs:
            place = subject.place("input", inputs[tensor.name], "name")
            yield subject.error(
                _CODE,
                f"`{tensor.name}` is given by the server, and by the caller",
                *path,
                "name",
                others=(Label(place, "an input of callers"),),
                help="leave it out of `input`",
            )
        names.setdefault(tensor.name, i)
        for j, control in enumerate(tensor.control):
            where = (*path, "control", j)
            if control.kind in kinds:
                first = Label(subject.place(*kinds[control.kind]), "first here")
                message = f"two tensors tell CONTROL_SEQUENCE_{_KINDS[control.kind]}"
                yield subject.error(_CODE, message, *where, "kind", others=(first,))
            kinds.setdefault(control.kind, (*where, "kind"))
            yield from _control(subject, control, where)


def _control(
    subject: Subject, control: Message, path: tuple[str | int, ...]
) -> Iterator[Diagnostic]:
    given = [one for one in _VALUES if len(getattr(control, one))]
    kind = f"CONTROL_SEQUENCE_{_KINDS[control.kind]}"
    if control.kind == _CORRELATION:
        if given:
            message = f"`{kind}` is the sequence's id and has no values for false and true"
            yield subject.error(_CODE, message, *path, given[0])
        if control.data_type not in _IDS:
            yield subject.error(
                _CODE,
                f"an id of a sequence is no {data_type_name(control.data_type)}",
                *path,
                "data_type",
                help="write `data_type: TYPE_UINT64`, `TYPE_INT64`, `TYPE_UINT32`, `TYPE_INT32` "
                "or `TYPE_STRING`",
            )
        return
    if len(given) != 1:
        yield subject.error(
            _CODE,
            f"`{kind}` has no values for false and true"
            if not given
            else f"`{kind}` has values of {len(given)} types",
            *path,
            "kind",
            help="write one of `int32_false_true: [ 0, 1 ]`, `fp32_false_true: [ 0, 1 ]` and "
            "`bool_false_true: [ false, true ]`",
        )
    for one in given:
        if len(getattr(control, one)) != 2:
            message = f"`{one}` is one value for false and one for true"
            yield subject.error(_CODE, message, *path, one)


def _states(subject: Subject, batching: Message) -> Iterator[Diagnostic]:
    first: dict[str, tuple[str | int, ...]] = {}
    for i, state in enumerate(batching.state):
        path = ("sequence_batching", "state", i)
        for field in ("input_name", "output_name"):
            name = getattr(state, field)
            if not name:
                yield subject.error(_CODE, f"a state without `{field}`", *path)
            elif f"{field} {name}" in first:
                place = Label(subject.place(*first[f"{field} {name}"]), "first here")
                message = f"two states have the `{field}` `{name}`"
                yield subject.error(_CODE, message, *path, field, others=(place,))
            first.setdefault(f"{field} {name}", (*path, field))
        if state.data_type == 0:
            yield subject.error(_CODE, "a state without a data type", *path)
        yield from _initial(subject, state, path)


def _initial(subject: Subject, state: Message, path: tuple[str | int, ...]) -> Iterator[Diagnostic]:
    if len(state.initial_state) > 1:
        message = f"a state begins with one value, not {len(state.initial_state)}"
        yield subject.error(_CODE, message, *path, "initial_state", 1)
    for i, initial in enumerate(state.initial_state):
        where = (*path, "initial_state", i)
        if initial.WhichOneof("state_data") is None:
            yield subject.error(
                _CODE,
                "what a state begins with is not said",
                *where,
                help="write `zero_data: true`, or `data_file` with a file in `initial_state/`",
            )
        if not initial.name:
            yield subject.error(
                _CODE,
                "a state's beginning without a name",
                *where,
                help=f'write `name: "{state.input_name}"`',
            )
        if initial.data_type != state.data_type:
            yield subject.error(
                _CODE,
                f"a state of {data_type_name(state.data_type)} begins with "
                f"{data_type_name(initial.data_type)}",
                *where,
                "data_type",
                others=(Label(subject.place(*path, "data_type"), "its type"),),
            )
        if not _fits(initial.dims, state.dims):
            yield subject.error(
                _CODE,
                f"a state of {list(state.dims)} begins with {list(initial.dims)}",
                *where,
                "dims",
                others=(Label(subject.place(*path, "dims"), "its sizes"),),
            )
        folder = subject.model.folder / "initial_state"
        if initial.data_file and not (folder / initial.data_file).is_file():
            there = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
            yield subject.error(
                "HR608",
                f"there is no file `initial_state/{initial.data_file}`",
                *where,
                "data_file",
                help=meant(initial.data_file, there, "there are"),
            )


def _fits(dims: list[int], of: list[int]) -> bool:
    pairs = zip(dims, of, strict=False)
    return len(dims) == len(of) and all(a == b or b == -1 for a, b in pairs) and -1 not in dims
