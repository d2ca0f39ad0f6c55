"""Several decodings at once on one runner: the stages that they come to at the same time are one call of it.

A job of Spark costs some 50 ms whatever it does, and a small case takes half a dozen. Stages are pure functions over items, so items of several
cases, each with its own function, may share a job; everything travels as it would alone.

In: a runner, and functions that take a runner. Out: what each returned, or the error that it raised. A call is made once every function that still
runs has come to one, so the cases go in step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, TypeVar

from tailrace.pipeline import Runner

Result = TypeVar("Result")


def together(runner: Runner, tasks: Sequence[Callable[[Runner], Result]]) -> list[Future[Result]]:
    """Run all of them, each on a thread and with a runner of its own."""
    steps = _Steps(runner, len(tasks))
    with ThreadPoolExecutor(max(1, len(tasks))) as pool:
        return [pool.submit(steps.follow, task) for task in tasks]


def _applying() -> Callable[[tuple[Callable[[Any], Any], Any]], tuple[bool, Any]]:
    """What runs in a worker, which cannot import from the tests: so it travels by value."""

    def apply(item: tuple[Callable[[Any], Any], Any]) -> tuple[bool, Any]:
        work, argument = item
        try:
            return True, work(argument)
        except Exception as error:
            return False, error  # one case's, and told to that one alone

    return apply


@dataclass
class _Steps:
    """`waiting` are calls that have been asked for; `running` counts the tasks that have not ended."""

    runner: Runner
    running: int
    waiting: list[tuple[list[Any], Future[list[Any]]]] = field(default_factory=list)
    heavy: bool = False
    changed: Condition = field(default_factory=Condition)

    def follow(self, task: Callable[[Runner], Result]) -> Result:
        try:
            return task(_Follower(self))
        finally:
            with self.changed:
                self.running -= 1
                self._step()

    def ask(self, items: list[Any], *, heavy: bool) -> Future[list[Any]]:
        answer: Future[list[Any]] = Future()
        with self.changed:
            self.waiting.append((items, answer))
            self.heavy |= heavy
            self._step()
        return answer

    def _step(self) -> None:
        """Answer all, if nobody is still on the way. Whoever comes last does it for all."""
        if not self.waiting or len(self.waiting) < self.running:
            return
        asked, heavy = self.waiting, self.heavy
        self.waiting, self.heavy = [], False
        try:
            results = iter(list(self.runner.run(_applying(), [item for items, _ in asked for item in items], heavy=heavy)))
            for items, answer in asked:
                answer.set_result([next(results) for _ in items])
        except Exception as error:
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(error)


@dataclass(frozen=True)
class _Follower:
    """The runner of one task."""

    steps: _Steps

    def stretch_bytes(self, size: int) -> int:
        return self.steps.runner.stretch_bytes(size)

    def run(self, work: Callable[[Any], Any], items: Sequence[Any], *, heavy: bool = False) -> Iterator[Any]:
        if not items:
            return
        for fine, outcome in self.steps.ask([(work, item) for item in items], heavy=heavy).result():
            if not fine:
                raise outcome
            yield outcome
