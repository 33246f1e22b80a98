"""Functions of one string, over tensors of them."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .op import Item
from .values import array


# Any: np.dtype is generic in its scalar type
def each(x: Item, apply: Callable[[str], "str | bool"], dtype: "np.dtype[Any]") -> Item:
    """Return `apply` of a string, or of each of a tensor's, as a tensor of `dtype`."""
    if isinstance(x, str):
        result = apply(x)
        return result if isinstance(result, str) else np.asarray(result, dtype)
    words = array(x)
    results = np.empty(words.shape, dtype)
    results.reshape(-1)[:] = [apply(cast("str", one)) for one in words.reshape(-1).tolist()]
    return results
