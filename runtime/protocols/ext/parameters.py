"""Extension: free parameters of a request, which stages may read."""

from ..parameters import Parameters

NAMES = ("parameters",)

_OURS = frozenset({"timeout", "priority", "sequence_id", "sequence_start", "sequence_end"})


def free_parameters(parameters: Parameters) -> Parameters:
    """Return what the protocol itself has no use for."""
    return {name: value for name, value in parameters.items() if name not in _OURS}
