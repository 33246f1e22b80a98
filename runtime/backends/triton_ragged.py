"""ONNX models of a Triton repository that take rows of different sizes in one line.

A plan has the version's folder and the `config.pbtxt` beside it, which says what is gathered how.
"""

from contextlib import ExitStack

from ...compiler.plan import ModelSegment
from ..backend import Backend, Loading
from ..devices.host import HostDevice
from ..division import Share
from ..load_error import LoadError
from ..model_folder import unpacked
from ..onnx_session import OnnxSession
from ..stage import policy_of
from ..triton_python.config import read_config
from ..triton_ragged import RaggedStage, gathering_of


def open_model(segment: ModelSegment, index: int, share: Share, loading: Loading) -> RaggedStage:
    """Return the stage of a model; raises LoadError."""
    names = segment.output_names
    try:
        with ExitStack() as closing:
            folder = closing.enter_context(unpacked(loading.blobs[segment.model]))
            gathering = gathering_of(read_config(folder, segment.name))
            content = (folder / segment.entry).read_bytes()
        session = loading.shared(
            ("ragged", segment.model, segment.entry, names, share),
            lambda: OnnxSession(content, names, HostDevice(), share),
            by_plans=True,
        )
    except LoadError as error:
        message = f"stage `{segment.name}`, {segment.place}: {error.message}"
        raise LoadError(error.code, message, error.help) from error
    return RaggedStage(segment, session, policy_of(segment), index, gathering)


BACKEND = Backend(open_model, ("triton_ragged",))
