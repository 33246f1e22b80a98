"""Named resources, of which there are so many units, and stages that need some to run: of one
engine, or of several that share them.

A stage that has a batch ready *claims* its units. Claims go round by *turn*, and at one turn in the
order in which batches became ready, by priority. A turn is a time of no clock: a claim has the turn
at which its stage has had its last run, and so much more as a run of it weighs, or the turn that it
is when it comes (start-time fair queueing). So stages that are never without work run in inverse
proportion to their weights; one that had none for long, or is new, is owed nothing; and where no
run weighs anything, as where nothing is said, it is the order alone that counts.

What cannot have its units yet keeps them for itself: nobody behind it takes of a resource that it
names, or it might wait for ever while smaller ones come and go. Resources that it does not name are
free to others. Nobody waits here: who has claimed is called when others may have left what he
wants, and asks again.
"""

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from .line import Rank
from .pump import Pump
from .standstill import standing_still

Needs: TypeAlias = Sequence[tuple[str, int]]
Head: TypeAlias = tuple[Rank, float]
"""The rank of what is to run, and since when it could."""

NO_NEEDS: Final[Needs] = ()


class Claimant(Protocol):
    """Who claims: the queues of one engine."""

    wake: Callable[[], None]
    """Called when a claim of it may run. It may lock, and must not wait."""


class Claim:
    """What a stage, by its `name`, takes for a run, which weighs so much. It waits with the `head`
    of what is to run, from its `turn` on. Nested requests that wait for it, with what is held for
    those that they are made for, are `behind` it."""

    __slots__ = ("behind", "claimant", "head", "name", "needs", "turn", "weight")

    def __init__(self, claimant: Claimant, name: str, needs: Needs, weight: float = 0.0) -> None:
        self.claimant, self.name, self.needs, self.weight = claimant, name, needs, weight
        self.head: Head = ((False, 0), 0.0)
        self.turn = 0.0
        self.behind: dict[object, tuple[Holding, ...]] = {}


class Holding:
    """What a run has taken. It is `over` when all who work for the run have given it back: at first
    it is one, who began it."""

    __slots__ = ("_units", "claim", "over", "users")

    def __init__(self, claim: Claim, units: "Units | None" = None) -> None:
        self.claim, self.over, self.users = claim, False, 1
        self._units = units

    @property
    def needs(self) -> Needs:
        return self.claim.needs

    def share(self) -> None:
        """Let it be held by one more, who works on behind the run: until `leave`. Called while it
        runs."""
        self.users += 1

    def leave(self) -> None:
        """Note that he is done, in whichever thread."""
        if self._units is not None:
            self._units.give(self, here=False)


Behind: TypeAlias = tuple[Holding, ...]


class Stock:
    """How much one engine says that there is, and the most that its stages take."""

    __slots__ = ("declared", "least")

    def __init__(self, declared: Needs, needs: Iterable[Needs]) -> None:
        self.least: dict[str, int] = {}
        for name, units in (one for stage in needs for one in stage):
            self.least[name] = max(self.least.get(name, 0), units)
        self.declared = {name: units for name, units in declared if name in self.least}


