"""What a server and its models say of themselves, as JSON values."""

from collections.abc import Mapping, Sequence
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
    if model.described is not None:
        return _as_described(model, model.described.config, versions)
    return {
        "name": model.name,
        "versions": list(versions) or [model.version],
        "platform": PLATFORM,
        "inputs": [_tensor(t) for form in model.inputs.values() for t in form.metadata()],
        "outputs": [_tensor(t) for form in model.outputs.values() for t in form.metadata()],
    }


def _as_described(
    model: Model,
    config: Mapping[str, Any],  # Any: JSON
    versions: Sequence[str],
) -> dict[str, Any]:
    """Return what a configuration says of tensors: the batch axis is in front of its `dims`."""
    front = [-1] if config["max_batch_size"] > 0 else []

    def tensors(field: str) -> list[dict[str, Any]]:
        return [
            {
                "name": one["name"],
                "datatype": one["data_type"].removeprefix("TYPE_").replace("STRING", "BYTES"),
                "shape": [*front, *one["dims"]],
            }
            for one in config[field]
        ]

    return {
        "name": model.name,
        "versions": list(versions) or [model.version],
        "platform": config["platform"] or config["backend"],
        "inputs": tensors("input"),
        "outputs": tensors("output"),
    }


def _tensor(tensor: TensorMetadata) -> dict[str, Any]:  # Any: JSON
    return {
        "name": tensor.name,
        "datatype": tensor.datatype.name,
        "shape": list(tensor.shape),
    }
