"""Generated kernels: chains of ops on a device, one launch each."""

from ...compiler.kernel_file import read
from ...compiler.plan import ModelSegment
from ..backend import Backend, Loading
from ..division import Share
from ..instance import ModelStage
from ..kernels.session import HostSession, ResidentSession, open_session
from ..load_error import BAD_MODEL, LoadError
from ..stage import policy_of


def open_kernel(segment: ModelSegment, index: int, _share: Share, loading: Loading) -> ModelStage:
    """Return the stage of a kernel; raises LoadError where it cannot be built for its device."""
    try:
        device = loading.device(segment.device)

        def session() -> HostSession | ResidentSession:
            kernel = read(loading.blobs[segment.model])
            return open_session(kernel, segment.input_names, device, loading.engines)

        opened = loading.shared(("kernel", segment.model, segment.device), session)
    except (LoadError, ValueError) as error:
        refused = error if isinstance(error, LoadError) else LoadError(BAD_MODEL, str(error))
        message = f"stage `{segment.name}`, {segment.place}: {refused.message}"
        raise LoadError(refused.code, message, refused.help) from error
    return ModelStage(segment, opened, device, policy_of(segment), index)


BACKEND = Backend(open_kernel, ("kernel",))