class Units:
    """How many there are, who has them and who waits. Calls may come from any thread, with a lock
    that is the claimant's; `close` ends the thread that calls claimants."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pump = Pump("headrace-units")
        self._stocks: list[Stock] = []
        self._total: dict[str, int] = {}
        self._claims: dict[Claim, None] = {}  # those that wait
        self._blocking: set[Claim] = set()  # those that have nested requests behind them
        self._held: set[Holding] = set()
        self._turn = 0.0
        self._following: dict[str, float] = {}

    def join(self, declared: Needs, needs: Iterable[Needs]) -> Stock:
        """Let stages take units: there are as many as is `declared` somewhere, else as one stage
        takes at the most. `part` follows."""
        stock = Stock(declared, needs)
        with self._lock:
            self._stocks.append(stock)
            self._count()
        return stock

    def part(self, stock: Stock) -> None:
        """Note that these stages are gone."""
        with self._lock:
            if stock in self._stocks:
                self._stocks.remove(stock)
                self._count()

    def close(self) -> None:
        self._pump.close()

    def taken(self, claimant: Claimant) -> int:
        """Return how many units the stages of a claimant have."""
        with self._lock:
            mine = (one for one in self._held if one.claim.claimant is claimant)
            return sum(units for one in mine for _, units in one.needs)

    def fit(self, needs: Needs) -> bool:
        """Whether so many are free."""
        with self._lock:
            return fits(self._free(), needs)

    def ask(self, claimant: Claimant, wanted: Mapping[Claim, Head]) -> Container[Claim]:
        """Return which of the claims of a claimant may be taken now. Those that are wanted and may
        not wait, and it is called; others of it do not wait any more."""
        with self._lock:
            gone = [one for one in self._claims if one.claimant is claimant and one not in wanted]
            for claim in gone:
                del self._claims[claim]
            later = [self._claim(claim, head) for claim, head in wanted.items()]
            if gone or any(later):  # others may have been behind them
                self._tell(claimant)
            return self._able() if wanted else ()

    def take(self, claim: Claim, head: Head) -> Holding | None:
        """Take the units of a claim, if it may; else it waits. `give` follows."""
        with self._lock:
            if self._claim(claim, head):
                self._tell(claim.claimant)
            if claim not in self._able():
                return None
            del self._claims[claim]
            self._turn = max(self._turn, claim.turn)
            self._following[claim.name] = claim.turn + claim.weight
            holding = Holding(claim, self)
            self._held.add(holding)
            return holding

    def give(self, holding: Holding, *, here: bool = True) -> None:
        """Give back what a run has taken. `here` says that its claimant looks itself what it can
        run then."""
        with self._lock:
            holding.users -= 1
            if not holding.users:
                holding.over = True
                self._held.discard(holding)
                self._tell(holding.claim.claimant if here else None)

    def wait(self, claim: Claim, request: object, behind: Behind) -> bool:
        """Note that a nested request waits for a claim, and with it what is `behind`; False where
        nobody would ever go on: what is missing is held by who waits. `go` follows."""
        with self._lock:
            claim.behind[request] = behind
            self._blocking.add(claim)
            still = standing_still(
                self._free(),
                {one: one.needs for one in self._held},
                {one: (one.needs, set().union(*one.behind.values())) for one in self._blocking},
            )
            return claim not in still

    def go(self, claim: Claim, request: object) -> None:
        """Note that a nested request waits for it no more."""
        with self._lock:
            claim.behind.pop(request, None)
            if not claim.behind:
                self._blocking.discard(claim)

    def holders(self, claim: Claim) -> list[str]:
        """Return the names of the stages that hold what a claim names."""
        names = {name for name, _ in claim.needs}
        with self._lock:
            found = [one.claim for one in self._held]
        return sorted({one.name for one in found if names & {name for name, _ in one.needs}})

    def _claim(self, claim: Claim, head: Head) -> bool:
        """Let a claim wait; return whether it did already, and is less urgent than it was."""
        before, claim.head = claim.head, head
        if claim in self._claims:
            return head > before
        claim.turn = max(self._turn, self._following.get(claim.name, 0.0))
        self._claims[claim] = None
        return False

    def _able(self) -> list[Claim]:
        """Return the claims that may run beside each other now, in their order."""
        free, kept = self._free(), set[str]()
        able: list[Claim] = []
        for claim in sorted(self._claims, key=_order):
            if fits(free, claim.needs) and kept.isdisjoint(name for name, _ in claim.needs):
                able.append(claim)
                for name, units in claim.needs:
                    free[name] -= units
            else:
                kept.update(name for name, _ in claim.needs)
        return able

    def _tell(self, claimant: Claimant | None) -> None:
        """Call those that may run: but for the one that is here, which looks itself."""
        others = (one.claimant for one in self._able() if one.claimant is not claimant)
        for other in dict.fromkeys(others):
            self._pump.do(other.wake)

    def _free(self) -> dict[str, int]:
        free = dict(self._total)
        for holding in self._held:
            for name, units in holding.needs:
                free[name] = free.get(name, 0) - units
        return free

    def _count(self) -> None:
        self._total = {}
        for stock in self._stocks:
            for name, units in stock.least.items():
                self._total[name] = max(self._total.get(name, 0), units)
        for stock in self._stocks:
            self._total |= stock.declared
        self._tell(None)  # there may be more than before


def fits(free: Mapping[str, int], needs: Needs) -> bool:
    """Whether there are so many."""
    return all(free.get(name, 0) >= units for name, units in needs)


def _order(claim: Claim) -> tuple[float, Head]:
    return claim.turn, claim.head
