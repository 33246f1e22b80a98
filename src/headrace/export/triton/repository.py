"""All files of a repository.

Fused models are models of it. A pipeline that only runs these, one after the other, is an ensemble;
every other is a model of the Python backend that carries the rest of the plan and calls them.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from ...compiler import plan_file
from ...compiler.plan import ModelSegment, PipelinePlan, Plan
from ...compiler.plan_walk import segments_of
from ...dsl.types import DType
from ...runtime.protocols.configuration import model_config
from ...runtime.protocols.forms import NoForm
from ...runtime.protocols.models import Model, model_of
from ...triton.config_write import write
from ..target import Export, ExportError, Subject
from .config import Json, message_of
from .ensemble import ensemble_config, why_not
from .light import ONNX_FILE, PLAN_FILE, carried, lighten
from .model_file import model_file
from .pages import Entry, readme, requirements
from .stages import Models, kept_back, left_out, stage_config

_MODEL = '''"""Pipeline `{name}`: control flow and what runs in Python. Its models are beside it."""

from headrace.export.triton.serve import TritonPythonModel

__all__ = ["TritonPythonModel"]
'''
_VERSION = "1"
_SEQUENCES = 4096
"""How many live at once where nothing is said, as on a server of ours; Triton takes none for 0."""


def make(subject: Subject) -> Export:
    """Return the repository; raises ExportError where a value of a pipeline cannot travel."""
    plan, python = subject.plan, subject.options["onnx"] == "python"
    instances = _count(subject.options["instances"])
    pipelines = [_model(plan, pipeline) for pipeline in plan.pipelines]
    reasons = {model.name: why_not(model) for model in pipelines}
    models, configs = Models(plan), dict[str, Json]()
    for model in pipelines:
        if reasons[model.name] is None:
            configs[model.name] = ensemble_config(model, models)
        else:
            configs[model.name] = _bls_config(model, instances)
            for number in segments_of(model.pipeline.body):
                models.serve(number)
    configs |= {one.name: stage_config(one, python=python) for one in models}
    light = lighten(plan, models, restorable=False)
    plans = {name: carried(light, name) for name, reason in reasons.items() if reason is not None}
    entries = [_entry(model.name, reasons[model.name]) for model in pipelines]
    notes = [note for model in pipelines for note in _left_out(model, reasons[model.name])]
    notes += [note for one in models for note in left_out(one, python=python)]
    notes += [
        f"`{one.name}` runs in the BLS models that need it, on the CPU: {reason}"
        for one in plan.segments
        if isinstance(one, ModelSegment) and (reason := kept_back(one)) is not None
    ]
    contents = _contents(pipelines, plans) | _stages(plan, models, python=python)
    for name, config in configs.items():
        contents[f"{name}/config.pbtxt"] = write(message_of(config)).encode()
    contents[PLAN_FILE] = plan_file.to_bytes(lighten(plan, models))
    contents["README.md"] = readme(subject.name, entries, models, notes, python=python).encode()
    if needed := requirements(plans.values(), python=python):
        contents["requirements.txt"] = needed.encode()
    said = [f"{one.name}: {one.kind}: {one.why}" for one in entries]
    return Export(contents, (*said, *dict.fromkeys(notes)))


def _contents(pipelines: Sequence[Model], plans: Mapping[str, Plan]) -> dict[str, bytes]:
    """Return what is in the folders of the versions of pipelines."""
    found: dict[str, bytes] = {}
    for model in pipelines:
        folder = f"{model.name}/{_VERSION}"
        if model.name not in plans:
            found[f"{folder}/.keep"] = b""  # a version is a folder
            continue
        found[f"{folder}/model.py"] = _MODEL.format(name=model.name).encode()
        found[f"{folder}/{PLAN_FILE}"] = plan_file.to_bytes(plans[model.name])
    return found


def _stages(plan: Plan, models: Models, *, python: bool) -> dict[str, bytes]:
    """Return what is in the folders of the versions of models."""
    blobs, found = dict(plan.blobs), dict[str, bytes]()
    for served in models:
        folder = f"{served.name}/{_VERSION}"
        found[f"{folder}/{ONNX_FILE}"] = model_file(served, blobs[served.segment.model])
        if python:
            source = files(__spec__.parent).joinpath("onnx_model.py")
            found[f"{folder}/model.py"] = source.read_bytes()
    return found


def _model(plan: Plan, pipeline: PipelinePlan) -> Model:
    try:
        model = model_of(plan, pipeline, _VERSION)
    except NoForm as error:
        raise ExportError(str(error)) from error
    for form in (*model.inputs.values(), *model.outputs.values()):
        if form.datatype.name == "BF16":
            raise ExportError(
                f"pipeline `{model.name}`: `{form.name}` is {DType.BF16.value}, which Triton's "
                "Python backend does not have",
                "convert it to f32 in the pipeline",
            )
    return model


def _bls_config(model: Model, instances: int) -> Json:
    pipeline = model.pipeline
    count = 1 if pipeline.idle is not None else instances  # its states are in one process
    config: Json = model_config(model) | {
        "backend": "python",
        "instance_group": [{"kind": "KIND_CPU", "count": count}],
    }
    del config["platform"], config["version_policy"]
    config.pop("dynamic_batching", None)  # rows meet in front of its models
    if pipeline.idle is not None:
        said = pipeline.sequencing
        most = said.most if said is not None and said.most is not None else _SEQUENCES
        config["sequence_batching"] = {
            "max_sequence_idle_microseconds": round(pipeline.idle * 1e6),
            "oldest": {"max_candidate_sequences": most},
        }  # nothing of their states: the plan keeps them
    if pipeline.batch is not None and pipeline.idle is None:
        config["dynamic_batching"] = {}  # so that an instance is given more than one request
    return config


def _left_out(model: Model, reason: str | None) -> Iterator[str]:
    """Yield what a schedule says of a pipeline and Triton cannot be told."""
    pipeline = model.pipeline
    if pipeline.queueing is not None:
        yield f"`{model.name}` has no bound of its queue"
    if pipeline.priority is not None and reason is not None:
        yield f"`{model.name}` does not know the priority of a request, nor do models that it calls"
    if pipeline.sequencing is not None and pipeline.sequencing.backlog is not None:
        yield f"`{model.name}` lets any number of sequences wait"


def _entry(name: str, reason: str | None) -> Entry:
    if reason is None:
        return Entry(name, "an ensemble", "it runs models one after the other, and nothing else")
    return Entry(name, "a BLS model", reason)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 256:
        raise ExportError(f"`--instances {text}`: a number from 1 to 256 is wanted")
    return int(text)
