"""OpenCV, imported when an image op first runs: everything else works without it."""

from typing import Any


def opencv() -> Any:  # Any: the module itself, whose stubs type arrays too narrowly
    """Return the module cv2; raises ImportError naming what to install."""
    try:
        import cv2
    except ImportError as error:
        raise ImportError("image ops need OpenCV: pip install headrace[image]") from error
    return cv2
