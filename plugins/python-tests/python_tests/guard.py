"""What the model's code may use: pure parts of the standard library, and none of the checker.

The sandbox itself is WebAssembly: there are no files, no network and no clock, whatever the code
does. This is about honesty within it, so that a program cannot read the tests from a caller's frame,
put its own functions in the place of those that the tests use, or reach the verdict. The code's
tree is checked and rewritten, it has builtins and modules of its own, and the ways from an object to
the interpreter's insides are closed.
"""

import ast
import builtins
import importlib
import io
import operator
import posixpath
import re
import string
import sys
import types
from types import CodeType, FunctionType, ModuleType

from .budget import counter
from .extract import NO_FILE

#: Attributes that lead from an object to frames, code or the interpreter.
DENIED = frozenset(
    "f_back f_globals f_locals f_builtins f_code f_trace tb_frame tb_next gi_frame gi_code gi_yieldfrom "
    "cr_frame cr_code cr_await cr_origin ag_frame ag_code ag_await __globals__ __builtins__ __code__ "
    "__closure__ __subclasses__ __getattribute__ __loader__ __spec__ __reduce__ __reduce_ex__ __defaults__ "
    "__kwdefaults__ __traceback__ _getframe _current_frames co_consts "
    "co_code __mro_entries__ __init_subclass__ __set_name__ _getframemodulename".split()
)
#: Attributes that are looked up by a function of ours.
_REWRITTEN = {"format": "__w_attribute__", "format_map": "__w_attribute__", "__dict__": "__w_attribute__"}

#: Imported while the component is made; later there is nothing to import from.
_PURE = (
    "abc array ast base64 binascii bisect calendar cmath collections collections.abc colorsys contextlib copy "
    "copyreg csv dataclasses datetime decimal difflib enum fractions functools graphlib hashlib heapq html "
    "itertools json keyword math numbers operator pprint queue random re secrets statistics string "
    "struct textwrap types typing unicodedata unittest urllib urllib.parse uuid zlib __future__"
).split()
#: Of those, what tests may use and the model's code may not.
_TESTS_ONLY = {"ast", "copyreg", "unittest", "secrets", "uuid", "queue"}
#: Names that are left out of a module's copy.
_WITHOUT = {
    "typing": {"get_type_hints", "ForwardRef"},
    "string": {"Formatter"},
    "types": {"FunctionType", "LambdaType", "CodeType", "FrameType", "TracebackType", "CellType"},
    "functools": {"singledispatchmethod"},
}


def _imported() -> dict[str, ModuleType]:
    found = {}
    for name in _PURE:
        try:
            found[name] = importlib.import_module(name)
        except Exception:  # This Python lacks it.
            continue
    return found


_MODULES = _imported()


class Refused(Exception):
    """The program does what no solution needs."""


class Console(io.StringIO):
    """What the program prints, up to a limit."""

    limit = 1 << 20

    def write(self, text: str) -> int:
        if self.tell() + len(text) > self.limit:
            raise Refused(f"it prints more than {self.limit} characters")
        return super().write(text)


class _Rewriter(ast.NodeTransformer):
    """Refuses names that lead to the insides, lets guarded attributes go through a function, and
    counts the rounds of loops and the calls of functions."""

    def _counted(self, node):
        self.generic_visit(node)
        start = 1 if isinstance(node, _FUNCTIONS) and ast.get_docstring(node, clean=False) is not None else 0
        node.body.insert(start, at(node, ast.Expr(_step(node))))
        return node

    visit_For = visit_AsyncFor = visit_While = visit_FunctionDef = visit_AsyncFunctionDef = _counted

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        node.body = at(node, ast.BoolOp(ast.And(), [_step(node), node.body]))
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs.insert(0, _step(node.iter))
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        _allowed(node.attr)
        self.generic_visit(node)
        if node.attr in _REWRITTEN and isinstance(node.ctx, ast.Load):
            return called(node, _REWRITTEN[node.attr], node.value, at(node, ast.Constant(node.attr)))
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        _allowed(node.id)
        if node.id.startswith("__w_"):
            raise Refused(f"it uses the name `{node.id}`")
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):
            found = _SPELLED.search(node.value)
            if found:
                raise Refused(f"it spells `{found[0]}`")
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        for name in node.kwd_attrs:
            _allowed(name)
        return self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> ast.AST:
        _allowed(node.name)
        return node


