"""Runs a program against tests, and counts what holds.

The tests have names of their own. Of the program they see what they ask for by name; what the prompt
defines comes from the prompt, not from the program; and their comparisons and assertions are
rewritten, so that the verdict is made here.
"""

import ast
import builtins
import copy
from dataclasses import dataclass, field
from types import CodeType

from . import budget, compare, extract
from .cases import Call, Case, Script, Stdio
from .extract import NO_FILE
from .guard import Refused, Space, at, called, compiled, test_import

#: Longest text of a failure.
_NOTE = 200
#: The file name of tests.
_TESTS = f"<tests>{NO_FILE}"


class TestsNeed(Exception):
    """The tests themselves need what is not there: they say nothing about the program."""


@dataclass
class Result:
    """Assertions and pairs, and whether each held every time."""

    held: list[bool] = field(default_factory=list)
    #: Why the first one did not.
    failure: str | None = None

    @property
    def fraction(self) -> float:
        return sum(self.held) / len(self.held) if self.held else 0.0

    @property
    def passed(self) -> bool:
        return bool(self.held) and all(self.held)


def run(program: str, prompt: str, cases: list[Case], entry_point: str | None, steps: int) -> Result:
    """Everything that the tests say about a program."""
    result = Result()
    try:
        code = compiled(program)
    except Refused as error:
        return _nothing(result, cases, str(error))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _nothing(result, cases, f"no program: {_words(error)}")
    space: Space | None = None
    for number, case in enumerate(cases, 1):
        where = f"test {number} of {len(cases)}: " if len(cases) > 1 else ""
        before = len(result.held)
        try:
            if isinstance(case, Stdio):
                _stdio(result, code, case, steps, where)
                continue
            if space is None:
                made = Space()
                made.start(steps)
                made.run(code)
                space = made
            if isinstance(case, Call):
                _call(result, space, entry_point, case, steps, where)
            else:
                _script(result, space, program, prompt, entry_point, case, steps, where)
        except TestsNeed:
            raise
        except budget.OutOfSteps:
            if len(result.held) == before:
                _failed(result, f"{where}timed out after {steps} steps")
            # A program that does not end has had its time.
            result.held += [False] * (len(cases) - number)
            return result
        except BaseException as error:
            _failed(result, f"{where}{_words(error)}")
    return result


def _nothing(result: Result, cases: list[Case], why: str) -> Result:
    result.held = [False] * len(cases)
    result.failure = why
    return result


def _failed(result: Result, why: str) -> None:
    result.held.append(False)
    result.failure = result.failure or why


def _words(error: BaseException) -> str:
    """The error's kind and text; the text may be code of the program, so it is not trusted to come."""
    kind = type.__dict__["__name__"].__get__(type(error))
    if isinstance(error, SyntaxError):
        return f"{kind}: {error.msg} (line {error.lineno})"[:_NOTE]
    try:
        text = " ".join(str(a) for a in error.args if type(a) in (str, int, float))
    except BaseException:
        text = ""
    return f"{kind}: {text}"[:_NOTE] if text else kind


def _candidate(space: Space, entry_point: str | None) -> object:
    """The function that is tested: by name, or as a method of `Solution`."""
    names = space.globals
    if entry_point is None:
        raise NameError("the row names no entry_point")
    if entry_point in names:
        return names[entry_point]
    solution = names.get("Solution")
    if solution is not None:
        return getattr(solution(), entry_point)  # type: ignore[operator]
    raise NameError(f"`{entry_point}` is not defined")


def _stdio(result: Result, code: CodeType, case: Stdio, steps: int, where: str) -> None:
    space = Space(case.stdin)
    space.start(steps)
    try:
        space.run(code)
    except SystemExit:
        pass  # Programs that read their input end so, and what they printed counts.
    printed = space.stdout.getvalue()
    if _lines(printed) == _lines(case.stdout) or printed.split() == case.stdout.split():
        result.held.append(True)
        return
    _failed(result, f"{where}printed {printed[:60]!r}, not {case.stdout[:60]!r}")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _call(
    result: Result, space: Space, entry_point: str | None, case: Call, steps: int, where: str
) -> None:
    space.start(steps)
    candidate = _candidate(space, entry_point)
    found = candidate(*copy.deepcopy(case.arguments))  # type: ignore[operator]
    if compare.alike(case.expected, found):
        result.held.append(True)
    else:
        shown = repr(found)[:60] if compare.clean(found) else type(found).__name__
        _failed(result, f"{where}returned {shown}, not {case.expected!r:.60}")


class _Sites:
    """The assertions of a script, and how each went."""

    def __init__(self, source: str, space: Space, steps: int) -> None:
        self.source = source
        #: First and last line of each assertion.
        self.lines: list[tuple[int, int]] = []
        self.went: dict[int, bool] = {}
        self.failure: str | None = None
        self._space, self._steps = space, steps

    def add(self, node: ast.Assert) -> int:
        self.lines.append((node.lineno, node.end_lineno or node.lineno))
        return len(self.lines) - 1

    def begin(self) -> None:
        self._space.start(self._steps)

    def end(self, site: int, value: object) -> None:
        if not compare.true(value):
            raise AssertionError
        self.went.setdefault(site, True)

    def fail(self, site: int, error: BaseException) -> None:
        if isinstance(error, TestsNeed):
            raise error
        self.went[site] = False
        first, last = self.lines[site]
        text = " ".join(" ".join(self.source.split("\n")[first - 1 : last]).split())
        if isinstance(error, budget.OutOfSteps):
            self.failure = self.failure or f"timed out after {self._steps} steps: {text}"[:_NOTE]
            raise error
        why = "" if type(error) is AssertionError else f" ({_words(error)})"
        self.failure = self.failure or f"{text[: _NOTE - len(why)]}{why}"


