"""What a package needs that offers a backend: see docs/backends.md and examples/backend."""

from .runtime.backend import Backend
from .runtime.load_error import BAD_MODEL, NO_DEVICE, NO_RUNTIME, OTHER_MODEL, LoadError
from .runtime.model_backend import Model, Port, Session, Spares, library, model_backend, pair
from .runtime.model_folder import is_folder, unpacked
from .runtime.session import SessionFor

__all__ = [
    "BAD_MODEL",
    "NO_DEVICE",
    "NO_RUNTIME",
    "OTHER_MODEL",
    "Backend",
    "LoadError",
    "Model",
    "Port",
    "Session",
    "SessionFor",
    "Spares",
    "is_folder",
    "library",
    "model_backend",
    "pair",
    "unpacked",
]
