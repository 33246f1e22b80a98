"""Which parts of ONNX Runtime run a model on a device, and with which options.

Nothing falls back: a node that the device's provider does not take is an error that names it.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from .load_error import BAD_MODEL, NO_DEVICE, NO_RUNTIME, LoadError
from .onnx_library import reason, unloadable

Option: TypeAlias = "int | str"
Provider: TypeAlias = "str | tuple[str, dict[str, Option]]"

CPU: Final = "CPUExecutionProvider"
_ENGINES: Final = {
    "tensorrt": "TensorrtExecutionProvider",
    "tensorrt_rtx": "NvTensorRTRTXExecutionProvider",
}
_NAMED: Final = 5  # nodes that an error lists


def choose_providers(
    available: Sequence[str],
    device: str,
    tensorrt: bool,
    stream: int | None = None,
    *,
    engine: str = "",
    limit: int | None = None,
    graphs: bool = False,
) -> list[Provider]:
    """Return the execution providers for a device, the first choice first, never one more. They run
    on the CUDA `stream` at that address where there is one; what CUDA takes for a session grows by
    what is asked for, up to `limit` bytes. With `graphs` its runs may be captured.

    Raises LoadError where this ONNX Runtime lacks one of them.
    """
    kind, _, index = device.partition(":")
    if kind != "gpu":
        if engine:
            message = f"`onnx_{engine}` runs models on GPUs, and this one is on {device}"
            raise LoadError(NO_DEVICE, message, "add `device = gpu(0)` to the stage's settings")
        return [CPU]
    place: dict[str, Option] = {"device_id": int(index or 0)}
    if stream is not None:
        place["user_compute_stream"] = str(stream)
    arena: dict[str, Option] = {"arena_extend_strategy": "kSameAsRequested"}
    if limit is not None:
        arena["gpu_mem_limit"] = limit
    if graphs:
        arena["enable_cuda_graph"] = 1
    # TF32 has another rounding than what the same model has elsewhere
    cuda = ("CUDAExecutionProvider", {**place, **arena, "use_tf32": 0})
    engine = engine or ("tensorrt" if tensorrt else "")
    chosen = [(_ENGINES[engine], place), cuda] if engine else [cuda]
    for name, _ in chosen:
        if name not in available:
            raise _lacking(name, device, engine)
    return [*chosen]


def _lacking(provider: str, device: str, engine: str) -> LoadError:
    extra = "gpu,tensorrt" if engine == "tensorrt" else "gpu"
    return LoadError(
        NO_RUNTIME,
        f"the plan asks for {device}, and this ONNX Runtime has no {provider}",
        f"pip uninstall onnxruntime, then pip install 'headrace[{extra}]'"
        if engine != "tensorrt_rtx"
        else "install a build of ONNX Runtime for TensorRT RTX",
    )


# Any: an untyped module and what it makes, here and below
def open_session(runtime: Any, model: bytes, options: Any, providers: Sequence[Provider]) -> Any:
    """Return a session in which nothing is placed elsewhere; raises LoadError saying why not."""
    wanted = [one if isinstance(one, str) else one[0] for one in providers]
    if wanted[0] != CPU:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    try:
        # with fallback it would try other providers, here and in a run that has failed
        session = runtime.InferenceSession(
            model, options, providers=[*providers], enable_fallback=0
        )
    except Exception as error:
        for provider in wanted:
            if (why := unloadable(runtime, provider)) is not None:
                message = f"ONNX Runtime's {provider} does not load on this machine: {why}"
                raise LoadError(NO_RUNTIME, message, _CURE) from error
        said = reason(error)
        if wanted[0] != CPU and "default CPU EP" in said:
            said = _left_over(runtime, model, providers) or said
        raise LoadError(BAD_MODEL, f"ONNX Runtime does not load the model: {said}") from error
    opened = session.get_providers()
    if opened[: len(wanted)] != wanted:
        message = f"ONNX Runtime opened {', '.join(opened)} for {', '.join(wanted)}"
        raise LoadError(NO_RUNTIME, message, _CURE)
    return session


_CURE: Final = (
    "install the GPU's driver, and CUDA and cuDNN for this ONNX Runtime: headrace[gpu] brings them"
)


def _left_over(runtime: Any, model: bytes, providers: Sequence[Provider]) -> str | None:
    """Return what is said of the nodes that the providers leave to the processor; None where this
    ONNX Runtime (before 1.24) cannot tell."""
    if not hasattr(runtime, "OrtEpAssignedNode"):
        return None
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        session = runtime.InferenceSession(model, options, providers=[*providers])
    except Exception:  # then what it said at first is all that is known
        return None
    nodes = nodes_on(session, CPU)
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return f"nothing on the device runs {', '.join(nodes[:_NAMED])}{more}" if nodes else None


def nodes_on(session: Any, provider: str) -> list[str]:
    """Return the nodes that a session has placed on a provider, each as `name (operator)`. It was
    opened with `session.record_ep_graph_assignment_info`."""
    return [
        f"`{node.name}` ({node.op_type})"
        for part in session.get_provider_graph_assignment_info()
        if part.ep_name == provider
        for node in part.get_nodes()
    ]
