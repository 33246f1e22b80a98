"""What an ensemble is made of, the ensembles in it included."""

from ..subject import Subject


def members(subject: Subject) -> list[Subject]:
    """Return a model and, of an ensemble, all that it is made of."""
    found, waiting = dict[str, Subject](), [subject]
    while waiting:
        one = waiting.pop(0)
        if one.name in found:
            continue
        found[one.name] = one
        for step in one.config.ensemble_scheduling.step:
            member = one.others.named(step.model_name)
            waiting += [] if member is None else [member]
    return list(found.values())
