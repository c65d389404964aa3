"""Comparisons that the model's code has no say in.

`assert candidate(1) == 2` asks both sides, and a model can return an object that is equal to
everything. So comparisons of tests are rewritten into :func:`compare`, which asks only methods that
were there before the model's code ran, or that the tests define themselves.
"""

import operator
from collections import deque
from types import GetSetDescriptorType, MappingProxyType

#: Methods that a comparison, or what it is given to, calls.
_METHODS = (
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__contains__", "__iter__",
    "__len__", "__bool__", "__getitem__", "__next__", "__getattribute__", "__getattr__", "__float__",
    "__int__", "__index__", "__instancecheck__",
)  # fmt: skip
_SCALARS = frozenset({int, float, bool, complex, str, bytes, bytearray, range, slice, type(None), type(...)})
_SEQUENCES = (list, tuple, set, frozenset, deque)
#: Values that are looked at in one comparison; more are taken for a trick.
_MOST = 5_000_000

_mro: GetSetDescriptorType = type.__dict__["__mro__"]
_dict: GetSetDescriptorType = type.__dict__["__dict__"]


def _methods(cls: type) -> tuple[object, ...]:
    own: MappingProxyType[str, object] = _dict.__get__(cls)
    return tuple(own.get(name) for name in _METHODS)


#: Classes that are believed, with their methods as they were.
_trusted: dict[type, tuple[object, ...]] = {}


def trust(cls: type) -> None:
    """Believes a class as it is now."""
    _trusted[cls] = _methods(cls)


def trust_all() -> None:
    """Believes all classes that there are."""
    waiting = [object]
    while waiting:
        cls = waiting.pop()
        if cls not in _trusted:
            trust(cls)
            waiting += type.__subclasses__(cls)


_NONE = (None,) * len(_METHODS)


def _believed(cls: type) -> bool:
    """Whether instances of the class compare by believed methods alone."""
    for base in _mro.__get__(cls):
        now = _methods(base)
        before = _trusted.get(base, _NONE)
        if any(a is not b for a, b in zip(now, before)):
            return False
    return type(cls) in _trusted


def clean(value: object) -> bool:
    """Whether the value, with all that it holds, compares by believed methods alone."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    seen: set[int] = set()
    waiting: list[object] = [value]
    looked = 0
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind in _SCALARS:
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        if kind not in _SEQUENCES and kind is not dict and not _believed(kind):
            return False
        for base in _SEQUENCES:
            if issubclass(kind, base):
                held = list(base.__iter__(value))
                break
        else:
            held = [*dict.keys(value), *dict.values(value)] if issubclass(kind, dict) else []
        looked += len(held)
        if looked > _MOST:
            return False
        if not set(map(type, held)) <= _SCALARS:
            waiting += held
    return True


_OPERATIONS = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}


class Disbelieved(Exception):
    """A side of a comparison has its own opinion of it. An error, since `not` would make False true."""


def compare(left: object, *rest: object) -> object:
    """`left op right op right …`, with operators by their names.

    Two instances of one class of the program are compared as it says: tests that make such objects
    themselves mean that.
    """
    result: object = True
    for name, right in zip(rest[::2], rest[1::2]):
        operation = _OPERATIONS[name]  # type: ignore[index]
        if name not in ("Is", "IsNot") and not (clean(left) and clean(right)):
            same = type(left) is type(right) and type(left) not in _SEQUENCES and type(left) is not dict
            if not same:
                raise Disbelieved(f"a {type(left).__name__} and a {type(right).__name__} are not compared")
        result = operation(left, right)
        if not true(result):
            return result
        left = right
    return result


def true(value: object) -> bool:
    """Whether a value is true; one that has its own opinion of that is not."""
    return clean(value) and bool(value)


def alike(expected: object, found: object) -> bool:
    """Equality of an expected JSON value and a returned one: tuples are lists, floats are close."""
    return clean(found) and _alike(expected, found)


def _alike(expected: object, found: object) -> bool:
    if isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
        return len(expected) == len(found) and all(map(_alike, expected, found))
    if isinstance(expected, dict) and isinstance(found, dict):
        # JSON's keys are strings.
        named = {str(key): value for key, value in found.items()}
        return len(named) == len(found) and {str(k) for k in expected} == named.keys() and all(
            _alike(value, named[str(key)]) for key, value in expected.items()
        )
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        if isinstance(expected, float) or isinstance(found, float):
            return expected == found or abs(expected - found) <= 1e-9 * max(abs(expected), abs(found))
    return expected == found
