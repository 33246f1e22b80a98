"""What goes to a Jetson board: complete, without a word that only another release has."""

import re
import subprocess
import sys
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path

import pytest

import headrace
from headrace.compiler import plan_file
from headrace.compiler.plan import ModelSegment, Plan
from headrace.export.jetson.release import RELEASES
from headrace.export.target import Export, ExportError, Subject, all_targets
from tests.export.programs import write_program

TARGET = all_targets()["jetson"]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return headrace.compile(write_program(tmp_path_factory.mktemp("program"))).plan


def bundle(plan: Plan, jetpack: str = "6.2", name: str = "kinds") -> Export:
    return TARGET.make(Subject(plan, name, {"jetpack": jetpack}))


def with_models(plan: Plan, **changed: str) -> Plan:
    """Return the plan with all models changed so."""
    segments = tuple(
        replace(one, **changed) if isinstance(one, ModelSegment) else one for one in plan.segments
    )
    return replace(plan, segments=segments)


@pytest.mark.parametrize("jetpack", RELEASES)
def test_the_image_copies_only_what_is_there(plan: Plan, jetpack: str) -> None:
    files = bundle(plan, jetpack).files
    copied = re.findall(r"^COPY (.*) \S+$", files["Containerfile"].decode(), re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert names == {
        "requirements.txt",
        "constraints.txt",
        "wheels",
        "kinds.plan",
        "first_start.py",
    }
    assert names - {"wheels"} <= set(files)
    assert "wheels/README.md" in files


@pytest.mark.parametrize("device", ["cpu", "gpu:0"])
def test_a_heading_of_the_readme_stands_alone(plan: Plan, device: str) -> None:
    text = bundle(with_models(plan, device=device)).files["README.md"].decode()
    assert text.count("\n## ") == text.count("\n\n## ") > 0


@pytest.mark.parametrize("jetpack", RELEASES)
def test_what_starts_it_is_python_and_a_unit(plan: Plan, jetpack: str) -> None:
    files = bundle(plan, jetpack, "my plan").files
    compile(files["first_start.py"], "first_start.py", "exec")
    unit = ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign, assignment] as its documentation has it
    unit.read_string(files["my-plan.service"].decode())
    assert unit["Service"]["ExecStart"].endswith(" my-plan")
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_the_plan_goes_along_as_it_is(plan: Plan) -> None:
    assert bundle(plan).files["kinds.plan"] == plan_file.to_bytes(plan)


def test_a_plan_without_a_gpu_asks_for_none(plan: Plan) -> None:
    made = bundle(plan)
    assert "onnxruntime" in made.files["requirements.txt"].decode().split()
    assert b"nvidia " not in made.files["kinds.service"]
    assert b"engines" not in made.files["Containerfile"]


def test_a_plan_with_engines_keeps_them_and_says_whose_wheel_it_wants(plan: Plan) -> None:
    made = bundle(with_models(plan, device="gpu:0", backend="tensorrt"), "7.2")
    assert "onnxruntime-gpu" in made.files["requirements.txt"].decode().split()
    assert "cupy-cuda13x" in made.files["requirements.txt"].decode().split()
    assert b"--runtime nvidia" in made.files["kinds.service"]
    kept = b'"--engines", "/var/cache/headrace/engines"'
    assert kept in made.files["Containerfile"]
    assert b'engines="/var/cache/headrace/engines"' in made.files["first_start.py"]
    assert any("python3-libnvinfer" in note for note in made.notes)
    assert any("ubuntu:24.04 has nothing of NVIDIA" in note for note in made.notes)
    assert any("wheel of onnxruntime-gpu for Python 3.12" in note for note in made.notes)


def test_kernels_that_are_built_at_the_first_start_are_kept(plan: Plan) -> None:
    files = bundle(with_models(plan, device="gpu:0", backend="kernel")).files
    assert b'"--engines", "/var/cache/headrace/engines"' in files["Containerfile"]
    assert b'engines="/var/cache/headrace/engines"' in files["first_start.py"]
    assert b"TensorRT builds its engines" not in files["README.md"]


def test_engines_are_refused_where_the_python_beside_the_boards_cannot_import_tensorrt(
    plan: Plan,
) -> None:
    with pytest.raises(ExportError, match=r"runs on TensorRT, whose bindings of JetPack 6\.2"):
        bundle(with_models(plan, device="gpu:0", backend="tensorrt"), "6.2")


@pytest.mark.parametrize("backend", ["tensorrt_rtx", "onnx_tensorrt_rtx"])
def test_what_is_for_rtx_gpus_is_refused(plan: Plan, backend: str) -> None:
    with pytest.raises(ExportError, match="runs on TensorRT for RTX, which is not for the GPUs of"):
        bundle(with_models(plan, device="gpu:0", backend=backend), "7.2")


@pytest.mark.parametrize(
    ("target", "jetpack"),
    [("l4", "6.2"), ("cpu-x86", "7.2"), ("thor", "5.1"), ("thor", "6.2")],
)
def test_a_plan_for_another_machine_is_refused(plan: Plan, target: str, jetpack: str) -> None:
    with pytest.raises(ExportError, match=rf"compiled for `{target}` .* JetPack {jetpack} is for"):
        bundle(replace(plan, target=target), jetpack)


@pytest.mark.parametrize("target", ["", "cpu-arm", "orin-agx", "orin-nano", "thor"])
def test_a_plan_for_a_board_or_for_none_is_taken(plan: Plan, target: str) -> None:
    made = replace(plan, target=target)
    assert bundle(made, "7.2").files["kinds.plan"] == plan_file.to_bytes(made)


def test_libraries_of_which_no_wheel_is_known_are_refused(plan: Plan) -> None:
    with pytest.raises(ExportError, match=r"needs PyTorch.* for JetPack 6\.2"):
        bundle(with_models(plan, kind="torch", backend="torch"))


@pytest.mark.parametrize("jetpack", RELEASES)
def test_every_version_is_one(jetpack: str) -> None:
    lines = constraints(jetpack).splitlines()
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines[1:])
    assert f"JetPack {jetpack}:" in lines[0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("jetpack", RELEASES)
def test_every_version_has_a_wheel_for_the_board(jetpack: str, tmp_path: Path) -> None:
    release = RELEASES[jetpack]
    (tmp_path / "constraints.txt").write_text(constraints(jetpack))
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--quiet"]
    command += ["--ignore-installed", "--only-binary=:all:", f"--target={tmp_path / 'there'}"]
    command += [f"--python-version={release.python}", "--platform=manylinux2014_aarch64"]
    command += [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(17, release.glibc + 1)]
    command += ["--requirement", str(tmp_path / "constraints.txt")]
    if release.python != f"{sys.version_info.major}.{sys.version_info.minor}":
        command.append("--ignore-requires-python")  # pip holds it to the Python that runs it, too
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "Failed to establish a new connection" in done.stderr:
        pytest.skip("there is no index to ask")
    assert done.returncode == 0, done.stderr


def constraints(jetpack: str) -> str:
    folder = Path(str(headrace.__file__)).parent / "export" / "jetson"
    return (folder / f"constraints-{jetpack}.txt.j2").read_text()
