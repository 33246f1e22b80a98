"""How outputs are to be sent: what a request says of each, for both protocols."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ..extras import NO_EXTRAS, Extras
from ..regions import Place
from ..request import RequestError
from .ext.classification import classified
from .models import Model
from .names import shown
from .raw import raw_buffer
from .results import WireTensor


class Delivery(NamedTuple):
    """`binary` says whether an output goes behind the JSON of an HTTP body, None where nothing is
    said; `classes` how many of the highest values are wanted in its place; `place` where it is to
    be put."""

    binary: bool | None = None
    classes: int = 0
    place: Place | None = None


class Deliveries:
    """What was asked of outputs one by one, and of all of them (`binary`)."""

    __slots__ = ("_extras", "asked", "binary")

    def __init__(
        self,
        binary: bool = False,
        asked: Mapping[str, Delivery] | None = None,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self.binary, self.asked, self._extras = binary, asked, extras

    def of(self, tensor: str, result: str) -> Delivery:
        """Return what holds for a tensor; those of a ragged result follow its own name."""
        asked = self.asked or {}
        found = asked.get(tensor) or asked.get(result) or Delivery()
        return found._replace(binary=self.binary) if found.binary is None else found

    def classify(self, model: Model, tensor: WireTensor, delivery: Delivery) -> WireTensor:
        """Return the tensor, or the highest values in its place where they were asked for."""
        if not delivery.classes:
            return tensor
        labels = self._extras.labels.get(model.name, {}).get(tensor.name, ())
        if not labels and model.described is not None:
            labels = model.described.labels.get(tensor.name, ())
        batched = model.pipeline.batch is not None
        return classified(tensor, delivery.classes, labels, batched)

    def refuse_places(self) -> None:
        """Refuse to put outputs anywhere, of what answers more than once: the next one would be
        where nobody has read the last."""
        for name, delivery in (self.asked or {}).items():
            if delivery.place is not None:
                raise RequestError(
                    f"output {shown(name)} comes more than once, and cannot be put in shared memory"
                )

    def place(self, tensor: WireTensor, place: Place) -> Mapping[str, str | int]:
        """Put a tensor where it was asked for, and return the parameters that say so."""
        content = raw_buffer(tensor.flat)
        self._extras.lent().write(place, content)
        return {
            "shared_memory_region": place.region,
            "shared_memory_offset": place.offset,
            "shared_memory_byte_size": len(content),
        }


PLAIN: Final = Deliveries()
"""Everything as it always is."""
