"""What a script asks of other models, and is given of its own request."""

import ast
from dataclasses import dataclass, field

from ....dsl.diagnostic import CompileError
from ...subject import Subject
from ..decoupled import is_decoupled
from ..draft import Draft
from ..ensembles import Ask, ask
from ..members import members
from ..tensors import Tensor as Declared
from ..tensors import tensor
from .values import Answer, Array, Asking, Kept, Tensor


@dataclass(slots=True)
class Asker:
    """`whole` says that tensors are those of a request, its batch axis included; `inside` are the
    names of inputs in the source. `always` is a stage that each request runs, "" before one is
    known, and `depth` how many ways and loops are around what is read."""

    draft: Draft
    subject: Subject
    whole: bool
    inside: dict[str, str]
    always: str = ""
    depth: int = 0
    asked: list[Subject] = field(default_factory=list[Subject])

    @property
    def batches(self) -> bool:
        return self.subject.config.max_batch_size > 0

    def given(self, node: ast.AST, name: str) -> Tensor | None:
        """Return an input of the request, None where there is none of that name."""
        for one in map(tensor, self.subject.config.input):
            if one.name == name:
                if one.optional:
                    raise Kept(node, f"the input `{name}` may be missing")
                front = (-1,) if self.whole and self.batches else ()
                return Tensor(name, Array(self.inside[name], one.dtype, (*front, *one.dims)))
        return None

    def ask(self, node: ast.AST, one: Asking) -> Answer:
        """Write what asks a model; return its answer."""
        member = self.draft.around.others.named(one.model)
        if member is None:
            raise Kept(node, f"it asks `{one.model}`, which is not in the repository")
        parts = members(member)
        if any(map(is_decoupled, parts)):
            raise Kept(node, f"`{one.model}` answers any number of times")
        if any(part.config.HasField("sequence_batching") for part in parts):
            raise Kept(node, f"`{one.model}` has sequences")
        if self.subject in parts:
            raise Kept(node, f"`{one.model}` is made of what asks it")
        outputs = {out.name: out for out in map(tensor, member.config.output)}
        wanted = one.wanted or tuple(outputs)
        inputs = {each.name: each for each in map(tensor, member.config.input)}
        given = {each.name: each.array for each in one.inputs}
        for name in (*given, *(each for each in inputs if not inputs[each].optional)):
            if name not in given or name not in inputs:
                said = "is not given" if name in inputs else "is no input"
                raise Kept(node, f"`{name}` {said} of `{one.model}`")
        for name in wanted:
            if name not in outputs:
                raise Kept(node, f"`{one.model}` has no output `{name}`")
        first = len(self.draft.settings.stages)
        try:
            made = ask(
                self.draft,
                Ask(
                    self.subject,
                    ("backend",),
                    member,
                    one.version,
                    {name: array.code for name, array in sorted(given.items())},
                    {name: name for name in wanted},
                    rows=self.batches and not self.whole,
                ),
            )
        except CompileError as error:
            raise Kept(node, error.diagnostics[0].message) from None
        if not self.depth and not self.always:
            stages = list(self.draft.settings.stages)
            self.always = stages[first] if len(stages) > first else ""
        self.asked.append(member)
        front = self._front(node, member, given)
        return Answer(tuple(_answered(outputs[name], made[name], front) for name in wanted))

    def _front(self, node: ast.AST, member: Subject, given: dict[str, Array]) -> tuple[int, ...]:
        """Return the batch axis of what a member answers, where it is one of the script's."""
        if member.config.max_batch_size == 0 or not (self.whole or not self.batches):
            return ()
        if any(not array.dims for array in given.values()):
            raise Kept(node, f"`{member.name}` is given a single value for rows")
        return (next(iter(given.values())).dims[0],)


def _answered(one: Declared, code: str, front: tuple[int, ...]) -> Tensor:
    return Tensor(one.name, Array(code, one.dtype, (*front, *one.dims)))
