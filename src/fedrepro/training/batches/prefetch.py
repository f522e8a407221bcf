"""Items computed before they are asked for, in a thread of their own, for who is busy with something else."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

AHEAD = 4  # items that wait for who asks for them
T = TypeVar("T")


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """The same items in the same order. From the first on `MANY` are under way; what one raises is raised where it is due."""
    end = object()
    waiting: deque[Future] = deque(_thread().submit(next, items, end) for _ in range(AHEAD))
    while (item := waiting.popleft().result()) is not end:
        waiting.append(_thread().submit(next, items, end))
        yield item


@cache
def _thread() -> ThreadPoolExecutor:
    """One: the items of an iterator come one after the other."""
    return ThreadPoolExecutor(1, "ahead")
