"""Extension: models that answer a request any number of times, and how a caller learns the end."""

from ..frames import in_stream
from ..messages import ModelInferResponse
from ..models import Model
from ..parameters import Parameters, boolean

NAMES: tuple[str, ...] = ()

FINAL = "triton_final_response"
_ASKED = "triton_enable_empty_final_response"


def wants_empty_final(parameters: Parameters) -> bool:
    """Whether a caller asks for a last response without outputs that says that it is the last."""
    return boolean(parameters.get(_ASKED, False), _ASKED)


def one_of_stream(response: bytes, *, final: bool) -> bytes:
    """Return a ModelInferResponse as a message of a stream, marked whether it is the last one."""
    return in_stream(response, _MARKS[final])


def _mark(final: bool) -> bytes:
    return ModelInferResponse(parameters={FINAL: {"bool_param": final}}).SerializeToString()


_MARKS = _mark(False), _mark(True)


def is_decoupled(model: Model) -> bool:
    """Whether a model may answer a request any number of times."""
    return model.pipeline.stream
