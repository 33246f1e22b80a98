"""Models of a repository as sources: what each trait of a configuration becomes."""

from pathlib import Path

import numpy as np
import pytest

from headrace.dsl.diagnostic import CompileError
from headrace.dsl.format import format_module
from headrace.dsl.parse import parse
from headrace.dsl.source import Source
from headrace.triton.own_completion import OwnCompletions
from headrace.triton.serving import Options, find, plan_of
from headrace.triton.subject import Others
from headrace.triton.translate.draft import Surroundings
from headrace.triton.translate.resources import Available
from headrace.triton.translate.schedule import Serving, duration
from tests.triton.writing import (
    INT32,
    UINT64,
    ensemble,
    program,
    put,
    save,
    tensor,
    text,
    unary,
)

PYTHON = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"


def test_names_that_the_language_cannot_write_stay_what_callers_say(tmp_path: Path) -> None:
    unary(tmp_path / "a.b-1/1/model.onnx", "Neg", "in:0", "match")
    put(tmp_path / "a.b-1/config.pbtxt", "# turns signs\nmax_batch_size: 8\n")
    assert text(tmp_path, "a.b-1") == (
        "# turns signs\n"
        "\n"
        'model run_a_b_1 = onnx "a.b-1/1/model.onnx" ("in:0" as in_0: f32[2]) -> '
        '("match" as match_2: f32[2])\n'
        "\n"
        'pipeline "a.b-1" as a_b_1("in:0" as in_0: f32[2]) -> ("match" as match_2: f32[2]) '
        "batch 8 {\n"
        "    return match_2 = run_a_b_1(in_0)\n"
        "}\n"
    )


def test_queues_are_as_they_are_asked_for(tmp_path: Path) -> None:
    unary(tmp_path / "m/1/model.onnx", "Neg", "x", "y")
    put(
        tmp_path / "m/config.pbtxt",
        """
max_batch_size: 8
instance_group { count: 3 kind: KIND_CPU rate_limiter { resources { name: "R" count: 2 } } }
response_cache { enable: true }
parameters { key: "intra_op_thread_count" value { string_value: "2" } }
dynamic_batching {
    preferred_batch_size: [ 4, 8 ]
    max_queue_delay_microseconds: 1500
    priority_levels: 3
    default_priority_level: 2
    default_queue_policy { max_queue_size: 16 allow_timeout_override: true }
    priority_queue_policy {
        key: 3 value { default_timeout_microseconds: 2000000 timeout_action: DELAY }
    }
}
""",
    )
    written = text(tmp_path, "m", serving=Serving(cache=1 << 20, resources=()))
    assert written.partition("schedule")[2] == (
        " m {\n"
        "    run_m {\n"
        "        batch { max = 8, wait = 1500us, prefer = [4, 8] }\n"
        "        instances = 3\n"
        "        priority { levels = 3, default = 2 }\n"
        "        queue { size = 16, override = on, "
        "level(3) { timeout = 2s, on_timeout = delay } }\n"
        "        cache = 1MiB\n"
        "        resources { R = 2 }\n"
        "        weight = 1\n"
        "        threads = 2\n"
        "    }\n"
        "}\n"
    )


def test_what_a_server_adds_to_a_configuration_is_no_queue(tmp_path: Path) -> None:
    unary(tmp_path / "m/1/model.onnx", "Neg", "x", "y")
    put(tmp_path / "m/config.pbtxt", "")
    assert "batch 4 {" in text(tmp_path, "m")
    assert "schedule" not in text(tmp_path, "m")


@pytest.mark.parametrize(
    ("kind", "name", "backend"),
    [("gpu", "tensorrt", "onnx_tensorrt"), ("cpu", "openvino", "openvino")],
)
def test_an_accelerator_is_what_onnx_runtime_provides_there(
    kind: str, name: str, backend: str, tmp_path: Path
) -> None:
    unary(tmp_path / "m/1/model.onnx", "Neg", "x", "y")
    asked = f'{kind}_execution_accelerator {{ name: "{name}" }}'
    config = f"optimization {{ execution_accelerators {{ {asked} }} }}"
    put(tmp_path / "m/config.pbtxt", f"{config} instance_group {{ kind: KIND_{kind.upper()} }}")
    assert f"backend = {backend}\n" in text(tmp_path, "m").replace(" }", "\n")


