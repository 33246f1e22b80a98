"""Small mistakes put into the passes, the planner and the checker: some test must catch each."""

from pathlib import Path

import pytest

from tests.mutating import Mutation, outdated, survivors

GLUE, MERGE = "tests/compiler/test_passes_glue.py", "tests/compiler/test_passes_merge.py"
OUTSIDE, EMIT = "tests/compiler/test_passes_glue_outside.py", "tests/language/test_emit.py"
SIBLINGS, SIMPLIFY = (
    "tests/compiler/test_passes_siblings.py",
    "tests/compiler/test_passes_simplify.py",
)
PLANNER, MEMORY = "tests/compiler/test_planner.py", "tests/compiler/test_memory.py"
TRANSFERS, DIMS = "tests/compiler/test_planner_transfers.py", "tests/dsl/test_dims.py"

MUTATIONS = (
    Mutation(
        "the wrong arm of an `if` is taken",
        "compiler/passes/fold_constants.py",
        "return 0 if subject else 1",
        "return 1 if subject else 0",
        SIMPLIFY,
        "arm",
    ),
    Mutation(
        "a constant may be of any size",
        "compiler/passes/fold_constants.py",
        "if size > max(MAX_BYTES, sum(map(_size, arguments))):",
        "if size < 0:",
        SIMPLIFY,
        "large_result",
    ),
    Mutation(
        "different ops of equal arguments are one",
        "compiler/passes/merge_common_subexpressions.py",
        'return ("op", op.name, inputs)',
        'return ("op", inputs)',
        SIMPLIFY,
        "",
    ),
    Mutation(
        "what is computed in one arm is used in the other",
        "compiler/passes/merge_common_subexpressions.py",
        "scope = _Scope(around)",
        "scope = around or _Scope(None)",
        SIMPLIFY,
        "arm_uses",
    ),
    Mutation(
        "functions that are not pure are dropped",
        "compiler/passes/drop_dead_code.py",
        "if is_pure(graph, node) and not any(",
        "if not any(",
        SIMPLIFY,
        "opaque",
    ),
    Mutation(
        "an op is glued to a model although others read its result",
        "compiler/glue_cluster.py",
        "if reader.node not in members:",
        "if False:",
        OUTSIDE,
        "others_read or all_readers",
    ),
    Mutation(
        "an op outside of a `for` is run for each item",
        "compiler/glue_cluster.py",
        "if not isinstance(owner.kind, If | Match):",
        "if False:",
        OUTSIDE,
        "each_item",
    ),
    Mutation(
        "rows of different sizes can no longer meet",
        "compiler/glue_cluster.py",
        "if not all(is_told(dim, results) for dim in _dims(inputs)):",
        "if False:",
        OUTSIDE,
        "rows_made_equal",
    ),
    Mutation(
        "the batch axis is left where it was",
        "compiler/glue_model.py",
        "order.insert(target, order.pop(source))",
        "order.insert(source, order.pop(target))",
        GLUE,
        "batch_axis",
    ),
    Mutation(
        "a size that is checked is hidden in a merged model",
        "compiler/merge_calls.py",
        "if not sizes_of(check) <= seen:",
        "if False:",
        MERGE,
        "checked",
    ),
    Mutation(
        "a stage that runs between two models is passed over",
        "compiler/merge_groups.py",
        "self._require_closed([*one, *other])",
        "pass",
        MERGE,
        "between",
    ),
    Mutation(
        "models of different settings are merged",
        "compiler/merge_groups.py",
        "if settings_of(self.graph, first) != settings_of(self.graph, second):",
        "if False:",
        MERGE,
        "settings",
    ),
    Mutation(
        "weights that differ are taken for equal",
        "compiler/onnx_merge.py",
        "content = tensor.SerializeToString(deterministic=True)",
        "content = bytes(str(tensor.dims), 'ascii')",
        MERGE,
        "chain",
    ),
    Mutation(
        "a large head runs for whoever wants the other",
        "compiler/sibling_groups.py",
        "if cost is None or cost > SMALL:",
        "if cost is None:",
        SIBLINGS,
        "large",
    ),
    Mutation(
        "an output is dropped although one call reads it",
        "compiler/passes/drop_unread_outputs.py",
        "return all(not uses.readers(call.outputs[index]) for call in sites)",
        "return any(not uses.readers(call.outputs[index]) for call in sites)",
        SIBLINGS,
        "output",
    ),
    Mutation(
        "a value is copied to where it is already",
        "compiler/passes/place_transfers.py",
        "if self.home[value] == wanted or value in self.constant_none:",
        "if value in self.constant_none:",
        TRANSFERS,
        "",
    ),
    Mutation(
        "a slot is freed while a result still needs it",
        "compiler/planner.py",
        "if slot not in results:",
        "if True:",
        PLANNER,
        "",
    ),
    Mutation(
        "buffers that touch in one step share memory",
        "compiler/arena.py",
        "(first[:k] <= one.last) & (last[:k] >= one.first)",
        "(first[:k] < one.last) & (last[:k] > one.first)",
        MEMORY,
        "overlap",
    ),
    Mutation(
        "what a loop reads is freed in its first turn",
        "compiler/memory.py",
        "if self.first[value] <= before <= last:",
        "if False:",
        MEMORY,
        "walks",
    ),
    Mutation(
        "a plan may need more than its budget",
        "compiler/budgets.py",
        "if one.peak > one.budget:",
        "if False:",
        "tests/compiler/test_driver.py",
        "budget",
    ),
    Mutation(
        "two fixed sizes that differ are let through",
        "dsl/dims.py",
        "if difference.is_constant:\n            return False",
        "if difference.is_constant:\n            return True",
        DIMS,
        "",
    ),
    Mutation(
        "an assumption is forgotten, and not checked when it runs",
        "dsl/dims.py",
        "self._assumptions.append(Assumption(to_dim(one), to_dim(other)))",
        "pass",
        DIMS,
        "assum",
    ),
    Mutation(
        "sizes that differ are no mistake",
        "compiler/lower/agree.py",
        "return None if all(dims.unify(*pair) for pair in pairs) else Clash.DIMS",
        "return None",
        "tests/compiler/test_error_pages.py",
        "HR203 or HR204 or HR213",
    ),
    Mutation(
        "arms of different dtypes are of one type",
        "compiler/lower/agree.py",
        "if left.dtype is not right.dtype or len(left.dims) != len(right.dims):",
        "if len(left.dims) != len(right.dims):",
        "tests/language/test_wrong.py",
        "dtypes",
    ),
    Mutation(
        "a `try` is computed no more where only what stands for it is needed",
        "compiler/passes/drop_dead_code.py",
        "If | Match | For | Try) and not _chooses(graph, node)",
        "If | Match | For | Try)",
        EMIT,
        "place_of_a_try",
    ),
    Mutation(
        "no items are no tensor",
        "compiler/lower/ops.py",
        "if as_tensors != list(inputs):",
        "if False:",
        "tests/language/test_lists.py",
        "no_items",
    ),
)


def test_each_mistake_can_still_be_made() -> None:
    assert outdated(MUTATIONS) == []


@pytest.mark.slow
def test_each_of_twenty_mistakes_is_caught_by_some_test(tmp_path: Path) -> None:
    assert len(MUTATIONS) >= 20
    assert survivors(MUTATIONS, tmp_path) == []
