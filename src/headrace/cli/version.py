"""`headrace version`: versions of everything that decides a result."""

import platform
from argparse import ArgumentParser, Namespace
from importlib.metadata import PackageNotFoundError, version

from ..version import VERSION
from .command import Command, Exit
from .console import Console

PACKAGES = (
    *("onnxruntime", "onnxruntime-gpu", "onnx", "numpy", "opencv-python-headless", "cupy-cuda13x"),
    *("tensorrt-cu13", "grpcio", "pygrpc-native", "uvicorn", "lark", "networkx"),
)


def _arguments(parser: ArgumentParser) -> None:
    del parser  # it takes none


def _run(arguments: Namespace, console: Console) -> Exit:
    del arguments
    lines = [("headrace", VERSION), ("python", platform.python_version())]
    lines += [(name, _installed(name)) for name in PACKAGES]
    width = max(len(name) for name, _ in lines)
    for name, found in lines:
        console.print(f"{name:{width}}  {found}")
    return Exit.GOOD


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


COMMAND = Command(
    "version",
    "print versions of headrace and of what it runs on",
    "A dash stands for what is not installed.",
    _arguments,
    _run,
)