def test_there_is_as_much_of_a_resource_as_the_server_is_told(tmp_path: Path) -> None:
    unary(tmp_path / "m/1/model.onnx", "Neg", "x", "y")
    group = 'rate_limiter { resources { name: "R" count: 2 } }'
    put(tmp_path / "m/config.pbtxt", f"instance_group {{ count: 3 kind: KIND_CPU {group} }}\n")
    said = Serving(resources=(Available("R", 6), Available("R", 7, 3), Available("other", 1)))
    assert text(tmp_path, "m", serving=said).partition("schedule")[2] == (
        " m {\n"
        "    run_m { instances = 3, resources { R = 2 }, weight = 1 }\n"
        "    resources { R = 6 }\n"
        "}\n"
    )
    around = Surroundings(Others(()), tmp_path, said)
    assert plan_of(program(tmp_path, "m", serving=said), around).resources == (("R", 6),)


def of_resource(folder: Path, name: str, said: str) -> None:
    """Write a model whose instances are limited like that."""
    unary(folder / name / "1/model.onnx", "Neg", "x", "y")
    limiter = f"rate_limiter {{ {said} }}"
    put(folder / name / "config.pbtxt", f"instance_group {{ kind: KIND_CPU {limiter} }}\n")


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ((), ""),
        ((Available("R", 2),), ""),
        ((Available("R", 1), Available("R", 2, 0)), ""),
        ((Available("R", 2), Available("R", 1)), "takes 2 `R`, and there is 1"),
        ((Available("R", 2, 1),), "takes 2 `R`, and there is none"),
        ((Available("other", 2),), "takes 2 `R`, and there is none"),
    ],
)
def test_what_could_never_run_is_not_loaded(
    tmp_path: Path, there: tuple[Available, ...], said: str
) -> None:
    of_resource(tmp_path, "m", 'resources { name: "R" count: 2 }')
    if not said:
        assert "resources { R = 2 }" in text(tmp_path, "m", serving=Serving(resources=there))
        return
    with pytest.raises(CompileError) as raised:
        program(tmp_path, "m", serving=Serving(resources=there))
    (one,) = raised.value.diagnostics
    assert (one.code, one.primary.span.text) == ("HR613", "resources")
    assert said in one.message
    assert one.help == "start the server with `--rate-limit-resource=R:2`"


def test_a_priority_is_the_weight_of_a_run(tmp_path: Path) -> None:
    of_resource(tmp_path, "m", 'resources { name: "R" global: true count: 2 } priority: 3')
    written = text(tmp_path, "m", serving=Serving(resources=()))
    assert "resources { R = 2 }, weight = 3" in written
    assert "resources" not in text(tmp_path, "m")


def test_what_is_one_for_all_devices_is_so_for_all_models(tmp_path: Path) -> None:
    of_resource(tmp_path, "a", 'resources { name: "R" count: 1 }')
    of_resource(tmp_path, "b", 'resources { name: "R" global: true count: 1 }')
    options = Options(serving=Serving(resources=()))
    found = find((tmp_path,), options, lambda _: None, OwnCompletions())
    assert found["a"][1].read().segments
    with pytest.raises(CompileError) as raised:
        found["b"][1].read()
    (one,) = raised.value.diagnostics
    assert one.message == "`R` is `global` for one of `a` and `b`"


def test_values_have_the_shape_that_the_model_wants(tmp_path: Path) -> None:
    save(
        tmp_path / "m/1/model.onnx",
        [("Neg", ["x"], ["y"]), ("Neg", ["one"], ["z"])],
        [tensor("x", ["N", 4]), tensor("one", ["N"])],
        [tensor("y", ["N", 4]), tensor("z", ["N"])],
    )
    put(
        tmp_path / "m/config.pbtxt",
        """
max_batch_size: 4
input [ { name: "one" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } },
        { name: "x" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: [ 4 ] } } ]
output { name: "z" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }
""",
    )
    written = program(tmp_path, "m")
    assert "run_m(one[0], reshape(x, [4]))" in written.text
    assert "return z = reshape(z, [1])" in written.text
    assert "pipeline m(one: f32[1], x: f32[2, 2]) -> (z: f32[1]) batch 4" in written.text


