"""Backends that are ONNX Runtime: one session per model, device and share of the cores."""

from ..compiler.plan import ModelSegment
from .backend import Backend, Loading
from .devices.host import HostDevice
from .division import Share
from .instance import ModelStage
from .load_error import NO_BACKEND, LoadError
from .onnx_graphs import GraphSession
from .onnx_session import OnnxSession
from .shapes import is_fixed
from .stage import policy_of


def onnx_backend(engine: str = "") -> Backend:
    """Return the backend that gives models to an `engine` of ONNX Runtime's; "" is what the plan's
    devices and the server's settings say."""

    def open_model(segment: ModelSegment, index: int, share: Share, loading: Loading) -> ModelStage:
        tensorrt, limit = loading.tensorrt, loading.budgets.get(segment.device)
        most = len(segment.service.warmup) if segment.service.graphs else 0
        alike = alike_in_size(segment)
        what = (segment.model, segment.output_names, segment.device, share, tensorrt, limit, most)
        try:
            device = loading.device(segment.device)

            if most and (tensorrt or engine):
                message = "CUDA graphs are of what CUDA runs, and this stage is TensorRT's"
                raise LoadError(NO_BACKEND, message, "leave out `graphs`, or `--tensorrt`")

            def session() -> OnnxSession | GraphSession:
                content, names = loading.blobs[segment.model], segment.output_names
                opened = OnnxSession(
                    content,
                    names,
                    device,
                    share,
                    tensorrt=tensorrt,
                    engine=engine,
                    limit=limit,
                    graphs=most > 0,
                    alike=alike,
                )
                return GraphSession(opened, device, most) if most else opened

            key = ("onnx", engine, alike, *what)
            opened = loading.shared(key, session, by_plans=isinstance(device, HostDevice))
        except LoadError as error:
            message = f"stage `{segment.name}`, {segment.place}: {error.message}"
            raise LoadError(error.code, message, error.help) from error
        return ModelStage(segment, opened, device, policy_of(segment), index)

    return Backend(open_model, ("onnx",))


def alike_in_size(segment: ModelSegment) -> bool:
    """Whether all runs of a stage have inputs of one size but for their number of rows."""
    return all(is_fixed(field.type) for field in segment.signature.params)
