"""How ops are found by name."""

import subprocess
import sys

import pytest

from headrace.stdlib.catalog import load_catalog

CATALOG = load_catalog()


def test_every_family_of_the_folder_is_listed() -> None:
    assert CATALOG.families == ("audio", "core", "image", "math", "nn", "text")


def test_ops_of_core_are_found_bare() -> None:
    assert CATALOG.find(None, "cast") is CATALOG.op("core.cast")
    assert CATALOG.find("core", "cast") is CATALOG.op("cast")


def test_ops_of_other_families_are_not_found_bare() -> None:
    assert CATALOG.find(None, "resize") is None
    assert CATALOG.find("image", "resize") is CATALOG.op("image.resize")


def test_an_unknown_full_name_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"no op `image\.shrink`"):
        CATALOG.op("image.shrink")


@pytest.mark.parametrize(
    ("family", "wrong", "right"),
    [
        ("image", "rezise", "image.resize"),
        (None, "concatt", "concat"),
        (None, "softmax", "nn.softmax"),
        ("nn", "resize", "image.resize"),
        ("image", "quaternion", None),
    ],
)
def test_a_wrong_name_suggests_the_nearest(
    family: str | None, wrong: str, right: str | None
) -> None:
    assert CATALOG.nearest(family, wrong) == right


def test_a_wrong_family_suggests_the_nearest() -> None:
    assert CATALOG.nearest_family("images") == "image"
    assert CATALOG.nearest_family("zoology") is None


def test_every_operator_of_the_language_has_its_op() -> None:
    for name in (
        *("add", "sub", "mul", "div", "mod", "neg", "matmul"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"),
    ):
        assert CATALOG.find("math", name) is not None


def test_loading_imports_no_library_of_an_extra() -> None:
    code = (
        "import sys; from headrace.stdlib.catalog import load_catalog; load_catalog();"
        "extras = {'cv2', 'imagesize', 'onnx', 'onnxruntime', 'soundfile', 'soxr', 'tokenizers'};"
        "print(extras & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_image_op_without_opencv_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match=r"pip install headrace\[image\]"):
        CATALOG.op("image.decode").reference(b"\xff\xd8", "rgb", True, 10)