class _Assertions(ast.NodeTransformer):
    """Rewrites assertions and comparisons."""

    def __init__(self, sites: _Sites) -> None:
        self.sites = sites
        #: Names that the tests read.
        self.asked: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load):
            self.asked.add(node.id)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        site = self.sites.add(node)
        test = self.visit(node.test)

        def call(name: str, *arguments: ast.expr) -> ast.stmt:
            return at(node, ast.Expr(called(node, name, *arguments)))

        def number() -> ast.expr:
            return at(node, ast.Constant(site))

        error = at(node, ast.Name("__w_error__", ast.Load()))
        caught = at(node, ast.Name("__w_any__", ast.Load()))
        handler = at(node, ast.ExceptHandler(caught, "__w_error__", [call("__w_fail__", number(), error)]))
        return at(node, ast.Try([call("__w_begin__"), call("__w_end__", number(), test)], [handler], [], []))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return node
        arguments = [node.left]
        for op, right in zip(node.ops, node.comparators):
            arguments += [at(node, ast.Constant(type(op).__name__)), right]
        return called(node, "__w_compare__", *arguments)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return called(node, "__w_not__", node.operand) if isinstance(node.op, ast.Not) else node


def _not(value: object) -> bool:
    if not compare.clean(value):
        raise AssertionError("a value with its own opinion of truth")
    return not value


def _build_class(*arguments, **named):
    """Classes that the tests define are believed."""
    made = builtins.__build_class__(*arguments, **named)
    compare.trust(made)
    return made


def _script(
    result: Result,
    space: Space,
    program: str,
    prompt: str,
    entry_point: str | None,
    case: Script,
    steps: int,
    where: str,
) -> None:
    try:
        tree = ast.parse(case.source, _TESTS)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise TestsNeed("the tests are no Python") from None
    sites = _Sites(case.source, space, steps)
    rewriter = _Assertions(sites)
    own = set(extract.names(tree))
    code = compile(rewriter.visit(tree), _TESTS, "exec")
    asked = rewriter.asked
    names: dict[str, object] = {
        "__name__": "__tests__",
        "__builtins__": dict(
            vars(builtins), __import__=test_import, __build_class__=_build_class, print=_silent
        ),
        "__w_any__": BaseException,
        "__w_begin__": sites.begin,
        "__w_compare__": compare.compare,
        "__w_end__": sites.end,
        "__w_fail__": sites.fail,
        "__w_not__": _not,
    }
    _lend(names, asked - own, space, prompt, entry_point)
    if entry_point is None and "check" in own:
        defined = extract.parsed(program)
        functions = [n.name for n in defined.body if isinstance(n, ast.FunctionDef)] if defined else []
        entry_point = functions[-1] if functions else None
    if entry_point is not None and ("candidate" in asked or "check" in own):
        names.setdefault("candidate", _candidate(space, entry_point))
    failure: str | None = None
    try:
        space.start(steps)
        exec(code, names)
        if "check" in own and callable(names.get("check")):
            names["check"](names.get("candidate"))  # type: ignore[operator]
    except ModuleNotFoundError as error:
        # Of the tests, or of the program as they call it? The program's own import has failed before.
        if error.name and _raised_in(error) == _TESTS:
            raise TestsNeed(f"the tests need the module {error.name!r}") from None
        failure = _words(error)
    except budget.OutOfSteps:
        went = [sites.went.get(i, False) for i in range(len(sites.lines))]
        # A loop after the last assertion, or without any, is a failure too.
        result.held += went if went and not all(went) else [*went, False]
        result.failure = result.failure or where + (sites.failure or f"timed out after {steps} steps")
        raise
    except BaseException as error:
        failure = _words(error)
    result.held += [sites.went.get(i, False) for i in range(len(sites.lines))]
    if not sites.lines:
        result.held.append(failure is None)
    elif failure is not None and all(sites.went.get(i, False) for i in range(len(sites.lines))):
        result.held.append(False)
    failure = sites.failure or failure
    if failure is None and not all(sites.went.get(i, False) for i in range(len(sites.lines))):
        failure = "an assertion was never reached"
    if failure is not None:
        result.failure = result.failure or f"{where}{failure}"


def _raised_in(error: BaseException) -> str:
    """The file of the innermost frame but our own `__import__`."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        last = name if name.startswith("<") else last
        trace = trace.tb_next
    return last


def _silent(*_values: object, **_named: object) -> None:
    """Tests print for people."""


def _lend(
    names: dict[str, object], asked: set[str], space: Space, prompt: str, entry_point: str | None
) -> None:
    """Gives the tests what they ask for by name: what is tested from the program, what the prompt
    defines from the prompt, the rest from the program unless it is Python's own."""
    begun = extract.parsed(prompt) if prompt else None
    wanted = [n for n in extract.names(begun) if n in asked and n != entry_point] if begun else []
    given: dict[str, object] = {"__name__": "__prompt__"}
    if wanted:
        given["__builtins__"] = dict(
            vars(builtins), __import__=test_import, __build_class__=_build_class, print=_silent
        )
        try:
            exec(compile(prompt, f"<prompt>{NO_FILE}", "exec"), given)
        except Exception:
            given = {}
    for name in asked:
        if name in wanted and name in given:
            names[name] = given[name]
        elif name == entry_point and entry_point is not None:
            names[name] = _candidate(space, entry_point)
        elif name in space.globals and (not hasattr(builtins, name)):
            names[name] = space.globals[name]


# Whatever is believed was there before any program.
compare.trust_all()
