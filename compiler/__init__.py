"""From text to a plan: `front` takes a source to checked graphs, `driver` through all of it.

In order of control flow: `lower` makes graphs (`graph`) of a tree and the files that it names
(`assets`, `signatures` of ONNX files, `model_kinds`, `folders`), `verify` says what is well formed,
`choose_schedule`, `schedule` (`schedule_stage`, `schedule_padding`, `schedule_places`,
`schedule_service`, `schedule_queue`, `schedule_engine`, `schedule_sizes`, all by `schedule_values`)
resolve how they run (`policies`), `stubs` puts in what a test replaces. `precision` rewrites models
before `optimize` runs the passes of `passes` (`graph_pass`, `rewrite`), by what `stage_settings`
and `batch_points` (`agree_sizes`) say of where and in what company stages run, and figures of a
`profile` (`profile_file`, a `json_file`) where there is one. `memory` and `arena` lay out what lies
between, `budgets` and `resource_totals` hold that against the schedule, `check_target` against a
`target` of `targets`, `check_engines` its engines (`engine_sizes`, `engine_ops`, `engine_bytes`),
`planner` with `block_uses` (`known_sizes`), `segments`, `places` and `dimensions` makes the plan,
in as many `lanes` as there are devices (`plan`, `plan_steps`, `plan_walk`), which `unseen` tells
what the passes took out of it. `explain`, `explain_graph`, `plan_text`, `policy_text` and
`deadline_split` are its text, `explain_diff` what is different in another, `pictures` its picture;
`verify_plan` (`verify_policies`) says what a plan keeps to, and `plan_file` with `plan_codec` and
`literal_codec` writes and reads it.

What passes share, in the order in which they run: `onnx_store` parses models and `onnx_prune` cuts
them; `glue_cluster` chooses (`glue_size`) and `glue_model` builds what is glued (`glue_dims`), with
`onnx_emit`, `onnx_merge`, `onnx_names`, `onnx_opset` and `onnx_order`; `merge_groups` and
`sibling_groups` (`model_cost`) choose, and `merge_calls` builds, what is merged; `arms` finds what
need not wait for each other, `arm_cost` says whether it is worth a hop; `kernels` writes chains of
ops as code, which a plan holds as a `kernel_file`.
"""

from typing import TYPE_CHECKING

if __name__ == "compiler":
    raise ImportError("import headrace.compiler: this folder is part of the package headrace")

if TYPE_CHECKING:
    from .driver import (
        Compiled,
        compile_as_written,
        compile_for_test,
        compile_source,
        compile_with_warnings,
    )
    from .front import check

__all__ = [
    "Compiled",
    "check",
    "compile_as_written",
    "compile_for_test",
    "compile_source",
    "compile_with_warnings",
]


def __getattr__(name: str) -> object:
    # Loading a plan needs `plan` and `plan_file` alone, and must not wait for the parser.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "check":
        from .front import check

        return check
    from . import driver

    return getattr(driver, name)
