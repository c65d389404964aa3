"""The tests of a row, in all the forms that data sets have them."""

import ast
import json
from dataclasses import dataclass
from typing import Any

_TESTS = ("tests", "test", "test_list", "test_cases", "input_output")


class NoTests(Exception):
    """The row has no tests, or none that can be read."""


@dataclass
class Script:
    """Code with assertions; `check(candidate)` of it is called."""

    source: str


@dataclass
class Stdio:
    """A program's input and what it must print."""

    stdin: str
    stdout: str


@dataclass
class Call:
    """Arguments of the entry point and what it must return."""

    arguments: list[Any]
    expected: Any


Case = Script | Stdio | Call


def of_row(metadata: dict[str, Any], label: str | None) -> tuple[list[Case], str | None]:
    """The row's tests and its entry point; of the metadata, else of the label."""
    entry_point = metadata.get("entry_point") or metadata.get("fn_name") or None
    found = next((metadata[key] for key in _TESTS if metadata.get(key)), None)
    if found is None:
        if label is None or not label.strip():
            raise NoTests("the row has no tests: put them into `tests` of its metadata, or into its label")
        found = label
    if isinstance(found, str):
        found = _decoded(found)
    if isinstance(found, dict):
        entry_point = entry_point or found.get("entry_point") or found.get("fn_name") or None
        inner = next((found[key] for key in _TESTS if found.get(key)), None)
        found = inner if inner is not None else found
    setup = metadata.get("test_setup_code") or metadata.get("test_imports") or ""
    setup = "\n".join(setup) if isinstance(setup, list) else str(setup)
    return _cases(found, entry_point, setup), entry_point


def _decoded(text: str) -> Any:
    """JSON, if it is a list or an object; else the text, which is code."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (list, dict)) else text


def _cases(found: Any, entry_point: str | None, setup: str) -> list[Case]:
    if isinstance(found, str):
        if not found.strip():
            raise NoTests("the row's tests are empty")
        return [Script(f"{setup}\n{found}" if setup else found)]
    if isinstance(found, dict):
        inputs, outputs = found.get("inputs"), found.get("outputs")
        if isinstance(inputs, list) and isinstance(outputs, list):
            if len(inputs) != len(outputs):
                raise NoTests(f"the row's tests have {len(inputs)} inputs and {len(outputs)} outputs")
            return _some([_pair(i, o, entry_point, False) for i, o in zip(inputs, outputs)])
        return [_one(found, entry_point, setup)]
    if isinstance(found, list):
        return _some([_one(item, entry_point, setup) for item in found])
    raise NoTests(f"tests of type {type(found).__name__} are not known")


def _some(cases: list[Case]) -> list[Case]:
    if not cases:
        raise NoTests("the row's tests are empty")
    return cases


def _one(item: Any, entry_point: str | None, setup: str) -> Case:
    if isinstance(item, str):
        return Script(f"{setup}\n{item}" if setup else item)
    if isinstance(item, dict):
        inputs = [key for key in ("input", "stdin", "args") if key in item]
        outputs = [key for key in ("output", "stdout", "expected", "expected_output") if key in item]
        if inputs and outputs:
            functional = item.get("testtype") == "functional"
            return _pair(item[inputs[0]], item[outputs[0]], entry_point, functional)
    raise NoTests("a test is a text with assertions, or an object with `input` and `output`")


def _pair(given: Any, expected: Any, entry_point: str | None, functional: bool) -> Case:
    if entry_point is None and not functional:
        joined = "\n".join(map(str, given)) if isinstance(given, list) else str(given)
        printed = "\n".join(map(str, expected)) if isinstance(expected, list) else str(expected)
        return Stdio(joined, printed)
    if isinstance(given, str):
        # An argument per line, as LiveCodeBench has them.
        arguments = [_value(line) for line in given.split("\n") if line.strip()]
        return Call(arguments, _value(expected) if isinstance(expected, str) else expected)
    arguments = given if isinstance(given, list) else [given]
    return Call(arguments, expected)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
