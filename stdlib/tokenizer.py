"""The library behind `text.tokenize`, imported when it first runs."""

from functools import lru_cache
from typing import Any


# Building a tokenizer takes many times as long as using it, and texts come one by one. A few are
# kept, by content; the settings are in the key because they are part of the object.
@lru_cache(maxsize=16)
def tokenizer(content: bytes, max_length: int | None) -> Any:  # Any: the library has no types
    """Return the tokenizer of a tokenizer.json, which cuts at `max_length` and never pads.

    Raises ImportError naming what to install, ValueError for other bytes.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError("this op needs tokenizers: pip install headrace[text]") from error
    try:
        made = Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises bare Exception and nothing else
        raise ValueError(f"the bytes are no tokenizer.json: {error}") from error
    made.no_padding()
    if max_length is None:
        made.no_truncation()
    else:
        made.enable_truncation(max_length)
    return made
