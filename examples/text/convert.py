"""Makes profanity.onnx of the classifier that alt-profanity-check carries.

    pip install -r requirements.txt
    pip install --no-deps alt-profanity-check==1.9.1
    python convert.py [FOLDER]

The model takes texts in small letters as string[N, 1] and gives label i64[N] and p f32[N, 2].
"""

import sys
from pathlib import Path
from typing import Any

import onnx

# None of these is needed but here: requirements.txt names them.
from profanity_check import profanity_check  # pyright: ignore[reportMissingImports]
from skl2onnx import to_onnx  # pyright: ignore[reportMissingImports]
from skl2onnx.common.data_types import (  # pyright: ignore[reportMissingImports]
    StringTensorType,
)
from sklearn.pipeline import make_pipeline  # pyright: ignore[reportMissingImports]

WORD = r"[\pL\pN_]+"  # what Python's \w+ matches, as the tokenizer's library writes it


def convert() -> onnx.ModelProto:
    """Return the words' weights and the classifier in one model."""
    words: Any = profanity_check.vectorizer  # Any: what joblib loads has no type
    classifier: Any = profanity_check.model
    text: Any = StringTensorType([None, 1])  # as the library documents, not as it annotates
    model = to_onnx(
        make_pipeline(words, classifier),
        initial_types=[("text", text)],
        options={id(classifier): {"zipmap": False}, id(words): {"tokenexp": WORD}},
        target_opset=18,
    )
    assert isinstance(model, onnx.ModelProto)
    for node in model.graph.node:
        if node.op_type == "StringNormalizer":  # else it wants en_US, which few machines have
            node.attribute.append(onnx.helper.make_attribute("locale", "C"))
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    onnx.save(convert(), folder / "profanity.onnx")
