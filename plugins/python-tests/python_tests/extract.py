"""Which part of a response is the program.

Nothing here runs anything.
"""

import ast
import re
from functools import lru_cache

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.M | re.S)
#: Ends the file name of all code that is compiled here. Python opens the file to show the line of a syntax
#: error, and there the sandbox would end; a name with a lone surrogate is none that it could open.
NO_FILE = "\ud800"
_PYTHON = {"", "python", "python3", "py", "py3"}


def without_thinking(response: str) -> str:
    """What follows the reasoning; nothing where the reasoning never ends."""
    if "</think>" in response:
        return response.rsplit("</think>", 1)[1]
    return "" if "<think>" in response else response


def blocks(text: str) -> list[str]:
    """The fenced blocks that are, or may be, Python. A block that was cut off counts too."""
    return [code for _, language, code in _FENCE.findall(text) if language.lower() in _PYTHON]


def defines(code: str, name: str) -> bool:
    """Whether the program defines a function or class, or a method of `Solution`, of that name."""
    tree = parsed(code)
    return tree is not None and name in names(tree)


def names(tree: ast.Module) -> list[str]:
    """Functions and classes at the top, and methods of `Solution`, in order."""
    found = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append(node.name)
            if isinstance(node, ast.ClassDef) and node.name == "Solution":
                found += [m.name for m in node.body if isinstance(m, ast.FunctionDef)]
        elif isinstance(node, ast.Assign):
            found += [t.id for t in node.targets if isinstance(t, ast.Name)]
    return found


@lru_cache(maxsize=16)
def parsed(code: str) -> ast.Module | None:
    """The program's tree, if it is one: to be read, not to be changed."""
    try:
        return ast.parse(code, NO_FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def prompt_code(prompt: str) -> str:
    """The program that a prompt begins, as HumanEval's do; empty where it begins none."""
    for code in [prompt, *reversed(blocks(prompt))]:
        tree = parsed(code)
        if tree is not None and any(isinstance(n, (ast.FunctionDef, ast.ClassDef)) for n in tree.body):
            return code
    return ""


def program(response: str, prompt: str, entry_point: str | None, style: str) -> tuple[str, bool]:
    """The program of a response, and whether it continues the prompt's.

    `block`: the last fenced block, of several the last that defines the entry point.
    `completion`: the prompt's program continued by the response. `auto`: a block where there is one;
    else the whole response, which continues the prompt's program unless it defines the entry point.
    """
    text = without_thinking(response)
    if style == "completion":
        return continued(prompt, text), True
    fenced = blocks(text)
    if fenced:
        chosen = [code for code in fenced if entry_point and defines(code, entry_point)]
        code = (chosen or fenced)[-1]
    elif style == "block":
        return "", False
    else:
        code = text
    begun = prompt_code(prompt)
    is_whole = entry_point is None or defines(code, entry_point)
    if style == "auto" and not is_whole and entry_point and defines(begun, entry_point):
        return continued(begun, code), True
    return code, False


def continued(prompt: str, body: str) -> str:
    """The prompt's program with a body. Where the whole is none, what follows the body is left out, since
    a model goes on after it."""
    whole = f"{prompt}{body}" if prompt.endswith("\n") or body.startswith("\n") else f"{prompt}\n{body}"
    if parsed(whole) is not None:
        return whole
    kept = []
    for line in body.split("\n"):
        if line.strip() and not line.startswith((" ", "\t")):
            break
        kept.append(line)
    return f"{prompt.rstrip()}\n" + "\n".join(kept)
