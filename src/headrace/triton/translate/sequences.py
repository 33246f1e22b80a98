"""What a model is told of its sequence, and what it keeps, in the words of the language."""

from math import prod
from pathlib import Path

import numpy as np

from ..complete import PYTHON
from ..config import Message
from ..subject import Subject
from .draft import Control, Draft, Kept, refuse
from .tensors import Tensor, dtype, written

_KINDS = ("start", "ready", "end", "number")
_VALUES = (("fp32_false_true", "f32"), ("int32_false_true", "i32"), ("bool_false_true", "bool"))
_MOST = 1 << 16  # elements of a state's beginning that a source writes down


def has_sequences(subject: Subject) -> bool:
    """Whether requests belong to sequences. Of one that a model schedules anew, each is a sequence
    of its own, which its caller does not name."""
    config = subject.config
    iterative = config.sequence_batching.iterative_sequence
    return config.HasField("sequence_batching") and not iterative


def begins_anew(subject: Subject) -> bool:
    """Whether each request is a sequence of its own, which its model may schedule anew."""
    return subject.config.sequence_batching.iterative_sequence


def read_controls(subject: Subject, ranks: dict[str, int]) -> tuple[Control, ...]:
    """Return the tensors that tell of the sequence; `ranks` are how many axes the file gives them,
    the batch axis included. What schedules requests anew is told at each time, by what runs it."""
    controls: list[Control] = []
    if begins_anew(subject) and subject.config.backend == PYTHON:
        return ()
    for number, one in enumerate(subject.config.sequence_batching.control_input):
        if len(one.control) != 1:
            raise refuse(
                subject,
                f"`{one.name}` tells {len(one.control)} things",
                *("sequence_batching", "control_input", number),
                help="give each thing a `control_input` of its own",
            )
        controls.append(_control(subject, one.name, one.control[0], ranks))
    return tuple(controls)


def _control(subject: Subject, name: str, control: Message, ranks: dict[str, int]) -> Control:
    batched = int(subject.config.max_batch_size > 0)
    dims = (1,) * (ranks.get(name, 1 + batched) - batched)
    kind, values, element = _KINDS[control.kind], (0.0, 0.0), ""
    if kind == "number":
        element = dtype(control)
        if element == "bytes":
            kind, element = "id", "string"
    for field, type in _VALUES:
        if given := list(getattr(control, field)):
            values, element = (float(given[0]), float(given[1])), type
    return Control(Tensor(name, element, dims, dims), kind, values)


_ALONE = {"start": "true", "ready": "true", "end": "false", "number": "1", "id": '"1"'}
"""What is told of a request that is a sequence of its own."""


def told(control: Control, *, alone: bool = False) -> str:
    """Return the expression for what a model is told, `alone` of a request that is a sequence."""
    element, said = control.tensor.dtype, f"sequence.{control.kind}"
    said = _ALONE[control.kind] if alone else said
    false, true = control.values
    if element == "string" and control.tensor.dims:
        return f"reshape({said}, [{', '.join('1' for _ in control.tensor.dims)}])"
    if control.kind in ("number", "id"):
        plain = alone or element in ("u64", "string")
        value = said if plain else f"cast({said}, {element})"
    elif (false, true) == (0.0, 1.0):
        value = said if element == "bool" else f"cast({said}, {element})"
    elif element == "bool":
        value = f"not {said}" if (false, true) == (1.0, 0.0) else str(bool(true)).lower()
    else:
        number = float if element == "f32" else int
        value = f"cast(if {said} {{ {number(true)} }} else {{ {number(false)} }}, {element})"
    return "[" * len(control.tensor.dims) + value + "]" * len(control.tensor.dims)


def read_states(subject: Subject) -> tuple[Kept, ...]:
    """Return what a model keeps from one request of a sequence to the next."""
    states: list[Kept] = []
    for state in subject.config.sequence_batching.state:
        dims = tuple(state.dims)
        before = Tensor(state.input_name, dtype(state), dims, dims)
        states.append(Kept(before, state.output_name, _beginning(subject, state)))
    return tuple(states)


def keep(draft: Draft, kept: Kept) -> str:
    """Declare a state and return its name."""
    name = draft.names.fresh(kept.before.name)
    type = written(kept.before.dtype, kept.before.dims)
    draft.states.append(f"state {name}: {type} = {kept.begin}")
    return name


def begun(kept: Kept) -> str:
    """Return the expression for a state of a request that no other follows."""
    sizes = ", ".join(map(str, kept.before.dims))
    return f"zeros([{sizes}], {kept.before.dtype})" if kept.begin == "zeros" else kept.begin


def _beginning(subject: Subject, state: Message) -> str:
    initial = state.initial_state[0] if state.initial_state else state
    # A tritonserver takes a size that is left open to be 1 at first.
    sizes = [1 if dim < 0 else dim for dim in initial.dims]
    if not state.initial_state or not initial.data_file:
        if all(dim >= 0 for dim in state.dims):
            return "zeros"
        return f"zeros([{', '.join(map(str, sizes))}], {dtype(state)})"
    path = subject.model.folder / "initial_state" / initial.data_file
    return _literal(subject, path, dtype(state), sizes)


def _literal(subject: Subject, path: Path, element: str, sizes: list[int]) -> str:
    """Return the values in a file, as they are written in a source."""
    if element in ("bytes", "bf16") or prod(sizes) > _MOST:
        raise refuse(
            subject,
            f"`{path.name}` begins a state of {prod(sizes)} elements of {element}",
            *("sequence_batching", "state"),
            help=f"a state begins with at most {_MOST} numbers; write `zero_data: true`",
        )
    names = {"f": "float", "i": "int", "u": "uint", "b": "bool"}
    type = np.dtype(names[element[0]] + element[1:] if element != "bool" else "bool")
    values = np.frombuffer(path.read_bytes(), type)
    if values.size != prod(sizes):
        raise refuse(
            subject,
            f"`{path.name}` has {values.size} elements of {element}, not {prod(sizes)}",
            *("sequence_batching", "state"),
            help="write the file with as many values as `dims` say",
        )
    return _list(values.reshape(sizes).tolist())


def _list(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_list(one) for one in value)}]"  # pyright: ignore[reportUnknownVariableType]
    return str(value).lower() if isinstance(value, bool) else repr(value)
