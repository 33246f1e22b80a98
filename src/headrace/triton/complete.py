"""A configuration completed as a tritonserver completes it, from the folder and from model files.

What a server fills in is what its clients see (`v2/models/NAME/config`), so it is the same here.
The order is the server's: backend and file name from what is in the first version's folder, then
inputs, outputs and batching from the model, then defaults of what was left out.

A Python model says its inputs itself, by running; they stay open here.
"""

from dataclasses import dataclass
from pathlib import Path

from .config import Message
from .onnx_file import FileTensor, OnnxFile, read_onnx
from .repository import Model

ENSEMBLE, ONNX, PYTHON = "ensemble", "onnxruntime", "python"
_IDLE = 1_000_000  # microseconds, of a sequence


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a server is told on its command line, or finds on its machine."""

    max_batch_size: int = 4  # --backend-config=default-max-batch-size
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Backend:
    """A backend by what names it: a platform, or the name of its model's file."""

    name: str
    file: str
    platforms: tuple[str, ...] = ()
    folder: bool | None = False  # whether the file is one; None where it may be


# In the order in which they are looked for.
_BACKENDS = (
    _Backend("tensorflow", "model.savedmodel", ("tensorflow_savedmodel",), folder=True),
    _Backend("tensorflow", "model.graphdef", ("tensorflow_graphdef",)),
    _Backend("tensorrt", "model.plan", ("tensorrt_plan",)),
    _Backend(ONNX, "model.onnx", ("onnxruntime_onnx",), folder=None),
    _Backend("openvino", "model.xml", folder=None),
    _Backend("pytorch", "model.pt", ("pytorch_libtorch",)),
    _Backend("pytorch", "model.pt2", ("torch_aoti",)),
    _Backend(PYTHON, "model.py", folder=None),
)
PLATFORMS = {platform: each.name for each in _BACKENDS for platform in each.platforms}


def complete(model: Model, defaults: Defaults | None = None) -> Message:
    """Return the configuration that holds; `model`'s own stays as it is.

    What cannot be told stays open: an unknown backend, the inputs of a model that says them itself.
    """
    config = type(model.message)()
    config.CopyFrom(model.message)
    if not model.config.good:
        return config
    defaults = defaults or Defaults()
    config.name = config.name or model.name
    _complete_backend(config, model)
    if config.backend == ONNX and not (_has_inputs(config) and config.output):
        file = model_file(model, config)
        if file is not None and (found := read_onnx(file)) is not None:
            _complete_tensors(config, found, defaults.max_batch_size)
    normalize(config)
    if not config.HasField("ensemble_scheduling"):
        _complete_instances(config, defaults.gpus)
    return config


def without_copies(config: Message) -> Message:
    """Return a configuration without outputs that are written once more, word for word."""
    outputs = list(config.output)
    kept = [one for i, one in enumerate(outputs) if one not in outputs[:i]]
    if len(kept) < len(outputs):
        del config.output[:]
        config.output.extend(kept)
    return config


def model_file(model: Model, config: Message, version: int | None = None) -> Path | None:
    """Return where the file of a version (the newest) should be; None without versions."""
    folders = {one.number: one.folder for one in model.versions}
    if not folders or not config.default_model_filename:
        return None
    folder = folders.get(max(folders) if version is None else version)
    return None if folder is None else folder / config.default_model_filename


def served(model: Model, config: Message) -> tuple[int, ...]:
    """Return the versions that the policy lets a server load, in ascending order."""
    there = [one.number for one in model.versions]
    policy = config.version_policy
    match policy.WhichOneof("policy_choice"):
        case "all":
            return tuple(there)
        case "specific":
            return tuple(one for one in there if one in policy.specific.versions)
        case "latest":
            count = policy.latest.num_versions
            return tuple(there[-count:] if count else ())
        case _:
            return tuple(there[-1:])


def _complete_backend(config: Message, model: Model) -> None:
    """Fill in backend, platform and file name, each from the others or from the first version."""
    if config.platform == ENSEMBLE:
        return
    backend = _named(config) or _found(config, model)
    if backend is None:
        _complete_custom(config, model)
        return
    config.backend = config.backend or backend.name
    if not config.platform and backend.platforms and backend.name == config.backend:
        config.platform = backend.platforms[0]
    config.default_model_filename = config.default_model_filename or backend.file


