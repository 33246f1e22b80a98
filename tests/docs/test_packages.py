"""What packages say of their modules is complete."""

import importlib
import re
from pkgutil import iter_modules

import pytest

PACKAGES = (
    "headrace.dsl",
    "headrace.stdlib",
    "headrace.compiler",
    "headrace.compiler.lower",
    "headrace.compiler.passes",
    "headrace.compiler.pictures",
    "headrace.runtime",
    "headrace.runtime.backends",
    "headrace.runtime.devices",
    "headrace.runtime.devices.simulation",
    "headrace.runtime.grpc",
    "headrace.runtime.page",
    "headrace.runtime.protocols",
    "headrace.runtime.protocols.ext",
    "headrace.runtime.repository",
    "headrace.client",
    "headrace.doctor",
    "headrace.export",
    "headrace.export.jetson",
    "headrace.export.targets",
    "headrace.export.triton",
    "headrace.stubs",
)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_docstring_of_a_package_names_each_of_its_modules(name: str) -> None:
    package = importlib.import_module(name)
    named = set(re.findall(r"\w+", package.__doc__ or ""))
    assert named >= {module.name for module in iter_modules(package.__path__)}
