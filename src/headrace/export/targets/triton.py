"""A model repository for a stock tritonserver."""

from ..target import Export, Option, Subject, Target


def _make(subject: Subject) -> Export:
    from ..triton.repository import make  # what it needs of the server, no other target does

    return make(subject)


TARGET = Target(
    "triton",
    "a model repository for a stock tritonserver",
    _make,
    (
        Option(
            "onnx",
            "onnxruntime",
            "the backend of Triton's that runs ONNX models",
            ("onnxruntime", "python"),
        ),
        Option("instances", "2", "how many requests each BLS model answers at once"),
    ),
)
