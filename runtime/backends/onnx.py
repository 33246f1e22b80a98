"""ONNX segments: one session per model, device and share of the cores."""

from ...compiler.plan import ModelSegment
from ..backend import Backend, Loading
from ..devices.host import HostDevice
from ..division import Share
from ..instance import ModelStage
from ..load_error import LoadError
from ..onnx_session import OnnxSession
from ..stage import policy_of


def open_onnx(segment: ModelSegment, index: int, share: Share, loading: Loading) -> ModelStage:
    """Return the stage of a model; raises LoadError where this machine cannot run it."""
    key = ("onnx", segment.model, segment.output_names, segment.device, share, loading.tensorrt)

    try:
        device = loading.device(segment.device)

        def session() -> OnnxSession:
            return OnnxSession(
                loading.blobs[segment.model],
                segment.output_names,
                device,
                share,
                tensorrt=loading.tensorrt,
            )

        opened = loading.shared(key, session, by_plans=isinstance(device, HostDevice))
    except LoadError as error:
        message = f"stage `{segment.name}`, {segment.place}: {error.message}"
        raise LoadError(error.code, message, error.help) from error
    return ModelStage(segment, opened, device, policy_of(segment), index)


BACKEND = Backend(open_onnx, ("onnx",))