def test_steps_run_when_what_they_read_is_there(tmp_path: Path) -> None:
    unary(tmp_path / "neg/1/model.onnx", "Neg", "x", "y")
    unary(tmp_path / "abs/1/model.onnx", "Abs", "x", "y")
    unary(tmp_path / "abs/4/model.onnx", "Neg", "x", "y")
    put(tmp_path / "neg/config.pbtxt", "")
    put(tmp_path / "abs/config.pbtxt", "version_policy { all { } }")
    ensemble(tmp_path, "inner", ["A"], ["B"], ["neg: x=A > y=B"])
    ensemble(
        tmp_path,
        "outer",
        ["A"],
        ["M", "OUT"],  # what is made on the way is given as well
        [
            "abs@1: x=M > y=OUT",
            "inner: A=L > B=M",
            "abs: x=A > y=L",
        ],
    )
    made = program(tmp_path, "outer")
    assert made.text == (
        'model abs = onnx "abs/4/model.onnx" (x: f32[2]) -> (y: f32[2])\n'
        'model neg = onnx "neg/1/model.onnx" (x: f32[2]) -> (y: f32[2])\n'
        'model abs_2 = onnx "abs/1/model.onnx" (x: f32[2]) -> (y: f32[2])\n'
        "\n"
        "pipeline outer(A: f32[2]) -> (M: f32[2], OUT: f32[2]) batch 4 {\n"
        "    L = abs(A)\n"
        "    M = neg(L)\n"
        "    OUT = abs_2(M)\n"
        "    return M = M, OUT = OUT\n"
        "}\n"
    )
    plan = plan_of(made, Surroundings(Others(), tmp_path))
    assert [one.name for one in plan.segments] == ["abs+neg", "abs_2"]  # two models are one


def test_rows_of_a_tensor_are_items_of_a_member_that_batches(tmp_path: Path) -> None:
    unary(tmp_path / "neg/1/model.onnx", "Neg", "x", "y")
    put(tmp_path / "neg/config.pbtxt", "")
    ensemble(tmp_path, "e", ["A"], ["B"], ["neg: x=A > y=B"], rows=0, dims="[ -1, 2 ]")
    assert (
        "    neg_rows = for each_x in A {\n"
        "        B = neg(each_x)\n"
        "        yield B = B\n"
        "    }\n"
        "    return B = neg_rows.B\n"
    ) in text(tmp_path, "e")


SEQUENCES = """
max_batch_size: 4
input {{ name: "X" data_type: TYPE_FP32 dims: [ 2 ] }}
output [
    {{ name: "SUM" data_type: TYPE_FP32 dims: [ 2 ] }},
    {{ name: "WHO" data_type: TYPE_UINT64 dims: [ 1 ] }},
    {{ name: "LAST" data_type: TYPE_INT32 dims: [ 1 ] }}
]
sequence_batching {{
    {strategy}
    max_sequence_idle_microseconds: 5000000
    control_input [
        {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }} }},
        {{ name: "END" control {{ kind: CONTROL_SEQUENCE_END int32_false_true: [ 3, 7 ] }} }},
        {{ name: "ID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }} }}
    ]
    state {{ input_name: "BEFORE" output_name: "AFTER" data_type: TYPE_FP32 dims: [ 2 ]
        initial_state {{ name: "first" data_type: TYPE_FP32 dims: [ 2 ] data_file: "first" }} }}
}}
"""


def write_sequences(folder: Path, strategy: str) -> None:
    """A model that adds up what it is given, and wants to be told of its sequence."""
    save(
        folder / "seq/1/model.onnx",
        [
            ("Add", ["BEFORE", "X"], ["AFTER"]),
            ("Identity", ["ID"], ["WHO"]),
            ("Identity", ["END"], ["LAST"]),
            ("Add", ["AFTER", "START"], ["SUM"]),
        ],
        [
            tensor("X", ["N", 2]),
            tensor("START", ["N", 1]),
            tensor("END", ["N", 1], INT32),
            tensor("ID", ["N", 1], UINT64),
            tensor("BEFORE", ["N", 2]),
        ],
        [
            tensor("SUM", ["N", 2]),
            tensor("AFTER", ["N", 2]),
            tensor("WHO", ["N", 1], UINT64),
            tensor("LAST", ["N", 1], INT32),
        ],
    )
    put(folder / "seq/config.pbtxt", SEQUENCES.format(strategy=strategy))
    (folder / "seq/initial_state").mkdir()
    (folder / "seq/initial_state/first").write_bytes(np.array([1, 2], np.float32).tobytes())


