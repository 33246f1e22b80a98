"""`headrace doctor`: what it says of a machine, and of what is wrong with it."""

import tomllib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.compiler import compile_source
from headrace.compiler.plan import ModelSegment, Plan
from headrace.doctor.extras import BRINGS, Extra, Package, all_extras
from headrace.doctor.findings import Finding
from headrace.doctor.machine import Machine, read_quota, read_release, this_machine
from headrace.doctor.needs import lacking
from headrace.doctor.problems import cupy, limits, versions
from headrace.dsl.source import Source
from headrace.runtime.devices.cuda_driver import Gpu
from tests.runtime.plans import add_model

ROOT = Path(__file__).parents[2]
SOUND = Machine(
    processor="some",
    machine="x86_64",
    system="Linux",
    python="3.12",
    cores=8,
    quota=None,
    memory=1 << 34,
    shared_memory=1 << 30,
    files=1 << 16,
    board="",
    gpus=(),
)


def told(found: "list[Finding]") -> str:
    return "\n".join(f"{one.message} ({one.help})" for one in found)


def test_each_extra_for_those_who_run_headrace_is_told_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(BRINGS) == set(project["optional-dependencies"]) - {"dev", "examples"}
    assert [one.name for one in all_extras()] == list(BRINGS)


def test_the_command_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor"])
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith("processor  ")
    assert {line.split()[0] for line in lines if "headrace[" in line or "installed" in line}
    for name in BRINGS:
        assert any(line.startswith(f"{name} ") for line in lines)
    assert (status == 0) == ("nothing is wrong" in out)
    assert (status == 3) == ("wrong: " in out)


def test_this_machine_is_looked_at() -> None:
    found = this_machine()
    assert found.cores >= 1
    assert found.memory > 1 << 28
    assert found.files > 0


@pytest.mark.parametrize(
    ("text", "cores"), [("200000 100000\n", 2.0), ("max 100000\n", None), ("", None)]
)
def test_what_a_control_group_pays_for(text: str, cores: float | None) -> None:
    assert read_quota(text) == cores


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64", "36.4.3"),
        ("# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref", "35.4.1"),
        ("", ""),
    ],
)
def test_the_release_of_a_board(text: str, release: str) -> None:
    assert read_release(text) == release


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (SOUND, ""),
        (replace(SOUND, quota=2.0), "8 cores may be used, and the control group pays for 2"),
        (replace(SOUND, files=256), "256 files may be open at once"),
        (replace(SOUND, shared_memory=1 << 20), "/dev/shm has 1 MiB free"),
        (replace(SOUND, shared_memory=None), ""),
    ],
)
def test_limits_that_are_too_low(machine: Machine, says: str) -> None:
    found = told(list(limits(machine)))
    assert found.startswith(says)
    assert bool(found) == bool(says)


@pytest.mark.parametrize(
    ("installed", "least", "below", "fits"),
    [
        ("1.23.0", "1.23", "", True),
        ("1.9.1", "1.23", "", False),
        ("5.0", "4.10", "5", False),
        ("4.14.0.94", "4.10", "5", True),
        ("2.0rc1", "2.0", "", True),
        ("7", "", "", True),
    ],
)
def test_versions_are_compared_as_numbers(
    installed: str, least: str, below: str, fits: bool
) -> None:
    package = Package("some", installed, least, below)
    assert package.fits is fits
    found = list(versions([Extra("cpu", "models", (package,))]))
    assert [f"some {installed} is here" in one.message for one in found] == [] if fits else [True]


def test_a_package_that_one_of_two_extras_takes_as_it_is_is_not_wrong() -> None:
    new = Extra("gpu", "", (Package("runtime", "1.25", "1.27"),))
    old = Extra("gpu-cuda12", "", (Package("runtime", "1.25", "1.23", "1.27"),))
    assert list(versions([new, old])) == []
    (found,) = versions([new])
    assert "runtime 1.25 is here, and 1.27 or later is needed for `gpu`" in found.message


def test_metadata_without_an_extra_are_told_and_not_called_installed() -> None:
    extra = Extra("cpu", "models", ())
    assert extra.state == "not known"
    assert "lack cpu" in told(list(versions([extra])))


