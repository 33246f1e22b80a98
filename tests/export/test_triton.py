"""What an exported repository says: configurations, reasons, notes, and the plan it carries."""

from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, helper

import headrace
from headrace.cli import main
from headrace.compiler import plan_file
from headrace.compiler.plan import Plan
from headrace.export.target import Export, ExportError, Subject, all_targets
from headrace.export.triton.light import restore
from headrace.runtime.load_error import LoadError
from headrace.runtime.protocols.messages import ModelConfig
from headrace.triton.config import Message
from headrace.triton.config_write import write
from tests.export.programs import write_program
from tests.runtime.plans import model

TARGET = all_targets()["triton"]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return headrace.compile(write_program(tmp_path_factory.mktemp("program"))).plan


def exported(plan: Plan, **options: str) -> Export:
    return TARGET.make(Subject(plan, "kinds", TARGET.defaults() | options))


def written(made: Export, folder: Path) -> Path:
    for name, content in made.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def parse(text: str) -> Message:
    return text_format.Parse(text, ModelConfig())


def test_each_pipeline_says_what_it_has_become_and_why(plan: Plan) -> None:
    assert exported(plan).notes[: len(plan.pipelines)] == (
        "chain: an ensemble: it runs models one after the other, and nothing else",
        "rows: an ensemble: it runs models one after the other, and nothing else",
        "cascade: a BLS model: `for point in points {` at kinds.pipe:19:13",
        "settle: a BLS model: `loop (now: f32[N] = x, turns: i64 = 0) max most {` "
        "at kinds.pipe:28:16",
        "fading: a BLS model: it is a stream",
        "total: a BLS model: it keeps something of a sequence",
        "drip: a BLS model: it is a stream",
        "words: a BLS model: `for word in words { yield shout(word) }` at kinds.pipe:63:12",
    )


def test_an_ensemble_names_its_values_as_the_source_does(plan: Plan) -> None:
    config = parse(exported(plan).files["rows/config.pbtxt"].decode())
    steps = [
        (step.model_name, dict(step.input_map), dict(step.output_map))
        for step in config.ensemble_scheduling.step
    ]
    assert config.max_batch_size == 8
    assert steps == [
        ("halve", {"x": "x"}, {"y": "halve"}),
        ("peak", {"x": "halve"}, {"y": "y", "top": "top"}),
    ]


def test_a_schedule_is_what_triton_batches_by(plan: Plan) -> None:
    text = exported(plan).files["peak/config.pbtxt"].decode()
    expected = """
        name: "peak" backend: "onnxruntime" max_batch_size: 8
        input { name: "x" data_type: TYPE_FP32 dims: -1 }
        output { name: "y" data_type: TYPE_FP32 dims: -1 }
        output { name: "top" data_type: TYPE_FP32 dims: 1 reshape { } }
        instance_group { kind: KIND_CPU count: 1 }
        dynamic_batching {
            preferred_batch_size: 4 max_queue_delay_microseconds: 1000
            default_queue_policy { max_queue_size: 64 }
        }
    """
    assert parse(text) == parse(expected)


def test_an_item_without_rows_is_reshaped(plan: Plan) -> None:
    config = parse(exported(plan).files["halve_peak/config.pbtxt"].decode())
    assert config.max_batch_size == 0
    assert list(config.input[0].dims) == [-1]
    assert list(config.input[0].reshape.shape) == [1, -1]


def test_a_file_declares_outputs_as_its_configuration_does(plan: Plan) -> None:
    proto = ModelProto.FromString(exported(plan).files["halve_peak/1/model.onnx"])
    dims = [
        [one.dim_value or -1 for one in output.type.tensor_type.shape.dim]
        for output in proto.graph.output
    ]
    assert dims == [[1, -1], [1]]


def test_a_schedule_goes_as_far_as_triton_has_words(tmp_path: Path) -> None:
    source = write_program(tmp_path)
    source.write_text(
        'model halve = onnx "halve.onnx" (x: f32[N]) -> (y: f32[N])\n'
        "pipeline p(x: f32[4]) -> (y: f32[4]) batch 8 {\n    return y = halve(x)\n}\n"
        "schedule p {\n"
        "    halve {\n"
        "        batch { max = 16, wait = 2ms }, instances = 3, threads = 2, warmup = [1, 8]\n"
        "        resources { memory = 2 }\n"
        "        priority { levels = 3, default = 2 }\n"
        "        queue {\n"
        "            size = 64, timeout = 5ms, on_timeout = delay\n"
        "            level(1) { size = 8 }\n"
        "        }\n"
        "    }\n"
        "    queue { size = 9 }\n"
        "}\n"
    )
    made = exported(headrace.compile(source).plan)
    expected = """
        name: "halve" backend: "onnxruntime" max_batch_size: 16
        input { name: "x" data_type: TYPE_FP32 dims: -1 }
        output { name: "y" data_type: TYPE_FP32 dims: -1 }
        instance_group {
            kind: KIND_CPU count: 3
            rate_limiter { resources { name: "memory" count: 2 } }
        }
        parameters { key: "intra_op_thread_count" value { string_value: "2" } }
        dynamic_batching {
            max_queue_delay_microseconds: 2000 priority_levels: 3 default_priority_level: 2
            default_queue_policy {
                timeout_action: DELAY default_timeout_microseconds: 5000 max_queue_size: 64
            }
            priority_queue_policy {
                key: 1 value {
                    timeout_action: DELAY default_timeout_microseconds: 5000 max_queue_size: 8
                }
            }
        }
    """
    assert parse(made.files["halve/config.pbtxt"].decode()) == parse(expected)
    assert made.notes[1:] == ("`p` has no bound of its queue", "`halve` is not warmed up")


