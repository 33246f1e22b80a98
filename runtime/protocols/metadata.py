"""What a server and its models say of themselves, as JSON values."""

from collections.abc import Sequence
from typing import Any

from .forms import TensorMetadata
from .models import Model

SERVER_NAME = "headrace"
PLATFORM = "headrace"


def server_metadata(name: str, version: str, names: Sequence[str]) -> dict[str, Any]:  # Any: JSON
    """Return the server's name, version and the names of the extensions that it serves."""
    return {"name": name, "version": version, "extensions": list(names)}


def model_metadata(model: Model, versions: Sequence[str] = ()) -> dict[str, Any]:  # Any: JSON
    """Return a model's tensors, the batch axis included; -1 is any size. `versions` are all that
    are served, where there are others."""
    return {
        "name": model.name,
        "versions": list(versions) or [model.version],
        "platform": PLATFORM,
        "inputs": [_tensor(t) for form in model.inputs.values() for t in form.metadata()],
        "outputs": [_tensor(t) for form in model.outputs.values() for t in form.metadata()],
    }


def _tensor(tensor: TensorMetadata) -> dict[str, Any]:  # Any: JSON
    return {
        "name": tensor.name,
        "datatype": tensor.datatype.name,
        "shape": list(tensor.shape),
    }
