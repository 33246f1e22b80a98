"""The pages, the package that the OCR example is compared with, and the example's own modules."""

import io
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_module(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"example_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def render() -> ModuleType:
    """Return examples/ocr/render.py."""
    return load_module(EXAMPLES / "ocr" / "render.py")


@pytest.fixture(scope="session")
def stages() -> ModuleType:
    """Return examples/ocr/ocr.py."""
    return load_module(EXAMPLES / "ocr" / "ocr.py")


def encoded(image: Any, kind: str = "PNG", **options: object) -> bytes:  # Any: Pillow is optional
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def encode() -> Callable[..., bytes]:
    """Return a function that makes an image file of a Pillow image."""
    return encoded


@pytest.fixture(scope="session")
def page(render: ModuleType) -> Callable[[str], bytes]:
    """Return the image file of a page by its name: one that ships, or one drawn here."""
    from PIL import Image

    notice = render.SIGN[1:6]

    def column(width: int, height: int, lines: tuple[str, ...], size: int, **how: Any) -> Any:
        paper = Image.new("RGB", (width, height), "white")
        for row, text in enumerate(lines):
            line = render.strip(text, size, False, row in how.get("turned", ()), "black", "white")
            paper.paste(line, (size, size // 2 + row * (height // len(lines))))
        return paper

    def cut_out() -> Any:
        paper = column(560, 300, notice, 26).convert("RGBA")
        pixels = np.array(paper)
        pixels[..., 3] = np.where(pixels[..., 0] > 200, 0, 255)
        return Image.fromarray(pixels)

    drawn: dict[str, Callable[[], bytes]] = {
        "wide": lambda: encoded(column(1500, 60, ("Mind the gap between train and platform",), 30)),
        "tall": lambda: encoded(column(200, 1100, render.WORDS[:12], 24, turned=(4,))),
        "large": lambda: encoded(column(2600, 1900, notice, 90, turned=(2,))),
        "turned": lambda: encoded(column(600, 300, notice, 26).rotate(90, expand=True)),
        "slanted": lambda: encoded(column(600, 340, notice, 26).rotate(8, fillcolor="white")),
        "gray": lambda: encoded(column(560, 300, notice, 26).convert("L")),
        "one bit": lambda: encoded(column(560, 300, notice, 26).convert("1")),
        "palette": lambda: encoded(render.sign().quantize(16)),
        "transparent": lambda: encoded(cut_out()),
        "gray and alpha": lambda: encoded(column(560, 300, notice, 26).convert("LA")),
        "jpeg": lambda: encoded(render.sign(), "JPEG", quality=70),
        "sliver": lambda: encoded(column(135, 20, ("EXIT 17 B",), 15).rotate(90, expand=True)),
    }

    def get(name: str) -> bytes:
        if name == "scanned":
            skimage = pytest.importorskip("skimage")
            return (Path(skimage.__file__).parent / "data" / "page.png").read_bytes()
        if name in drawn:
            return drawn[name]()
        return (EXAMPLES / "ocr" / "pages" / f"{name}.png").read_bytes()

    return get


Lines = tuple[list[str], np.ndarray, np.ndarray]


@pytest.fixture(scope="session")
def package() -> Callable[[bytes, bool], Lines]:
    """Return a function that reads a page with the package: text, scores, boxes."""
    rapidocr = pytest.importorskip("rapidocr_onnxruntime")
    readers = {False: rapidocr.RapidOCR(rec_batch_num=1), True: rapidocr.RapidOCR()}

    def read(photo: bytes, chunked: bool) -> Lines:
        lines = readers[chunked](photo)[0] or []
        boxes = np.array([line[0] for line in lines], np.float32).reshape(-1, 4, 2)
        return [line[1] for line in lines], np.array([line[2] for line in lines]), boxes

    return read
