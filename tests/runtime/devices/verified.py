"""The table "verified on" of docs/devices.md: `python -m tests.runtime.devices.verified` prints it.

Each feature names the tests that show it on the simulated device, against a library's own
signatures, or as a build without a GPU; and the section of `benchmarks/gpu_job.py` that asks a GPU
for it. What that column says comes from the results of runs that were kept, and from nowhere else.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results"
DEVICES = "tests/runtime/devices"
TENSORRT, KERNELS = "tests/runtime/tensorrt", "tests/runtime/kernels"
NOTHING = "—"


@dataclass(frozen=True, slots=True)
class Feature:
    """`file.py::test` of each column, "" where nothing shows it; `section` is of the GPU job."""

    name: str
    simulated: str = ""
    signatures: str = ""
    built: str = ""
    section: str = ""


FEATURES: Sequence[Feature] = (
    Feature(
        "copies, streams, events, a pool of memory",
        f"{DEVICES}/test_conformance.py::test_what_goes_up_comes_down",
        f"{DEVICES}/test_gpu.py::test_cupy_takes_what_it_is_given",
        section="suite",
    ),
    Feature(
        "every copy as planned, at once and late: OCR, faces, wake words",
        "tests/examples/test_examples_placed.py::test_pages",
        section="residency",
    ),
    Feature(
        "the same over random graphs on two devices",
        f"{DEVICES}/test_planned_copies.py::test_random_graphs",
    ),
    Feature(
        "races, stray and unwritten reads, leaks found by name",
        f"{DEVICES}/test_planted_faults.py::test_a_missing_wait_before_a_read",
    ),
    Feature(
        "copies that fail, memory that runs out, a device that is lost",
        f"{DEVICES}/test_chaos.py::test_under_threads",
    ),
    Feature(
        "several devices: instances, copies between",
        f"{DEVICES}/test_lanes.py::test_requests_of_many_threads_copy_as_their_lanes_say",
        f"{DEVICES}/test_gpu.py::test_cupy_takes_what_it_is_given",
    ),
    Feature(
        "rows filled up and cut back in place",
        f"{DEVICES}/test_filled_up.py::test_rows_of_different_length_meet_on_a_device",
        section="suite",
    ),
    Feature(
        "memory that device and host share, mapped",
        f"{DEVICES}/test_conformance.py::test_everything_is_counted_and_given_back",
        f"{DEVICES}/test_gpu.py::test_cupy_takes_what_it_is_given",
        section="suite",
    ),
    Feature(
        "what a device can do, probed",
        f"{DEVICES}/test_conformance.py::test_what_it_is_is_told",
        f"{DEVICES}/test_gpu.py::test_what_a_device_can_do_is_read_off_its_attributes",
        section="what",
    ),
    Feature(
        "DLPack in and out, in the order of streams",
        signatures=(f"{DEVICES}/test_gpu.py::test_cupy_takes_what_it_is_given"),
        section="suite",
    ),
    Feature(
        "CUDA graphs of what a stage asks for",
        signatures=(f"{DEVICES}/test_gpu.py::test_cupy_takes_what_it_is_given"),
        section="graphs",
    ),
    Feature("memory given to another process", section="shared_memory"),
    Feature(
        "ONNX Runtime on a device's memory",
        "tests/runtime/test_sim_device.py::test_a_chain_on_the_device_copies_once_in_and_once_out",
        f"{DEVICES}/test_gpu.py::"
        "test_a_session_on_a_gpu_runs_on_the_stream_that_its_values_are_ordered_by",
        section="residency",
    ),
    Feature(
        "generated kernels",
        f"{KERNELS}/test_kernel_stage.py::test_a_chain_between_two_models_is_one_launch_and_no_copy",
        built=f"{KERNELS}/test_nvrtc.py::test_every_op_has_code_for_a_gpu",
        section="suite",
    ),
    Feature(
        "engines of TensorRT",
        signatures=f"{TENSORRT}/test_run.py::"
        "test_each_version_runs_rows_together_in_place_and_waits_for_nothing",
        built=f"{TENSORRT}/test_build_rtx.py::test_each_segment_of_the_fused_ocr_is_built_and_told_of",
        section="suite",
    ),
    Feature(
        "plans for boards that are not here",
        built="tests/compiler/test_targets.py::"
        "test_a_plan_for_a_board_maps_what_goes_in_and_says_what_it_is_for",
    ),
)


def table() -> str:
    """Return the table as Markdown."""
    lines = [
        "| feature | simulated device | held to signatures | built without a GPU | real GPU |",
        "|---|---|---|---|---|",
    ]
    for one in FEATURES:
        cells = [_cell(said) for said in (one.simulated, one.signatures, one.built)]
        lines.append(f"| {one.name} | {' | '.join(cells)} | {real(one.section)} |")
    return "\n".join(lines)


def _cell(said: str) -> str:
    file, _, _ = said.partition("::")
    return f"[{Path(file).stem}](../{file})" if said else NOTHING


def real(section: str, results: Path = RESULTS) -> str:
    """Return on which GPUs a section of the job has run, with driver and date."""
    if not section:
        return NOTHING
    found = [
        _said(json.loads(one.read_text()), section) for one in sorted(results.glob("gpu_*.json"))
    ]
    return "; ".join(said for said in found if said) or "not yet"


def _said(result: Mapping[str, Mapping[str, object]], section: str) -> str:
    found = result.get(section)
    if not isinstance(found, dict) or "error" in found:
        return ""
    what, when = result["what"], str(result["machine"]["when"]).partition("T")[0]
    return f"{what['product']}, driver {what['driver']}, {when}"


def missing() -> Iterator[str]:
    """Yield the tests that are named and are not there."""
    for one in FEATURES:
        for said in (one.simulated, one.signatures, one.built):
            if said:
                file, _, name = said.partition("::")
                path = ROOT / file
                tree = ast.parse(path.read_text("utf-8")) if path.is_file() else ast.Module([], [])
                if name not in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}:
                    yield said


if __name__ == "__main__":
    print(table())
