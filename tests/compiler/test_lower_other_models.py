"""Models of kinds whose files the compiler does not read: checked by what is declared."""

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

import headrace
from headrace.compiler import check
from headrace.compiler.model_kinds import is_address, packed
from headrace.compiler.plan import ModelSegment, Plan
from headrace.dsl.source import Source

PIPE = """
{model}

pipeline p(x: f32[3]) -> (y: f32[3]) {{
    return y = m(x)
}}

schedule p {{
    m {{ {settings} }}
}}
"""
SIGNED = "(x: f32[3]) -> (y: f32[3])"


def codes(model: str, settings: str = "") -> list[str]:
    text = PIPE.format(model=model, settings=settings)
    return [one.code for one in check(Source("p.pipe", text))]


def compiled(folder: Path, model: str, settings: str = "") -> Plan:
    path = folder / "p.pipe"
    path.write_text(PIPE.format(model=model, settings=settings))
    return headrace.compile(path).plan


def segment(plan: Plan) -> ModelSegment:
    (found,) = plan.segments
    assert isinstance(found, ModelSegment)
    return found


@pytest.mark.parametrize(
    "model",
    [
        f'model m = openvino "none.xml" {SIGNED}',
        f'model m = torch "none.pt" {SIGNED}',
        f'model m = tensorflow "none" {SIGNED}',
        f'model m = litert "none.tflite" {SIGNED}',
        f'model m = native "none.so:f" {SIGNED}',
        f'model m = remote "grpc://nowhere:8001/m" {SIGNED}',
        f'fn m{SIGNED} = native "none.so:f"',
    ],
)
def test_a_check_does_without_files_and_servers(model: str) -> None:
    assert codes(model) == []


@pytest.mark.parametrize(
    ("model", "settings", "found"),
    [
        ('model m = torch "m.pt"', "", ["HR324"]),
        (f'model m = tensorrt "m.engine" {SIGNED}', "", ["HR318"]),
        (f'model m = torsh "m.pt" {SIGNED}', "", ["HR318"]),
        (f'model m = remote "nowhere:8001/m" {SIGNED}', "", ["HR349"]),
        (f'model m = remote "ftp://nowhere/m" {SIGNED}', "", ["HR349"]),
        (f'model m = native "m.so" {SIGNED}', "", ["HR349"]),
        (f'fn m{SIGNED} = native "m.so:not a symbol"', "", ["HR349"]),
        ('model m = torch "m.pt" (x: f32[3]) -> (y: list<f32, 3>)', "", ["HR321"]),
        ('fn m(x: f32[3]) -> (y: list<f32, 3>) = native "m.so:f"', "", ["HR321"]),
        (f'model m = torch "m.pt" {SIGNED}', "backend = torch", ["HR403"]),
        (f'model m = onnx "m.onnx" {SIGNED}', "backend = openvino", []),
        (f'model m = onnx "m.onnx" {SIGNED}', "backend = torch", ["HR405"]),
        (f'model m = onnx "m.onnx" {SIGNED}', "backend = openvino, cpus = [0]", ["HR403"]),
        (f'model m = torch "m.pt" {SIGNED}', "cpus = [0], threads = 1", ["HR403"]),
        (f'model m = remote "grpc://a:1/m" {SIGNED}', "device = gpu(0)", ["HR403"]),
        (f'model m = remote "grpc://a:1/m" {SIGNED}', "threads = 2", ["HR403"]),
        (f'model m = remote "grpc://a:1/m" {SIGNED}', "cache = 1MiB", ["HR403"]),
        (f'fn m{SIGNED} = native "m.so:f"', "isolate = on", ["HR403"]),
        (f'fn m{SIGNED} = native "m.so:f"', "instances = 1", []),
        (f'fn m{SIGNED} = native "m.so:f" pure', "cache = 1MiB", []),
    ],
)
def test_what_cannot_be_is_refused(model: str, settings: str, found: list[str]) -> None:
    if "list<" in model:  # what it gives is no tensor, and neither is what the pipeline would give
        assert "HR321" in codes(model, settings)
    else:
        assert codes(model, settings) == found


def test_a_plan_needs_the_files(tmp_path: Path) -> None:
    for model in (f'model m = torch "m.pt" {SIGNED}', f'fn m{SIGNED} = native "m.so:f"'):
        with pytest.raises(headrace.CompileError, match="no model file"):
            compiled(tmp_path, model)


def test_a_plan_tells_what_runs_a_model_and_holds_it(tmp_path: Path) -> None:
    (tmp_path / "m.pt").write_bytes(b"content")
    (tmp_path / "m.so").write_bytes(b"library")
    plan = compiled(tmp_path, f'model m = torch "m.pt" {SIGNED}')
    found = segment(plan)
    assert (found.kind, found.backend, found.entry, found.home) == ("torch", "torch", "", "cpu")
    assert plan.blob(found.model) == b"content"
    plan = compiled(tmp_path, f'fn m{SIGNED} = native "m.so:f"')
    found = segment(plan)
    assert (found.kind, found.backend, found.entry) == ("native", "native", "f")
    assert not found.stackable
    assert plan.blob(found.model) == b"library"
    found = segment(compiled(tmp_path, f'model m = remote "http://a:1/m/2" {SIGNED}'))
    assert found.told
    assert found.stackable


def test_a_folder_is_packed_the_same_every_time(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "data").write_bytes(b"weights")
    first = segment(compiled(tmp_path, f'model m = tensorflow "saved" {SIGNED}')).model
    (folder / "saved_model.pb").touch()
    assert segment(compiled(tmp_path, f'model m = tensorflow "saved" {SIGNED}')).model == first
    with zipfile.ZipFile(BytesIO(packed(folder))) as archive:
        assert archive.namelist() == ["saved_model.pb", "variables/data"]


def test_addresses() -> None:
    good = ("grpc://a:1/m", "http://a/m", "https://a.b:443/m/3", "grpc://[::1]:8001/m")
    bad = ("grpc://a/m", "a:1/m", "http://a", "http:///m", "http://a/m/1/2", "http://a:x/m",
           "http://u@a/m", "http://a/m?x=1", "http://a//m/", "")  # fmt: skip
    assert all(map(is_address, good))
    assert [one for one in bad if is_address(one)] == ["http://a//m/"]