def _named(config: Message) -> _Backend | None:
    """Return the backend that the configuration names, by the most exact of its words."""
    possible = [one for one in _BACKENDS if config.backend in ("", one.name)]
    for one in possible:
        if config.platform in one.platforms:
            return one
    for one in possible:
        if config.default_model_filename == one.file:
            return one
    return possible[0] if config.backend and possible else None


def _found(config: Message, model: Model) -> _Backend | None:
    """Return the backend of a file in the first version; only where nothing is said."""
    if config.backend or config.platform or config.default_model_filename or not model.versions:
        return None
    first = min((one.folder for one in model.versions), key=lambda folder: folder.name)
    for one in _BACKENDS:
        path = first / one.file
        if path.exists() and one.folder in (None, path.is_dir()):
            return one
    return None


def _complete_custom(config: Message, model: Model) -> None:
    """Take `name.backend` for a backend's name, when nothing else tells one."""
    said = config.backend or config.platform or config.default_model_filename
    _, dot, last = model.name.partition(".")
    if dot and not said:
        config.backend, config.default_model_filename = last, f"model.{last}"


def _has_inputs(config: Message) -> bool:
    return bool(config.input or config.batch_input)


def _complete_tensors(config: Message, file: OnnxFile, max_batch_size: int) -> None:
    """Fill in inputs, outputs and batching from a model's file."""
    if file.batches:
        config.max_batch_size = config.max_batch_size or max(max_batch_size, 0)
        if config.max_batch_size > 1 and config.WhichOneof("scheduling_choice") is None:
            config.dynamic_batching.SetInParent()
    if not _has_inputs(config):
        for one in file.inputs:
            _add_tensor(config.input.add(), one, config.max_batch_size)
    if not config.output:
        for one in file.outputs:
            _add_tensor(config.output.add(), one, config.max_batch_size)


def _add_tensor(tensor: Message, found: FileTensor, max_batch_size: int) -> None:
    tensor.name, tensor.data_type = found.name, found.data_type
    dims = (found.dims or ())[1 if max_batch_size > 0 else 0 :]
    tensor.dims.extend(dims or (1,))
    if not dims and max_batch_size > 0:
        tensor.reshape.SetInParent()


def normalize(config: Message) -> None:
    """Fill in what follows from the rest; of what has been filled in already nothing changes."""
    if config.version_policy.WhichOneof("policy_choice") is None:
        config.version_policy.latest.num_versions = 1
    largest = [config.max_batch_size] if config.max_batch_size > 0 else []
    match config.WhichOneof("scheduling_choice"):
        case "dynamic_batching":
            batching = config.dynamic_batching
            batching.preferred_batch_size.extend([] if batching.preferred_batch_size else largest)
        case "sequence_batching":
            batching = config.sequence_batching
            batching.max_sequence_idle_microseconds = (
                batching.max_sequence_idle_microseconds or _IDLE
            )
            if batching.HasField("oldest") and not batching.oldest.preferred_batch_size:
                batching.oldest.preferred_batch_size.extend(largest)
        case _:
            pass
    if config.HasField("ensemble_scheduling"):
        config.model_transaction_policy.SetInParent()  # `settle_decoupled` knows the members
    else:
        for name in ("input_pinned_memory", "output_pinned_memory"):
            if not config.optimization.HasField(name):
                getattr(config.optimization, name).enable = True


def _complete_instances(config: Message, gpus: tuple[int, ...]) -> None:
    """Give each group of instances a name, a kind, a count and, of GPUs, which."""
    if not config.instance_group:
        config.instance_group.add(name=config.name)
    kinds = config.instance_group[0]
    for number, group in enumerate(config.instance_group):
        group.name = group.name or f"{config.name}_{number}"
        if group.kind == kinds.KIND_AUTO:
            there = bool(gpus) and all(one in gpus for one in group.gpus)
            group.kind = kinds.KIND_GPU if there else kinds.KIND_CPU
        if group.count < 1:
            two = config.backend in ("tensorflow", ONNX) and group.kind == kinds.KIND_CPU
            group.count = 2 if two else 1
        if group.kind == kinds.KIND_GPU and not group.gpus:
            group.gpus.extend(gpus)
