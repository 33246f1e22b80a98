"""What a configuration asks for that is not served: told with its place, never left out."""

from collections.abc import Iterable, Iterator

from ...dsl.diagnostic import Diagnostic
from ..complete import ONNX, PYTHON
from ..subject import Subject
from .draft import UNSERVED
from .schedule import ENVIRONMENT, PROVIDERS, accelerators, needs_process

Place = tuple[str | int, ...]

_CUDA = "cuda"  # which runs a model on a GPU anyway


def find_unserved(subject: Subject) -> list[Diagnostic]:
    """Return a mistake for each field that would be left out."""
    found = [*_fields(subject), *_tensors(subject), *_accelerators(subject), *_devices(subject)]
    return [subject.error(UNSERVED, message, *place, help=help) for place, message, help in found]


def _fields(subject: Subject) -> Iterator[tuple[Place, str, str]]:
    config = subject.config
    if config.model_repository_agents.agents:
        message = "agents of a repository are not run"
        yield ("model_repository_agents",), message, "do what it does before, and leave it out"
    if config.model_operations.op_library_filename:
        message = "libraries with operations of their own are not loaded"
        yield ("model_operations",), message, "export the model with operations of the standard"
    if any(config.cc_model_filenames.values()):
        message = "a file for each kind of GPU is not chosen"
        yield ("cc_model_filenames",), message, "write `default_model_filename`"
    for number, step in enumerate(config.ensemble_scheduling.step):
        if step.model_namespace:
            place = ("ensemble_scheduling", "step", number, "model_namespace")
            yield place, "repositories have no names here", "leave it out"


def _tensors(subject: Subject) -> Iterator[tuple[Place, str, str]]:
    config = subject.config
    for field in ("batch_input", "batch_output"):
        for number, _ in enumerate(getattr(config, field)):
            if config.backend not in ("", ONNX, PYTHON):  # which has none of them there either
                message = f"tensors of a batch as a whole are not made for `{config.backend}`"
                yield (field, number), message, "let the model take and give a row for each row"
    rows = config.model_transaction_policy.decoupled and config.max_batch_size > 0
    # What a decoupled model answers is for a request as a whole: its rows are an open size too.
    for field, tensors, most in (("input", config.input, 1), ("output", config.output, 1 - rows)):
        for number, one in enumerate(tensors):
            if list(one.reshape.shape).count(-1) > most:
                message = f"`{one.name}` gets a shape with several open sizes"
                yield (field, number, "reshape"), message, "leave one of them open"
    for number, one in enumerate(config.input):
        if one.optional and one.HasField("reshape") and config.backend != PYTHON:
            message = f"`{one.name}` may be left out, and gets another shape"
            yield ("input", number, "reshape"), message, "give it the `dims` that the model has"
    # A Python model is given each request as it came; without rows there is nothing to gather.
    gathers = config.backend in ("pytorch", "tensorflow", "tensorrt", "openvino")
    gathers = gathers and config.max_batch_size > 0
    for number, one in enumerate(config.input):
        if one.allow_ragged_batch and gathers:
            message = f"rows of `{one.name}` do not follow each other in one line"
            help = "leave it out: requests of other shapes run by themselves"
            yield ("input", number, "allow_ragged_batch"), message, help


def _accelerators(subject: Subject) -> Iterator[tuple[Place, str, str]]:
    for field, number, name in accelerators(subject.config):
        if name not in PROVIDERS and name != _CUDA:
            place = ("optimization", "execution_accelerators", field, number, "name")
            known = " and ".join(f"`{one}`" for one in PROVIDERS)
            yield place, f"there is no accelerator `{name}`", f"there are {known}"


def _devices(subject: Subject) -> Iterator[tuple[Place, str, str]]:
    devices: set[str] = set()
    for number, group in enumerate(subject.config.instance_group):
        if group.secondary_devices:
            place = ("instance_group", number, "secondary_devices")
            yield place, "parts of a model do not run elsewhere", "leave it out"
        devices |= {f"gpu {one}" for one in group.gpus} or {"cpu"}
        if len(devices) > 1:
            listed = " and ".join(sorted(devices))
            message = f"instances on {listed}: a model runs on one device"
            yield ("instance_group", number), message, "let all groups be on one"
            return


def find_isolated(subjects: Iterable[Subject]) -> Iterator[Diagnostic]:
    """Yield a warning for each Python model that keeps its processes where others have none."""
    for subject in subjects:
        if subject.config.backend == PYTHON and needs_process(subject.config):
            yield subject.warning(
                UNSERVED,
                f"`{subject.name}` keeps processes of its own: it has an environment of its own",
                "parameters",
                help=f"without `{ENVIRONMENT}` it runs in the server's process as the others do",
            )
