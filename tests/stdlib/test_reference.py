"""The page of all ops is written from the catalog."""

from pathlib import Path

from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.reference import markdown, signature

PAGE = Path(__file__).parents[2] / "docs" / "stdlib.md"


def test_the_page_in_docs_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(load_catalog()), (
        "run `python -m headrace.stdlib.reference > docs/stdlib.md`"
    )


def test_a_signature_is_written_as_a_call() -> None:
    catalog = load_catalog()
    assert signature(catalog.op("concat")) == "concat(parts..., axis = 0)"
    assert (
        signature(catalog.op("image.pad_to"))
        == 'image.pad_to(image, height, width, value = 0, interpolation = "linear")'
    )
