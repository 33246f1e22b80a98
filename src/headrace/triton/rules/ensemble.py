"""An ensemble as a whole: what it must have, and what is for its members alone."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic
from ..complete import ENSEMBLE
from ..subject import Subject

_CODE = "HR620"
_FOR_MEMBERS = {
    "instance_group": "instances are the members'",
    "optimization": "how a model is run is the members'",
    "model_warmup": "warm-ups are the members'",
}


def check(subject: Subject) -> Iterator[Diagnostic]:
    config = subject.config
    if subject.is_ensemble and config.platform != ENSEMBLE:
        yield subject.error(
            _CODE,
            f"`{subject.name}` has steps, but its platform is "
            + (f"`{config.platform}`" if config.platform else "not `ensemble`"),
            "platform" if config.platform else "ensemble_scheduling",
            help='write `platform: "ensemble"`',
        )
    if not subject.is_ensemble:
        if config.platform == ENSEMBLE:
            yield subject.error(
                _CODE,
                f"the ensemble `{subject.name}` has no steps",
                "platform",
                help="write `ensemble_scheduling { step [ ... ] }`",
            )
        return
    for name, said in _FOR_MEMBERS.items():
        if name in {one[0].name for one in subject.model.message.ListFields()}:
            yield subject.error(
                _CODE,
                f"an ensemble has no `{name}`",
                name,
                said=said,
                help=f"write `{name}` in the configurations of its members",
            )
    if not config.ensemble_scheduling.step:
        yield subject.error(_CODE, "an ensemble without steps", "ensemble_scheduling")
    for side in ("input", "output"):
        if not getattr(config, side):
            yield subject.error(
                _CODE,
                f"the ensemble `{subject.name}` has no {side}",
                help=f'write `{side} [ {{ name: "x" data_type: TYPE_FP32 dims: [ 3 ] }} ]`',
            )
