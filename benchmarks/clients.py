"""Clients that each wait for an answer before they ask again."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Asked = TypeVar("Asked")

CLIENTS = 8


class Clients:
    """Eight threads, made once."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(CLIENTS, "client")

    def ask(self, call: Callable[[Asked], object], items: Iterable[Asked]) -> None:
        """Ask for each item once; whoever is free takes the next."""
        for _ in self._pool.map(call, items):
            pass