@pytest.mark.parametrize("onnx", ["onnxruntime", "python"])
def test_the_plan_that_was_exported_comes_back(plan: Plan, tmp_path: Path, onnx: str) -> None:
    again = restore(written(exported(plan, onnx=onnx), tmp_path))
    assert again is not None
    assert plan_file.to_bytes(again) == plan_file.to_bytes(plan)


@pytest.mark.parametrize("name", ["peak", "halve_peak"])
def test_another_model_than_was_exported_is_no_plan(plan: Plan, tmp_path: Path, name: str) -> None:
    folder = written(exported(plan), tmp_path)
    (folder / name / "1" / "model.onnx").write_bytes(b"other")
    with pytest.raises(plan_file.PlanError, match=rf"{name}/1/model\.onnx is another model"):
        restore(folder)


def test_a_folder_of_others_carries_no_plan(tmp_path: Path) -> None:
    assert restore(tmp_path) is None


def test_the_same_plan_gives_the_same_files(plan: Plan) -> None:
    assert exported(plan) == exported(plan)


def test_models_do_not_take_the_names_of_pipelines(tmp_path: Path) -> None:
    source = write_program(tmp_path)
    source.write_text(
        'model halve = onnx "halve.onnx" (x: f32[N]) -> (y: f32[N])\n'
        "pipeline twice(x: f32[N], more: bool) -> (y: f32[N]) {\n"
        "    return y = if more { halve(x) } else { x }\n}\n"
    )
    plan = headrace.compile(source).plan
    named = plan.pipelines[0].name
    assert f"{named}/config.pbtxt" in exported(plan).files
    assert "halve/1/model.onnx" in exported(plan).files


def test_what_python_stages_import_is_named_in_the_requirements(tmp_path: Path) -> None:
    source = write_program(tmp_path)
    (tmp_path / "stages.py").write_text(
        "import os\nfrom sklearn.svm import SVC\n\n\ndef shout(word):\n    return word\n"
    )
    made = exported(headrace.compile(source).plan)
    assert "sklearn" in made.files["requirements.txt"].decode()
    assert "os" not in made.files["requirements.txt"].decode().split()


def test_a_model_that_takes_a_scalar_for_all_rows_stays_in_the_plan(tmp_path: Path) -> None:
    source = write_program(tmp_path)
    nodes = [helper.make_node("Mul", ["x", "by"], ["y"])]
    x, by, y = (("x", 1, ["B", "N"]), ("by", 1, []), ("y", 1, ["B", "N"]))
    (tmp_path / "times.onnx").write_bytes(model(nodes, [x, by], [y], {}))
    source.write_text(
        'model times = onnx "times.onnx" (x: f32[N], by: f32) -> (y: f32[N])\n'
        "    batch axis { x = 0, y = 0 }\n"
        "pipeline p(x: f32[N], by: f32) -> (y: f32[N]) {\n    return y = times(x, by)\n}\n"
    )
    plan = headrace.compile(source).plan
    made = exported(plan)
    assert made.notes == (
        "p: a BLS model: `times` at kinds.pipe:4:16 is no model of its own",
        "`times` runs in the BLS models that need it, on the CPU: `by` is a scalar for all rows",
    )
    assert "headrace[cpu,server]" in made.files["requirements.txt"].decode()
    carried = plan_file.read(made.files["p/1/headrace.plan"])
    with headrace.load(carried) as app:
        assert list(app.p(x=[1, 2], by=3).y) == [3, 6]


def test_what_triton_cannot_have_is_refused(tmp_path: Path) -> None:
    text = "pipeline p(x: bf16[4]) -> (y: bf16[4]) {\n    return y = x + x\n}\n"
    path = tmp_path / "half.pipe"
    path.write_text(text)
    with pytest.raises(ExportError, match="`x` is bf16"):
        exported(headrace.compile(path).plan)


@pytest.mark.parametrize("count", ["0", "many", "-1", "257"])
def test_instances_are_a_number(plan: Plan, count: str) -> None:
    with pytest.raises(ExportError, match="from 1 to 256"):
        exported(plan, instances=count)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_SIZES = st.lists(st.integers(-1, 2**62), max_size=4)
_CONFIGS = st.fixed_dictionaries(
    {
        "name": _TEXT,
        "max_batch_size": st.integers(0, 2**31 - 1),
        "input": st.lists(
            st.fixed_dictionaries({"name": _TEXT, "dims": _SIZES, "data_type": st.integers(0, 14)}),
            max_size=3,
        ),
        "parameters": st.dictionaries(
            _TEXT, st.fixed_dictionaries({"string_value": _TEXT}), max_size=3
        ),
        "model_transaction_policy": st.fixed_dictionaries({"decoupled": st.booleans()}),
    }
)


@given(_CONFIGS)
def test_what_is_written_is_read_as_the_same_message(config: dict[str, object]) -> None:
    message = ModelConfig(**config)
    assert parse(write(message)) == message


def test_an_export_that_is_imported_is_the_same_plan(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(exported(plan), tmp_path / "served")
    assert main(["import", "triton", str(folder), "-o", str(tmp_path / "app")]) == 0
    assert "has made this repository" in capsys.readouterr().err
    assert (tmp_path / "app" / "served.plan").read_bytes() == plan_file.to_bytes(plan)


def test_a_plan_for_triton_runs_nowhere_else(plan: Plan) -> None:
    carried = plan_file.read(exported(plan).files["cascade/1/headrace.plan"])
    with pytest.raises(LoadError, match="this process is no part of a tritonserver"):
        headrace.load(carried)
