"""Our dataclasses are the standard library's, made later."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, is_dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tailrace
from tailrace.dataclass import dataclass

SHAPES = """
from __future__ import annotations
from dataclasses import field
from typing import Any, ClassVar

@dataclass(frozen=True, slots=True)
class Frozen:
    'Words.'
    SIDES: ClassVar = 4
    first: int
    second: tuple[int, ...] = ()
    third: list[int] = field(default_factory=list)
    fourth: str = field(default="x", compare=False, repr=False)

@dataclass(frozen=True, slots=True)
class Longer(Frozen):
    fifth: bytes = b""

@dataclass(slots=True)
class Slots:
    first: int
    counted: dict[str, int] = field(default_factory=dict, repr=False)
    later: int = field(init=False)
    fixed: frozenset[int] = field(init=False, default=frozenset())
    made: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.later = self.first + 1

@dataclass
class Plain:
    first: int = 1
    other: Any = None

@dataclass(frozen=True, slots=True, kw_only=True)
class ByName:
    first: int
    second: int = 2

@dataclass(frozen=True, slots=True, order=True)
class Ordered:
    first: int
    second: int = 2

@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    first: int

@dataclass(frozen=True)
class Own:
    first: int

    def __eq__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "own"

@dataclass(frozen=True, slots=True)
class Hashed:
    first: int
    last: int = field(default=0, hash=False)

    def __hash__(self) -> int:
        return 17

@dataclass(slots=True, weakref_slot=True)
class Nothing:
    pass
"""


def _shapes(name: str, made: Any) -> dict[str, Any]:
    """One class of each shape, as `made` makes it."""
    module = sys.modules[name] = ModuleType(name)
    vars(module)["dataclass"] = made
    exec(SHAPES, vars(module))
    return {name: each for name, each in vars(module).items() if is_dataclass(each)}


OURS, THEIRS = _shapes("shapes_of_ours", dataclass), _shapes("shapes_of_theirs", dataclasses.dataclass)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((1,), {}), ((1, (2,)), {}), ((1, 2, 3), {"fourth": "y"}), ((1,), {"first": 1}), ((), {"first": 1}), ((2,), {"last": 5}),
    ((1,), {"later": 1}), ((), {"second": 9, "first": 1}), ((1, 2, 3, 4, 5, 6), {}), ((1,), {"nonesuch": 1}), ((1,), {"counted": {"a": 1}}),
]  # fmt: skip


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


def _uses(value: Any) -> Iterator[Any]:
    yield repr(value)
    yield value == 1, value in [value], value == copy.copy(value)
    yield dataclasses.asdict(value)
    yield repr(copy.deepcopy(value))
    yield repr(pickle.loads(pickle.dumps(value)))
    yield _outcome(lambda: repr(dataclasses.replace(value, first=7)))
    yield _outcome(lambda: sorted([value, value]) and None)
    yield _outcome(lambda: hash(value) == hash(copy.copy(value)))
    yield _outcome(lambda: setattr(value, "first", 3))
    yield _outcome(lambda: delattr(value, "first"))


def _told(cls: Any) -> Iterator[Any]:
    """What can be seen of a class, and of what is made of it."""
    yield (
        str(inspect.signature(cls)),
        str(cls.__dataclass_params__),
        cls.__match_args__,
        getattr(cls, "__slots__", None),
        cls.__hash__ is None,
    )
    made = [_outcome(lambda args=args, named=named: cls(*args, **named)) for args, named in CALLS]
    assert not all(isinstance(each, str) for each in made)
    for value in made:
        yield value if isinstance(value, str) else list(_uses(value))


@pytest.mark.parametrize("name", OURS)
def test_whatever_is_done_with_one_comes_out_alike(name: str) -> None:
    assert list(_told(OURS[name])) == list(_told(THEIRS[name]))


def test_hashes_go_by_what_is_compared() -> None:
    one, same, other = (OURS["Frozen"](1, (2,), third, fourth) for third, fourth in (((), "x"), ((), "y"), ((1,), "x")))
    assert (one == same, hash(one) == hash(same), one == other, len({one, same, other})) == (True, True, False, 2)


def test_an_array_is_equal_to_itself() -> None:
    """As in a tuple, where what is the same is not compared."""
    array = np.arange(3)
    assert OURS["Plain"](array) == OURS["Plain"](array)


def test_one_within_itself_can_be_printed() -> None:
    value = OURS["Plain"](1)
    value.other = value
    assert repr(value).endswith("(first=1, other=...)")


def test_nothing_frozen_is_written_to() -> None:
    for name in ("first", "nonesuch"):
        with pytest.raises(FrozenInstanceError):
            setattr(OURS["Frozen"](1), name, 2)


@pytest.mark.parametrize(("base", "derived"), [(dataclass, dataclasses.dataclass), (dataclasses.dataclass, dataclass)])
def test_one_kind_may_be_derived_from_the_other(base: Any, derived: Any) -> None:
    @base(frozen=True, slots=True)
    class One:
        first: int

    @derived(frozen=True, slots=True)
    class Two(One):
        second: int = 2

    assert (Two(1), Two(1).second, len({Two(1), Two(1), One(1)})) == (Two(1, 2), 2, 2)
    with pytest.raises(FrozenInstanceError):
        Two(1).first = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        derived(type("Three", (One,), {}))


def _ours() -> Iterator[type]:
    for module in pkgutil.walk_packages(tailrace.__path__, "tailrace."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__ == module.name and dataclasses.is_dataclass(value):
                    yield value


def test_an_init_takes_what_the_fields_say() -> None:
    """In every dataclass of ours, as the standard library would have it."""
    seen = 0
    for cls in _ours():
        told = [each for each in dataclasses.fields(cls) if each.init]
        by_place = [each.name for each in told if not each.kw_only]
        parameters = list(inspect.signature(cls).parameters.values())
        assert [each.name for each in parameters] == [*by_place, *(each.name for each in told if each.kw_only)], cls
        without = {each.name for each in parameters if each.default is each.empty}
        assert without == {each.name for each in told if each.default is each.default_factory is dataclasses.MISSING}, cls
        seen += 1
    assert seen > 400


def test_importing_one_compiles_nothing() -> None:
    program = (
        "import builtins, sys\nfrom tailrace.dataclass import dataclass\ncompiled = []\nplain = builtins.exec\n"
        "builtins.exec = lambda *args: (compiled.append(args[0]), plain(*args))[1]\n"
        "@dataclass(frozen=True, slots=True)\nclass Pair:\n    one: int\n    two: int = 2\n"
        "print(len(compiled)); Pair(1); Pair(2); print(len(compiled))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]
