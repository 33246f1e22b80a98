"""A scene to SVG: Graphviz lays it out and draws it, here is only how things look.

The same scene gives the same bytes with the same Graphviz and fonts. Text of sources is never
markup: it is escaped on the way in, and what comes out is written anew from its tree.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final
from xml.etree import ElementTree

from ..stage_settings import CPU
from .columns import columns
from .scene import Card, Frame, Item, Look, Scene, Wire

SVG: Final = "http://www.w3.org/2000/svg"
_FONT: Final = "Helvetica,Arial,sans-serif"
_INK, _FAINT, _LINE, _AWAY = "#1f2933", "#52606d", "#7b8794", "#b8004e"


@dataclass(frozen=True, slots=True)
class _Style:
    shape: str
    fill: str
    line: str = _LINE


_STYLES: Final[Mapping[Look, _Style]] = {
    Look.INPUT: _Style("box", "#e3f9e5", "#3f9142"),
    Look.OUTPUT: _Style("box", "#e3f9e5", "#3f9142"),
    Look.OP: _Style("box", "#ffffff"),
    Look.MODEL: _Style("box", "#dceefb", "#2680c2"),
    Look.FUNCTION: _Style("box", "#fff3c4", "#cb6e17"),
    Look.COPY: _Style("cds", "#ffe3ec", "#b8004e"),
    Look.CHECK: _Style("note", "#f5f7fa"),
    Look.ENTER: _Style("box", "#e4e7eb"),
    Look.LEAVE: _Style("box", "#e4e7eb"),
    Look.PLAIN: _Style("plaintext", "none"),
}
_NOT_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SHADES: Final = ("#fbfcfd", "#f0f4f8", "#fbfcfd", "#f0f4f8")  # of frames within frames


def svg(scene: Scene) -> bytes:
    """Return the picture as one SVG file; raises ImportError without the extra `graph`."""
    drawing = _Drawing()
    column: dict[Card, int] = {}
    for frame in scene.frames:
        drawing.add(frame, drawing.graph, 0)
        column.update(columns(frame, scene.wires))
    for wire in scene.wires:
        drawing.wire(wire, below=column[wire.source] == column[wire.target])
    return drawing.finish(scene.title)


class _Drawing:
    def __init__(self) -> None:
        from pygraphviz import AGraph

        # Any: pygraphviz has no types
        self.graph: Any = AGraph(directed=True, strict=False)
        self.graph.graph_attr.update(
            rankdir="TB", ranksep="0.28", nodesep="0.22", fontname=_FONT, bgcolor="white",
            labeljust="l", pad="0.2",
        )  # fmt: skip
        self.graph.node_attr.update(
            fontname=_FONT, fontsize="12", fontcolor=_INK, margin="0.1,0.04"
        )
        self.graph.edge_attr.update(color=_LINE, arrowsize="0.6")
        self.names: dict[Card, str] = {}
        self.details: dict[str, str] = {}

    def add(self, item: Item, parent: Any, depth: int) -> None:  # Any: as above
        name = f"item{len(self.details)}"
        if isinstance(item, Frame):
            self.details[name] = item.details or item.title
            inner = parent.add_subgraph(
                name=f"cluster_{name}", id=name, label=_label(item.title, item.lines, "LEFT"),
                margin="10", style="rounded,filled", fillcolor=_SHADES[depth % len(_SHADES)],
                color=_LINE, fontsize="12", fontcolor=_INK,
            )  # fmt: skip
            for one in item.items:
                self.add(one, inner, depth + 1)
            return
        style = _STYLES[item.look]
        self.names[item] = name
        self.details[name] = "\n".join(filter(None, (item.title, *item.lines, item.details)))
        parent.add_node(
            name, id=name, label=_label(item.title, item.lines, "CENTER", item.device),
            shape=style.shape, style="rounded,filled" if style.shape == "box" else "filled",
            height="0.3",
            fillcolor=style.fill, color=style.line, penwidth="2.5" if item.batches else "1",
            peripheries="2" if item.batches else "1",
        )  # fmt: skip

    def wire(self, wire: Wire, *, below: bool) -> None:
        """Draw a wire; with `below` its target stands below its source."""
        name = f"wire{len(self.details)}"
        self.details[name] = "\n".join(filter(None, wire.texts))
        self.graph.add_edge(
            self.names[wire.source], self.names[wire.target], key=name, id=name,
            style="solid" if wire.texts else "dashed", constraint="true" if below else "false",
        )  # fmt: skip

    def finish(self, title: str) -> bytes:
        drawn: bytes = self.graph.draw(format="svg", prog="dot")
        self.graph.close()
        ElementTree.register_namespace("", SVG)
        root = ElementTree.fromstring(drawn)
        for group in root.iter(f"{{{SVG}}}g"):
            found = group.find(f"{{{SVG}}}title")
            if found is not None:
                name = group.get("id", "")
                found.text = _clean(self.details.get(name, title))
        return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _label(title: str, lines: tuple[str, ...], align: str, device: str = "") -> str:
    """Return Graphviz's own markup for a title with small lines below and a device beside it."""
    colour = _FAINT if device == CPU else _AWAY
    beside = f" {_small(device, colour)}" if device else ""
    cells = [f"<B>{_text(title)}</B>{beside}", *(_small(line, _FAINT) for line in lines)]
    rows = "".join(f'<TR><TD ALIGN="{align}">{cell}</TD></TR>' for cell in cells)
    table = '<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">'
    return f"<{table}{rows}</TABLE>>"


def _small(text: str, colour: str) -> str:
    return f'<FONT POINT-SIZE="9" COLOR="{colour}">{_text(text)}</FONT>'


def _text(text: str) -> str:
    return escape(_clean(text)) or " "


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