def test_a_sequence_keeps_states_and_tells_a_model_of_it(tmp_path: Path) -> None:
    write_sequences(tmp_path, "oldest { max_candidate_sequences: 6 }")
    assert (
        "pipeline seq(X: f32[1, 2]) -> (SUM: f32[1, 2], WHO: u64[1, 1], LAST: i32[1, 1])\n"
        "    per sequence idle 5s\n"
        "{\n"
        "    state BEFORE: f32[2] = [1.0, 2.0]\n"
        "    SUM, WHO, LAST, next_AFTER = run_seq(\n"
        "        X[0],\n"
        "        [cast(sequence.start, f32)],\n"
        "        [cast(if sequence.end { 7 } else { 3 }, i32)],\n"
        "        [sequence.number],\n"
        "        BEFORE,\n"
        "    )\n"
        "    next BEFORE = next_AFTER\n"
        "    return SUM = expand_dims(SUM, axis = 0), WHO = expand_dims(WHO, axis = 0),\n"
        "        LAST = expand_dims(LAST, axis = 0)\n"
        "}\n"
        "\n"
        "schedule seq {\n"
        "    run_seq { batch { max = 4 } }\n"
        "    sequences { strategy = oldest, max = 12, backlog = 4096 }\n"
        "}\n"
    ) in text(tmp_path, "seq")


def test_as_many_sequences_take_turns_as_a_batch_has_rows_where_nothing_else_is_said(
    tmp_path: Path,
) -> None:
    write_sequences(tmp_path, "oldest { }")
    assert "sequences { strategy = oldest, max = 8," in text(tmp_path, "seq")  # of two instances


def test_what_answers_often_is_a_loop_around_all_that_follows(tmp_path: Path) -> None:
    tensors = (
        'backend: "python"\ninput { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }\n'
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }\nmax_batch_size: 4\n'
    )
    decoupled = "model_transaction_policy { decoupled: true }\n"
    for name, more in (("once", ""), ("often", decoupled)):
        put(tmp_path / name / "1/model.py", PYTHON)
        put(tmp_path / name / "config.pbtxt", tensors + more)
    steps = ["once: X=M > Y=B", "often: X=A > Y=M"]
    ensemble(tmp_path, "e", ["A"], ["B"], steps)
    made = program(tmp_path, "e")
    assert (
        "pipeline e(A: f32[_, 2]) -> stream (B: f32[_, 2]) {\n"
        "    responses = often_open(A)\n"
        "    loop (more: bool = true) max 1_000_000_000 {\n"
        "        there, M = often_next(responses)\n"
        "        if there {\n"
        "            once_rows = for each_X in M {\n"
        "                B = once(each_X)\n"
        "                yield B = B\n"
        "            }\n"
        "            emit B = once_rows.B\n"
        "        }\n"
        "        next more = there\n"
        "        stop when not there\n"
        "    }\n"
        "}\n"
    ) in made.text
    plan_of(made, Surroundings(Others(), tmp_path))
    assert (
        "        there, Y = often_next(responses)\n"
        "        if there {\n"
        "            emit Y = Y\n"
        "        }\n"
    ) in text(tmp_path, "often")


BASE = (
    'backend: "onnxruntime"\ninput { name: "x" data_type: TYPE_FP32 dims: [ 2 ] }\n'
    'output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }\nmax_batch_size: 4\n'
)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ('model_repository_agents { agents { name: "checksum" } }', "agents of a repository"),
        ('model_operations { op_library_filename: "a.so" }', "operations of their own"),
        ('cc_model_filenames { key: "7.5" value: "a.onnx" }', "each kind of GPU"),
        (
            'optimization { execution_accelerators { cpu_execution_accelerator { name: "x" } } }',
            "no accelerator `x`",
        ),
        ("model_transaction_policy { decoupled: true }", "answers any number of times"),
    ],
)
def test_what_is_not_served_is_told_with_its_place(tmp_path: Path, field: str, said: str) -> None:
    unary(tmp_path / "m/1/model.onnx", "Neg", "x", "y")
    put(tmp_path / "m/config.pbtxt", BASE + field)
    with pytest.raises(CompileError, match=said) as caught:
        program(tmp_path, "m")
    (found,) = caught.value.diagnostics
    assert (found.code, found.primary.span.line) == ("HR650", 5)
    assert found.help


def test_every_program_is_in_the_canonical_form(tmp_path: Path) -> None:
    write_sequences(tmp_path, "direct { }")
    ensemble(tmp_path, "e", ["A"], ["B"], ["seq: X=A > SUM=B"])
    for name in ("seq", "e"):
        written = text(tmp_path, name)
        assert format_module(parse(Source("p.pipe", written))) == written


@pytest.mark.parametrize(
    ("microseconds", "said"),
    [(0, "0us"), (1, "1us"), (2000, "2ms"), (1500, "1500us"), (7_200_000_000, "2h")],
)
def test_times_are_said_in_the_largest_unit_that_is_exact(microseconds: int, said: str) -> None:
    assert duration(microseconds) == said
