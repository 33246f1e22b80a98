"""Extension: a pipeline's configuration, as those of Triton's models are told."""

from typing import Any

from ...access import Access, Caller
from ...service import Service
from ..configuration import model_config
from ..operation import Arguments, Operation, of_model, text

NAMES = ("model_configuration",)


def _config(service: Service, asked: Arguments, _: Caller) -> Any:  # Any: JSON
    return model_config(service.find(text(asked, "name"), text(asked, "version")))


OPERATIONS = (
    Operation(
        "ModelConfig",
        Access.READ,
        "A model's configuration",
        of_model("GET", "/config"),
        _config,
        gives=lambda config: {"config": config},
    ),
)
