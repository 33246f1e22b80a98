"""A plan with every kind of step, and files of plans taken apart and put together."""

import zipfile
from hashlib import sha256
from io import BytesIO
from typing import Any, TypeAlias

import pytest

from headrace.compiler.plan import (
    Batching,
    Block,
    BranchStep,
    CallStep,
    Check,
    CheckStep,
    Declined,
    EachStep,
    Isolation,
    MemoryPlan,
    ModelSegment,
    OpSegment,
    Parameter,
    PipelinePlan,
    Place,
    Plan,
    Priorities,
    PythonSegment,
    Queueing,
    Sequencing,
    Service,
    SwitchStep,
    TransferStep,
)
from headrace.compiler.plan_file import (
    FORMAT_VERSION,
    PlanError,
    read,
)
from headrace.dsl.types import (
    ANY_DIM,
    DimArith,
    DimVar,
    DType,
    Field,
    ListType,
    OptionalType,
    Signature,
    TensorType,
)
from headrace.stdlib.op import Literal

Keys: TypeAlias = "tuple[str | int, ...]"


HEAD = b"headrace plan %d\n" % FORMAT_VERSION


H = DimVar("H", 3)


IMAGE = TensorType(DType.F32, (3, DimArith("*", DimArith("/", H, 2), 2), ANY_DIM))


BOXES = ListType(TensorType(DType.F32, (4, 2)), 1000)


PLACE = Place("a.pipe", 7, 5, 'x = f("é")')


MODEL = bytes(range(256)) * 8


SOURCE = b"def f(x):\n    return x\n"


def digest_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def make_plan(literal: Literal = None) -> Plan:
    """A small plan with every kind of step and segment in it."""
    onnx = ModelSegment(
        name="detect",
        members=("image.normalize", "detect"),
        model=digest_of(MODEL),
        signature=Signature((Field("x", IMAGE),), (Field("y", IMAGE),)),
        input_names=("x",),
        output_names=("y",),
        input_axes=(0,),
        output_axes=(None,),
        device="sim",
        batching=Batching(8, 0.001, (4, 8)),
        group=1,
        instances=2,
        queueing=Queueing(16, 0.5, "reject", True, ((2, Queueing(4, 0.1, "delay")),)),
        service=Service(Priorities(3, 2), 1 << 20, (1, 8), (("dsp", 1),), (0, 1), 2),
        checks=(Check(DimArith("%", H, 32), "==", 0, "H % 32 == 0"),),
        place=PLACE,
    )
    python = PythonSegment(
        name="quads",
        source=digest_of(SOURCE),
        file="ocr.py",
        attribute="f",
        signature=Signature((Field("x", IMAGE),), (Field("b", BOXES),)),
        batched=False,
        batching=None,
        queueing=None,
        checks=(),
        place=PLACE,
        service=Service(isolation=Isolation(2 << 30, 5.0)),
    )
    op = OpSegment("core.cast", "core.cast", (OptionalType(BOXES),), PLACE)
    arm = Block((), ((5, 0),), (), (), (0,), 1, ())
    each = Block((0,), (), (), (CallStep(2, (0,), (1,), PLACE),), (1,), 2, ((0,),))
    steps = (
        TransferStep(0, 2, "sim", PLACE),
        CallStep(0, (2,), (3,), PLACE),
        CheckStep(Check(H, "==", 32, "H == 32"), ((H, 3, 1),), "detect", PLACE),
        TransferStep(3, 4, "cpu", PLACE),
        CallStep(1, (4,), (5,), PLACE),
        BranchStep(1, arm, arm, (6,), PLACE),
        SwitchStep(1, ((("en", 1, True), arm), ((2.5, None), arm)), arm, (7,), PLACE),
        EachStep((7,), each, False, (8,), (BOXES,), PLACE),
    )
    body = Block(
        params=(0,),
        captures=(),
        constants=((1, literal, TensorType(DType.BOOL)),),
        steps=steps,
        results=(6, 8),
        slots=9,
        last_uses=((0,), (2,), (), (3,), (4,), (), (1, 5), (7,)),
    )
    pipeline = PipelinePlan(
        name="p",
        parameters=(Parameter(Field("x", IMAGE), True, literal),),
        results=(Field("a", BOXES), Field("b", BOXES)),
        body=body,
        batch=32,
        deadline=2.0,
        queueing=Queueing(4, None, "delay"),
        place=PLACE,
        idle=60.0,
        priority=Priorities(2, 1),
        sequencing=Sequencing("oldest", 100, 8),
    )
    return Plan(
        producer="0.1.0",
        pipelines=(pipeline,),
        segments=(onnx, python, op),
        memory=(MemoryPlan("p", "cpu", 10, 9, 20, ("logits",)),),
        explanation=(("plan", "%0 x f32[3, H]\n"),),
        declined=(Declined("p", "fuse", "detect", "has two consumers", PLACE),),
        blobs=((digest_of(MODEL), MODEL), (digest_of(SOURCE), SOURCE)),
        resources=(("dsp", 2),),
    )


def rebuilt(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A file with a truthful header around any members at all."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return sealed(buffer.getvalue())


def sealed(body: bytes) -> bytes:
    return HEAD + b"sha256 %s %d\n%s" % (digest_of(body).encode(), len(body), body)


def members_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def literal_of(plan: Plan) -> Any:  # Any: the tests say which literal it is
    return plan.pipelines[0].parameters[0].default


def refusal(content: bytes) -> PlanError:
    with pytest.raises(PlanError) as caught:
        read(content)
    return caught.value