_SPELLED = re.compile(r"(?<!\w)(?:" + "|".join(DENIED) + r")(?!\w)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def at(place: ast.AST, new):
    """A new node at the place of another."""
    new.lineno, new.col_offset = place.lineno, place.col_offset  # type: ignore[attr-defined]
    return new


def called(place: ast.AST, function: str, *arguments: ast.expr) -> ast.Call:
    """A call of one of our functions, at the place of a node."""
    return at(place, ast.Call(at(place, ast.Name(function, ast.Load())), list(arguments), []))


def _step(place: ast.AST) -> ast.Call:
    return called(place, "__w_step__")


def _allowed(name: str) -> None:
    if name in DENIED:
        raise Refused(f"it uses `{name}`")


def compiled(source: object, filename: str = "<response>", mode: str = "exec") -> CodeType:
    """A program of the model, checked and rewritten. Raises as `compile` does, or `Refused`."""
    filename += NO_FILE
    tree = source if isinstance(source, ast.AST) else ast.parse(source, filename, mode)  # type: ignore[call-overload]
    tree = _Rewriter().visit(tree)
    return compile(tree, filename, mode, dont_inherit=True)


def _name(name: object) -> str:
    if type(name) is not str:
        raise TypeError("attribute name must be string")
    if name in DENIED:
        raise AttributeError(f"`{name}` is not there")
    return name


def attribute(value: object, name: str) -> object:
    """Attributes that would otherwise lead around the checks."""
    if name == "__dict__":
        if isinstance(value, (type, ModuleType, FunctionType)):
            return {}
        return value.__dict__
    if isinstance(value, str):
        method = str.format if name == "format" else str.format_map

        def formatted(*arguments: object, **named: object) -> str:
            for _, field, spec, _ in string.Formatter().parse(str(value)):
                if any(denied in text for text in (field or "", spec or "") for denied in DENIED):
                    raise AttributeError("this format reaches inside")
            return method(value, *arguments, **named)  # type: ignore[arg-type]

        return formatted
    return getattr(value, name)


def _getattr(value: object, name: object, *default: object) -> object:
    if _name(name) in _REWRITTEN:
        return attribute(value, name)  # type: ignore[arg-type]
    return getattr(value, name, *default)  # type: ignore[arg-type]


def _hasattr(value: object, name: object) -> bool:
    return type(name) is str and name not in DENIED and hasattr(value, name)


def _setattr(value: object, name: object, new: object) -> None:
    setattr(value, _name(name), new)


def _delattr(value: object, name: object) -> None:
    delattr(value, _name(name))


def _attrgetter(*names: str):
    for name in names:
        for part in str(name).split("."):
            _name(part)
    return operator.attrgetter(*[str(name) for name in names])


def _methodcaller(name: str, *arguments: object, **named: object):
    return operator.methodcaller(_name(name), *arguments, **named)


class _System(ModuleType):
    """A module whose missing parts say what they lack."""

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"`{self.__name__}.{name}` is not there: the program runs without a system")


