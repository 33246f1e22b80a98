"""Newer opsets: some forms of number are taken since one only."""

from typing import Final

import onnx
from onnx import version_converter

from ...stdlib.op import Decline
from ..onnx_opset import default_opset, raised

_IR: Final = {13: 7, 22: 10}
"""The form of file that came with an opset."""

PER_CHANNEL = BFLOAT16 = 13
"""Since which a scale may be of each channel, and values can be cast to bf16."""

MOST_IN_BFLOAT16 = 22
"""Since which nearly all ops take bf16."""


def at_least(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Return a model in an opset, or the newer one that it is in; raises Decline.

    What is not merely raised (a Softmax that flattened its axes) is rewritten by onnx itself.
    """
    if default_opset(model) >= opset:
        return model
    try:
        new = raised(model, opset)
    except Decline as reason:
        try:
            new = version_converter.convert_version(model, opset)
        except (RuntimeError, ValueError) as error:
            raise Decline(f"it stays in opset {default_opset(model)}: {reason}") from error
    new.ir_version = max(new.ir_version, _IR[opset])
    return new
