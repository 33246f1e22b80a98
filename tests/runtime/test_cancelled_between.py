"""A request that is cancelled at the very moment at which it comes to the next stage."""

from headrace.compiler.plan import Batching
from headrace.runtime.simulate import Outcome, Simulation
from headrace.runtime.stage import Stage
from headrace.runtime.task import Strand
from tests.runtime.test_overload import Stages, ask


class Cancelling(Simulation):
    """Lets rows run at once where they may, as workers do, and cancels a request there."""

    going: Outcome | None = None

    def enter(self, strand: Strand, stage: Stage, count: int) -> bool:
        if stage.policy is None:
            return True
        if self.going is not None and strand.task is self.going.task:
            self.cancel(self.going)
        return self._scheduler.enter(strand, stage, count, self.now)

    def leave(self, strand: Strand, stage: Stage) -> None:
        if stage.policy is not None:
            self._scheduler.strands.leave(strand, stage)


def test_it_is_expected_nowhere_any_more() -> None:
    maker = Stages().stage("first").stage("second", batching=Batching(4))
    maker.stage("third", batching=Batching(4, 100.0)).chain("p", 0, 1, 2)
    simulation = Cancelling(maker.plan(), workers=1)
    simulation.going = ask(simulation)
    simulation.run()
    following = ask(simulation)
    simulation.run()
    assert following.fault is None
    assert following.at is not None
    assert following.at < 1
    assert simulation.leftovers == {}
    simulation.close()
