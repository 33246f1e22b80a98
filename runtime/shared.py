"""What several plans use together: made once for each key, closed by the last who gives it back.

Two versions of a plan mostly hold the same models. With one `Shared` between them a model that both
have, on the same device and with the same settings, is in memory once.
"""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast


class Closable(Protocol):
    def close(self) -> object: ...


Thing = TypeVar("Thing", bound=Closable)


@dataclass(slots=True, eq=False)
class _Place:
    """`making` is held while the thing is made or closed, which may take long and blocks no other
    key; `users` is guarded by the lock of all."""

    making: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    thing: Closable | None = None


class Shared:
    """Calls may come from any thread."""

    def __init__(self) -> None:
        self._places: dict[Hashable, _Place] = {}
        self._forgotten: list[_Place] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many things are in use."""
        with self._lock:
            return len(self._places) + len(self._forgotten)

    def take(self, key: Hashable, make: Callable[[], Thing]) -> Thing:
        """Return what `key` stands for, which the first of its users makes.

        The key says all that it depends on. `give_back` must follow, unless `make` raised: then the
        next who asks tries again.
        """
        with self._lock:
            place = self._places.setdefault(key, _Place())
            place.users += 1
        try:
            with place.making:
                if place.thing is None:
                    place.thing = make()
                return cast("Thing", place.thing)  # one kind of key, one kind of thing
        except BaseException:
            self._leave(key, place)
            raise

    def forget(self, key: Hashable) -> None:
        """Let who asks next have another; who has it already keeps it."""
        with self._lock:
            place = self._places.pop(key, None)
            if place is not None:
                self._forgotten.append(place)

    def give_back(self, key: Hashable, thing: Closable) -> None:
        """Note that one user of a thing is done; the last one closes it."""
        with self._lock:
            place = self._places.get(key)
            if place is None or place.thing is not thing:
                place = next(one for one in self._forgotten if one.thing is thing)
        self._leave(key, place)

    def _leave(self, key: Hashable, place: _Place) -> None:
        with self._lock:
            place.users -= 1
            if place.users:
                return
            if self._places.get(key) is place:
                del self._places[key]
            else:
                self._forgotten.remove(place)
        thing, place.thing = place.thing, None
        if thing is not None:
            thing.close()