class Space:
    """The names of one program: its globals, builtins and modules, all its own."""

    def __init__(self, stdin: str = "") -> None:
        self.stdin = io.StringIO(stdin)
        self.stdout = Console()
        self._modules: dict[str, ModuleType] = {}
        self.builtins = dict(vars(builtins))
        self.builtins.update(
            __import__=self._import,
            __w_attribute__=attribute,
            breakpoint=_absent("breakpoint"),
            compile=self._compile,
            delattr=_delattr,
            eval=self._eval,
            exec=self._exec,
            exit=_exit,
            getattr=_getattr,
            hasattr=_hasattr,
            help=_absent("help"),
            input=self._input,
            memoryview=memoryview,
            open=_absent("open"),
            print=self._print,
            quit=_exit,
            setattr=_setattr,
            vars=self._vars,
        )
        self.globals: dict[str, object] = {"__name__": "__main__", "__builtins__": self.builtins}

    def start(self, steps: int) -> None:
        """A fresh budget for what runs next."""
        self.builtins["__w_step__"] = counter(steps)

    def run(self, code: CodeType) -> None:
        """Executes a compiled program."""
        exec(code, self.globals)

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        if level:
            raise ImportError("a program of one file has no package")
        module = self._module(name)
        if fromlist or "." not in name:
            return module
        return self._module(name.split(".")[0])

    def _module(self, name: str) -> ModuleType:
        if name not in self._modules:
            made = {"sys": self._sys, "os": _os, "os.path": _path, "time": _time, "io": _io}.get(name)
            if made is not None:
                self._modules[name] = made()
            elif name == "builtins":
                module = ModuleType("builtins")
                module.__dict__.update(self.builtins)
                self._modules[name] = module
            elif name in _MODULES and name not in _TESTS_ONLY:
                self._modules[name] = self._copy(_MODULES[name])
            else:
                raise ModuleNotFoundError(f"no module named {name!r} here", name=name)
        return self._modules[name]

    def _copy(self, module: ModuleType) -> ModuleType:
        """The module with a namespace of its own, so that changing it changes nothing for others."""
        copy = ModuleType(module.__name__, module.__doc__)
        self._modules[module.__name__] = copy
        without = _WITHOUT.get(module.__name__, ())
        for name, value in vars(module).items():
            if name in DENIED or name in without:
                continue
            if isinstance(value, ModuleType):
                # `collections.abc`, `urllib.parse`; others are of no concern to a program.
                if value.__name__ != f"{module.__name__}.{name}" or value.__name__ not in _MODULES:
                    continue
                value = self._module(value.__name__)
            copy.__dict__[name] = value
        if "__all__" in copy.__dict__:
            copy.__dict__["__all__"] = [name for name in module.__all__ if name in copy.__dict__]
        if module is operator:
            copy.__dict__.update(attrgetter=_attrgetter, methodcaller=_methodcaller)
        return copy

    def _sys(self) -> ModuleType:
        made = _System("sys")
        for name in (
            "byteorder float_info getrecursionlimit getsizeof hash_info int_info intern maxsize maxunicode "
            "version version_info get_int_max_str_digits set_int_max_str_digits"
        ).split():
            setattr(made, name, getattr(sys, name))
        made.argv, made.path, made.modules, made.platform = ["main.py"], [], {}, "wasi"
        made.stdin, made.stdout, made.stderr = self.stdin, self.stdout, Console()
        made.exit = _exit
        made.setrecursionlimit = lambda n: sys.setrecursionlimit(max(50, min(int(n), RECURSION)))
        return made

    def _input(self, prompt: object = "") -> str:
        if prompt:
            self.stdout.write(str(prompt))
        line = self.stdin.readline()
        if not line:
            raise EOFError("EOF when reading a line")
        return line.rstrip("\n")

    def _print(self, *values, sep=" ", end="\n", file=None, flush=False) -> None:
        # `str` of a value may call code of the program, so nothing but its text goes further.
        texts = [str(value) for value in values]
        text = (" " if sep is None else sep).join(texts) + ("\n" if end is None else end)
        (self.stdout if file is None else file).write(text)

    def _compile(self, source, filename="<string>", mode="exec", flags=0, dont_inherit=False, optimize=-1):
        if flags:
            raise ValueError("flags are not there")
        return compiled(source, str(filename), mode)

    def _eval(self, source, globals=None, locals=None):
        return self._run(source, "eval", globals, locals)

    def _exec(self, source, globals=None, locals=None):
        self._run(source, "exec", globals, locals)

    def _run(self, source, mode, globals, locals):
        code = source if isinstance(source, CodeType) else None
        if code is None:
            code = compiled(source.lstrip(" \t") if mode == "eval" else source, "<string>", mode)
        names = self.globals if globals is None else globals
        if type(names) is not dict:
            raise TypeError("globals must be a dict")
        names["__builtins__"] = self.builtins
        return eval(code, names, names if locals is None else locals)

    def _vars(self, *value: object) -> object:
        if value:
            return attribute(value[0], "__dict__")
        return self.globals


#: Deepest recursion: more would use up the stack of the sandbox.
RECURSION = 20_000


def _exit(code: object = None) -> None:
    raise SystemExit(code)


def _absent(name: str):
    def absent(*_arguments: object, **_named: object) -> None:
        raise PermissionError(f"`{name}` is not there: the program runs without a system")

    return absent


def _os() -> ModuleType:
    made = _System("os")
    made.path, made.sep, made.linesep, made.name, made.environ = _path(), "/", "\n", "wasi", {}
    made.getenv = lambda _key, default=None: default
    return made


def _path() -> ModuleType:
    made = _System("posixpath")
    for name in "basename commonprefix dirname isabs join normpath relpath split splitext".split():
        setattr(made, name, getattr(posixpath, name))
    return made


def _io() -> ModuleType:
    made = _System("io")
    for name in ("BytesIO", "StringIO", "SEEK_CUR", "SEEK_END", "SEEK_SET", "TextIOBase", "IOBase"):
        setattr(made, name, getattr(io, name))
    return made


def _time() -> ModuleType:
    """A clock that goes on by a microsecond whenever it is read."""
    made = _System("time")
    now = 0

    def nanoseconds() -> int:
        nonlocal now
        now += 1_000
        return now

    def sleep(seconds: float) -> None:
        nonlocal now
        now += int(seconds * 1e9)

    for name in ("time", "perf_counter", "monotonic", "process_time"):
        setattr(made, name, lambda: nanoseconds() / 1e9)
        setattr(made, f"{name}_ns", nanoseconds)
    made.sleep = sleep
    return made


def test_import(name, globals=None, locals=None, fromlist=(), level=0):
    """`__import__` for tests: what there is, unchanged by the program."""
    if level or (name not in _MODULES and name not in ("io", "sys", "os.path")):
        raise ModuleNotFoundError(f"no module named {name!r} here", name=name)
    module = _MODULES.get(name) or importlib.import_module(name)
    if fromlist or "." not in name:
        return module
    return _MODULES.get(name.split(".")[0]) or importlib.import_module(name.split(".")[0])
