"""What is in an engine: its layers by kind and dtype, its sizes, what runs on a DLA.

It is read off the network that is built, for which no GPU is needed; the builder fuses layers, so
that there are fewer when it runs.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .build import Request
    from .package import Package


@dataclass(frozen=True, slots=True)
class Report:
    """`layers` and `precision` are counts of layers, by kind and by the dtype they give; `dla` are
    the layers that a DLA takes, `fallbacks` those that go to the GPU instead (kind and name)."""

    stage: str
    library: str
    layers: tuple[tuple[str, int], ...]
    precision: tuple[tuple[str, int], ...]
    profile: tuple[str, ...]
    dla: int | None = None
    fallbacks: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = sum(number for _, number in self.layers)
        kinds = ", ".join(f"{kind} {number}" for kind, number in self.layers)
        precision = ", ".join(f"{dtype} {number}" for dtype, number in self.precision)
        lines = [
            f"{self.stage} · {self.library} · {count} layers",
            f"  layers     {kinds}",
            f"  precision  {precision}",
            *(f"  profile    {one}" for one in self.profile),
        ]
        if self.dla is not None:
            lines.append(
                f"  dla        {self.dla} layers, {len(self.fallbacks)} fall back to the GPU"
            )
            lines += [f"             {one}" for one in self.fallbacks]
        return "\n".join(lines)

    def as_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> "Report":
        """Return a report; raises ValueError, KeyError or TypeError where the text is none."""
        found: dict[str, Any] = json.loads(text)  # Any: as JSON has it
        return Report(
            found["stage"],
            found["library"],
            tuple((str(kind), int(count)) for kind, count in found["layers"]),
            tuple((str(dtype), int(count)) for dtype, count in found["precision"]),
            tuple(map(str, found["profile"])),
            found["dla"],
            tuple(map(str, found["fallbacks"])),
        )


def describe(
    package: "Package",
    network: Any,
    config: Any,
    request: "Request",  # Any: of an untyped module
) -> Report:
    """Return what a network will be, before it is built."""
    kinds: Counter[str] = Counter()
    dtypes: Counter[str] = Counter()
    fallbacks: list[str] = []
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        kinds[_word(layer.type)] += 1
        if layer.num_outputs:
            dtypes[_word(layer.get_output(0).dtype)] += 1
        if request.settings.dla is not None and not config.can_run_on_DLA(layer):
            fallbacks.append(f"{_word(layer.type)} {layer.name}")
    dla = None if request.settings.dla is None else network.num_layers - len(fallbacks)
    return Report(
        request.stage,
        package.title,
        _ranked(kinds),
        _ranked(dtypes),
        tuple(str(one) for one in request.ranges),
        dla,
        tuple(fallbacks),
    )


def _word(member: object) -> str:
    """Return `convolution` of `LayerType.CONVOLUTION`."""
    return str(member).rpartition(".")[2].lower()


def _ranked(counts: "Counter[str]") -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
