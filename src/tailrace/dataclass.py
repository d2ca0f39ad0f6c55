"""`@dataclass`, as in the standard library, but made in a tenth of the time.

The standard library compiles half a dozen methods of every dataclass that is imported, whoever calls them: two hundred classes, half a millisecond
each, are a sixth of what a small decode takes. Here it finds the fields and makes the slots; `__init__` is compiled when it is first asked for, and
what compares, hashes and prints goes by the fields' names. Type checkers see the standard library's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, order=False, **options):
        """With the standard library's options, but for `init`, `repr` and `unsafe_hash`."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, order=order, **options)
        if order:
            return dataclasses.dataclass(cls, frozen=frozen, order=True, **options)
        own = {name for name, value in vars(cls).items() if not (name == "__hash__" and value is None)}
        cls.__doc__ = cls.__doc__ or cls.__name__  # else it prints the signature of an __init__ that is not there
        bases_are_frozen = any(base.__dataclass_params__.frozen for base in cls.__mro__[1:] if dataclasses.is_dataclass(base))
        made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, frozen=frozen and bases_are_frozen, **options)
        for option, value in (("init", True), ("repr", True), ("eq", eq), ("frozen", frozen)):
            setattr(made.__dataclass_params__, option, value)
        methods = {"__init__": _Init(made, frozen), "__repr__": _repr}
        if eq:
            methods |= _comparing(made, frozen)
        if frozen:
            methods |= _refusing(made)
            if options.get("slots"):
                methods |= {"__getstate__": _state, "__setstate__": _set_state}
        for name in methods.keys() - own:
            setattr(made, name, methods[name])
        return made


class _Factory:
    """In a signature, stands for what a factory will make."""

    def __repr__(self) -> str:
        return "<factory>"


class _Init:
    """Stands for the `__init__` of a class until somebody looks it up."""

    def __init__(self, cls: type, frozen: bool) -> None:
        self._cls, self._frozen = cls, frozen

    def __get__(self, instance: object, owner: type) -> Any:
        init: Any = _compiled_init(self._cls, self._frozen)
        type.__setattr__(self._cls, "__init__", init)
        return init.__get__(instance, owner)


def _compiled_init(cls: Any, frozen: bool) -> Any:
    scope: dict[str, Any] = {"__set__": object.__setattr__, "__factory__": _Factory()}
    by_place: list[str] = []
    by_name: list[str] = []
    body: list[str] = []
    for field in fields(cls):
        name, value, parameter = field.name, field.name, field.name
        if field.default is not MISSING:
            scope[f"__{name}__"] = field.default
            parameter = f"{name}=__{name}__"
            value = name if field.init else f"__{name}__"
        elif field.default_factory is not MISSING:
            scope[f"__{name}__"] = field.default_factory
            parameter = f"{name}=__factory__"
            value = f"__{name}__() if {name} is __factory__ else {name}" if field.init else f"__{name}__()"
        elif not field.init:
            continue
        body.append(f"__set__(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if field.init:
            (by_name if field.kw_only else by_place).append(parameter)
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ["self", *by_place, *(["*", *by_name] if by_name else [])]
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), scope)
    init = scope["__init__"]
    init.__module__, init.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields(cls) if field.init} | {"return": None}
    return init


@recursive_repr()
def _repr(self: Any) -> str:
    told = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({told})"


def _comparing(cls: Any, frozen: bool) -> dict[str, Any]:
    compared = [field.name for field in fields(cls) if field.compare]
    hashed = [field.name for field in fields(cls) if (field.compare if field.hash is None else field.hash)]
    key = _values(compared)

    def __eq__(self: Any, other: Any) -> Any:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    hash_key = key if hashed == compared else _values(hashed)
    return {"__eq__": __eq__, "__hash__": (lambda self: hash(hash_key(self))) if frozen else None}


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)


def _refusing(cls: Any) -> dict[str, Any]:
    names = frozenset(field.name for field in fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