def test_states_of_extras() -> None:
    here, absent = Package("a", "1"), Package("b", "")
    states = [Extra("x", "", packages).state for packages in ((here,), (absent,), (here, absent))]
    assert states == ["installed", "missing", "in part"]


@pytest.mark.parametrize(
    ("packages", "gpus", "says"),
    [
        ({}, (), ""),
        ({"cupy-cuda13x": "14.2"}, (), "and no NVIDIA driver is: nothing can run on a GPU"),
        ({"cupy-cuda13x": "14.2"}, (Gpu("A", 80, 12040),), "CUDA 13, and the driver is of CUDA 12"),
        ({"cupy-cuda12x": "14.2"}, (Gpu("A", 80, 13000),), ""),
        (
            {"cupy-cuda12x": "14.2", "cupy-cuda13x": "14.2"},
            (Gpu("A", 80, 13000),),
            "cupy-cuda12x and cupy-cuda13x are all installed and overwrite",
        ),
    ],
)
def test_packages_of_cupy(packages: dict[str, str], gpus: tuple[Gpu, ...], says: str) -> None:
    found = told(list(cupy(replace(SOUND, gpus=gpus), lambda name: packages.get(name, ""))))
    assert says in found
    assert bool(found) == bool(says)


def plan(folder: Path, schedule: str = "") -> Plan:
    (folder / "m.onnx").write_bytes(add_model(1, "N"))
    (folder / "s.py").write_text("import no_such_thing\n\ndef f(x):\n    return x\n")
    text = (
        'model m = onnx "m.onnx" (x: f32[N]) -> (y: f32[N])\n'
        'fn f(x: f32[N]) -> (y: f32[N]) = python "s.py:f"\n'
        "pipeline p(x: f32[N]) -> (y: f32[N]) {\n    return y = f(m(x))\n}\n"
        f"schedule p {{ {schedule} }}\n"
    )
    return compile_source(Source("p.pipe", text, folder / "p.pipe"))


def test_what_a_plan_lacks_here_is_told_without_loading_it(tmp_path: Path) -> None:
    found = told(list(lacking(plan(tmp_path, "device = gpu(1)"), SOUND, ())))
    assert "the plan asks for gpu:1, and there are no GPUs" in found
    assert "a Python stage imports `no_such_thing`" in found
    one = replace(SOUND, gpus=(Gpu("A", 80, 13000),))
    assert "and there is 1 GPU" in told(list(lacking(plan(tmp_path, "device = gpu(1)"), one, ())))


def test_a_plan_of_another_machine_and_of_a_backend_that_is_not_there(tmp_path: Path) -> None:
    made = plan(tmp_path)
    segments = tuple(
        replace(one, backend="openvino") if isinstance(one, ModelSegment) else one
        for one in made.segments
    )
    made = replace(made, target="orin-nano", segments=segments)
    extra = Extra("openvino", "", (Package("openvino", ""),))
    found = told(list(lacking(made, SOUND, [extra])))
    assert "compiled for `orin-nano`, which is aarch64, and this machine is x86_64" in found
    assert "the plan needs openvino, which is not installed (pip install 'headrace[openvino]')" in (
        found
    )


@pytest.mark.parametrize("backend", ["tensorrt", "tensorrt_rtx"])
def test_libraries_of_a_gpu_that_a_plan_needs_are_told_where_they_are_not_there(
    backend: str, tmp_path: Path
) -> None:
    schedule = f"m {{ device = gpu(0), backend = {backend}, engine {{ sizes {{ N = 4 }} }} }}"
    found = told(list(lacking(plan(tmp_path, schedule), SOUND, ())))
    wanted = (("cupy", "needs CuPy"), (backend, f"needs the Python package `{backend}`"))
    for module, said in wanted:
        there = any(find_spec(one) for one in (module, f"{module}_bindings"))
        assert (said in found) != there


def test_the_command_tells_of_a_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(tmp_path)
    monkeypatch.chdir(tmp_path)
    pipe = tmp_path / "p.pipe"
    pipe.write_text(
        'fn f(x: f32[N]) -> (y: f32[N]) = python "s.py:f"\n'
        "pipeline p(x: f32[N]) -> (y: f32[N]) {\n    return y = f(x)\n}\n"
    )
    assert main(["doctor", "p.pipe"]) == 3
    assert "wrong: a Python stage imports `no_such_thing`" in capsys.readouterr().out
