"""Prefetching of an iterator in a background thread."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

AHEAD = 4  # items that are computed in advance
T = TypeVar("T")


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the items in the same order, `AHEAD` of them computed in advance; an item's error is raised in its place."""
    end = object()
    waiting: deque[Future] = deque(_thread().submit(next, items, end) for _ in range(AHEAD))
    while (item := waiting.popleft().result()) is not end:
        waiting.append(_thread().submit(next, items, end))
        yield item


@cache
def _thread() -> ThreadPoolExecutor:
    """Return a pool of one thread, since the items of an iterator come one after the other."""
    return ThreadPoolExecutor(1, "prefetch")
