"""What the schedule says of a node: fused stages keep the settings of what went into them."""

from dataclasses import fields

from .graph import FunctionCall, Graph, ModelCall, Node, StageSettings
from .plan import ON_DEVICES

CPU = "cpu"


def settings_of(graph: Graph, node: Node) -> StageSettings:
    """Return the settings of a model or function call, those of its fused members put together."""
    names = dict.fromkeys((node.stage, *members_of(graph, node)))
    given = [found for name in names if (found := graph.settings.stage(name)) != StageSettings()]
    if len(given) <= 1:
        return given[0] if given else StageSettings()
    merged: dict[str, object] = {}
    for field in fields(StageSettings):
        said = {value for one in given if (value := getattr(one, field.name)) != field.default}
        if len(said) > 1:
            raise AssertionError(f"{node.stage}: stages of different `{field.name}` were fused")
        merged[field.name] = said.pop() if said else field.default
    return StageSettings(**merged)  # pyright: ignore[reportArgumentType] - by field name


def members_of(graph: Graph, node: Node) -> tuple[str, ...]:
    """Return the stages that run as this node, in order of execution."""
    match node.kind:
        case ModelCall(model=name):
            return graph.model(name).members or (node.stage,)
        case _:
            return (node.stage,)


def device_of(graph: Graph, node: Node) -> str:
    """Return where a node runs: models where the schedule says, all else on the CPU.

    What is not run by ONNX Runtime takes its values from the host's memory, whatever it does with
    them.
    """
    match node.kind:
        case ModelCall(model=name) if graph.model(name).backend == "python":
            return CPU
        case ModelCall() if backend_of(graph, node) not in ON_DEVICES:
            return CPU
        case ModelCall():
            return settings_of(graph, node).device or graph.settings.device or CPU
        case _:
            return CPU


def backend_of(graph: Graph, node: Node) -> str:
    """Return what runs a model: that of its kind, or what the schedule says."""
    match node.kind:
        case ModelCall(model=name):
            return settings_of(graph, node).backend or graph.model(name).backend
        case FunctionCall(function=name):
            return graph.function(name).kind
        case _:
            raise AssertionError(f"`{node.stage}` is no segment of its own")


def calls_out(node: Node) -> bool:
    """Whether the node runs a model or a function, which may have a queue of its own."""
    return isinstance(node.kind, ModelCall | FunctionCall)
