"""The plugin's logic, natively. In the sandbox it runs on the same code; see the project's end-to-end tests."""

import unittest

from whet_plugin.testing import configured, group

from python_tests.extract import program
from python_tests.plugin import PythonTests

ADD = "def add(a, b):\n    return a + b\n"


def grade(response, tests="assert add(1, 2) == 3\nassert add(0, 0) == 0", prompt="?", config=None, **metadata):
    plugin = configured(PythonTests, {"steps": 20_000, "component": "both"} | (config or {}))
    return plugin.score(group(None, [response], prompt=prompt, tests=tests, **metadata))[0]


def fraction(*arguments, **named):
    return grade(*arguments, **named).components["fraction"]


class Extraction(unittest.TestCase):
    def test_the_program_is_found(self):
        cases = [
            ("```python\nx = 1\n```", "x = 1\n"),
            ("Sure:\n```py\nx = 1\n```\nand\n```\nx = 2\n```\nDone.", "x = 2\n"),
            ("```bash\nls\n```\n```python\nx = 3\n```\n```json\n{}\n```", "x = 3\n"),
            ("<think>```python\nx = 1\n```</think>```python\nx = 2\n```", "x = 2\n"),
            ("<think>```python\nx = 1\n```", ""),
            ("x = 1", "x = 1"),
            ("```python\nx = 1\n", "x = 1\n"),
            ("  ```python\nx = 1\n  ```", "x = 1\n"),
        ]
        for response, expected in cases:
            self.assertEqual(program(response, "", None, "auto")[0], expected, response)

    def test_of_several_blocks_the_one_with_the_entry_point_counts(self):
        text = f"```python\n{ADD}```\nUse it:\n```python\nprint(add(1, 2))\n```"
        self.assertEqual(program(text, "", "add", "auto")[0], ADD)

    def test_a_body_continues_the_prompt(self):
        prompt = 'from typing import List\n\ndef add(a, b):\n    """Adds."""\n'
        tests = "def check(candidate):\n    assert candidate(1, 2) == 3"
        for response in ["    return a + b\n", "    return a + b\n\nSo that is it, I think!", prompt + "    return a + b"]:
            got = grade(response, tests, prompt, entry_point="add")
            self.assertEqual(got.components["passed"], 1.0, (response, got.note))
        got = grade("    return a + b", tests, prompt, {"style": "completion"}, entry_point="add")
        self.assertEqual(got.components["passed"], 1.0, got.note)
        self.assertEqual(fraction("return", tests, prompt, {"style": "block"}, entry_point="add"), 0.0)


class Tests(unittest.TestCase):
    def test_all_forms_of_tests_are_read(self):
        adder = "a, b = map(int, input().split())\nprint(a + b)"
        cases = [
            (ADD, "assert add(1, 2) == 3", {}),
            (ADD, ["assert add(1, 2) == 3", "assert add(2, 2) == 4"], {}),
            (ADD, "def check(candidate):\n    assert candidate(1, 2) == 3", {"entry_point": "add"}),
            (ADD, "def check(candidate):\n    assert candidate(1, 2) == 3", {}),
            (adder, [{"input": "1 2\n", "output": "3\n"}], {}),
            (adder, {"inputs": ["1 2", "3 4"], "outputs": ["3", "7"]}, {}),
            (adder, '[{"input": "1 2", "output": "3"}]', {}),
            (ADD, {"inputs": [[1, 2]], "outputs": [3], "fn_name": "add"}, {}),
            (ADD, [{"input": "1\n2", "output": "3"}], {"entry_point": "add"}),
            ("class Solution:\n    def add(self, a, b): return a + b", [{"input": [1, 2], "output": 3}], {"entry_point": "add"}),
            ("import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit(0)", [{"input": "1 2", "output": "3"}], {}),
        ]
        for response, tests, metadata in cases:
            got = grade(response, tests, **metadata)
            self.assertEqual(got.components, {"passed": 1.0, "fraction": 1.0}, (tests, got.note))
        plugin = configured(PythonTests, {})
        labelled = group("assert add(1, 2) == 3", [ADD])
        self.assertEqual(plugin.score(labelled)[0].components["passed"], 1.0)

    def test_the_share_that_holds_is_counted_and_the_first_failure_named(self):
        tests = ["assert add(1, 2) == 3", "assert add(1, 1) == 3", "assert add(2, 2) == 4", "assert add() == 4"]
        got = grade(ADD, tests)
        self.assertEqual(got.components, {"passed": 0.0, "fraction": 0.5})
        self.assertIn("assert add(1, 1) == 3", got.note)
        self.assertEqual(fraction(ADD, "\n".join(tests)), 0.5)

    def test_a_row_without_usable_tests_has_no_score(self):
        for tests in ["", [], {"inputs": [1], "outputs": []}, "import numpy\nassert add(1, 2) == 3", "assert ("]:
            self.assertTrue(hasattr(grade(ADD, tests), "reason"), tests)

    def test_what_the_prompt_defines_is_the_prompts(self):
        prompt = "def double(x):\n    return 2 * x\n\ndef half(x):\n    pass\n"
        tests = "def check(candidate):\n    assert candidate(double(3)) == 3"
        cheat = prompt + "def double(x):\n    return 3\ndef half(x):\n    return x\n"
        self.assertEqual(fraction(cheat, tests, prompt, entry_point="half"), 0.0)
        honest = "def half(x):\n    return x // 2\n"
        self.assertEqual(fraction(honest, tests, prompt, entry_point="half"), 1.0)


class Cheating(unittest.TestCase):
    def test_no_trick_passes(self):
        tricks = {
            "always equal": "class E:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n    def __hash__(s): return 0\n    def __bool__(s): return True\ndef add(a, b): return E()",
            "equal int": "class E(int):\n    def __eq__(s, o): return True\ndef add(a, b): return E(7)",
            "in a list": "class E(list):\n    def __eq__(s, o): return True\ndef add(a, b): return E()",
            "metaclass": "class M(type):\n    def __eq__(s, o): return True\n    def __hash__(s): return 1\nclass E(metaclass=M): pass\ndef add(a, b): return E",
            "prints": "print('passed')\nprint('1 of 1 hold')\ndef add(a, b): return 7",
            "exits": "raise SystemExit(0)\ndef add(a, b): return 7",
            "exits within": "def add(a, b): exit(0)",
            "sys exits": "import sys\ndef add(a, b): sys.exit(0)",
            "os exits": "import os\ndef add(a, b): os._exit(0)",
            "swallows": "def add(a, b):\n    raise BaseException",
            "redefines check": "def check(candidate): pass\ndef add(a, b): return 7",
            "patches builtins": "import builtins\nbuiltins.AssertionError = Exception\nbuiltins.bool = lambda x: True\nbuiltins.isinstance = lambda *a: True\ndef add(a, b): return 7",
            "patches types": "import fractions\nfractions.Fraction.__eq__ = lambda s, o: True\ndef add(a, b): return fractions.Fraction(7)",
            "reads frames": "import sys\ndef add(a, b): return sys._getframe(1).f_code",
            "reads tracebacks": "def add(a, b):\n    try: 1 / 0\n    except Exception as e: return e.__traceback__.tb_frame.f_back",
            "getattr": "def add(a, b):\n    try: 1 / 0\n    except Exception as e: return getattr(e, '__trace' + 'back__')",
            "format": "def add(a, b):\n    try: 1 / 0\n    except Exception as e: return ('{0.__trace' + 'back__}').format(e)",
            "attrgetter": "import operator\ndef add(a, b):\n    try: 1 / 0\n    except Exception as e: return operator.attrgetter('__trace' + 'back__')(e)",
            "eval": "def add(a, b): return eval('().__class__.__base__.__subcl' + 'asses__()')",
            "imports the checker": "import python_tests.run\ndef add(a, b): return 7",
            "globals": "def add(a, b):\n    globals()['__w_fail__'] = lambda *a: None\n    return 7",
            "opens": "def add(a, b): return open('/etc/passwd').read()",
            "loops": "def add(a, b):\n    while True: pass",
            "recurses": "def add(a, b): return add(a, b)",
            "wrong": "def add(a, b): return a - b",
            "nothing": "def add(a, b): pass",
            "syntax": "def add(a, b) return 3",
            "absent": "def sub(a, b): return 3",
            "empty": "",
            "prose": "I cannot do that.",
        }
        forms = [
            ("assert add(1, 2) == 3\nassert add(5, 5) == 10", {}),
            ("def check(candidate):\n    assert candidate(1, 2) == 3\n    assert not candidate(5, 5) != 10", {"entry_point": "add"}),
            ("def check(candidate):\n    assert abs(candidate(1, 2) - 3) < 1e-6 and [candidate(5, 5)] == [10]", {"entry_point": "add"}),
            ([{"input": [1, 2], "output": 3}, {"input": [5, 5], "output": 10}], {"entry_point": "add"}),
        ]
        for name, code in tricks.items():
            for tests, metadata in forms:
                got = grade(f"```python\n{code}\n```", tests, **metadata)
                self.assertEqual(got.components, {"passed": 0.0, "fraction": 0.0}, (name, tests, got.note))

    def test_one_loop_ends_the_sample(self):
        code = "def add(a, b):\n    while a == 1: pass\n    return a + b"
        got = grade(code, ["assert add(2, 2) == 4", "assert add(1, 2) == 3", "assert add(0, 0) == 0"])
        self.assertEqual(got.components["fraction"], 1 / 3)
        self.assertIn("timed out", got.note)

    def test_honest_programs_have_what_they_need(self):
        programs = [
            "from typing import *\nimport math, re, collections, itertools, functools, heapq, bisect, string, random, os, sys, time\n" + ADD,
            "from collections import Counter, defaultdict, deque, OrderedDict\nfrom functools import lru_cache\n@lru_cache(None)\ndef add(a, b): return Counter([1] * a + [1] * b)[1] + 0",
            "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    def __eq__(self, o): return self.x == o.x\ndef add(a, b): return P(a).x + P(b).x",
            "import sys\nsys.setrecursionlimit(10000)\ndef add(a, b): return a if b == 0 else 1 + add(a, b - 1)",
            "def add(a, b): return int('{}'.format(a)) + int(f'{b}')  # self_back\nx = 'self_code monitoring'",
            "from enum import Enum\nclass E(Enum):\n    A = 1\ndef add(a, b): return eval('a + b', {'a': a, 'b': b})",
            "import time\nstart = time.time()\n" + ADD + "assert add(1, 1) == 2\nif __name__ == '__main__':\n    print(add(1, 2), time.time() - start)",
            "class Solution:\n    def __init__(self): self.__dict__['k'] = 0\n    def add(self, a, b): return a + b + self.k\nadd = Solution().add",
        ]
        for code in programs:
            got = grade(code)
            self.assertEqual(got.components["passed"], 1.0, (code, got.note))

    def test_the_recipe_chooses_the_component(self):
        tests = "assert add(1, 2) == 3\nassert add(1, 2) == 4"
        for by, value in [("passed", 0.0), ("fraction", 0.5)]:
            self.assertEqual(grade(ADD, tests, config={"component": by}).components, {by: value})

    def test_every_kind_of_loop_is_counted(self):
        loops = ["while True: pass", "for _ in iter(int, 1): pass", "f = lambda: g()\n    g = lambda: f()\n    f()",
                 "[0 for _ in iter(int, 1)]", "all(x == 0 for x in iter(int, 1))", "def f(): yield from f()\n    list(f())",
                 "while True:\n        try: 1 / 0\n        except ZeroDivisionError: continue", "exec('while 1: pass')"]
        for loop in loops:
            got = grade(f"def add(a, b):\n    {loop}\n    return 3")
            self.assertEqual(got.components["fraction"], 0.0, (loop, got.note))
        docstring = 'def add(a, b):\n    """Adds."""\n    assert add.__doc__ == "Adds."\n    return (lambda: a + b)()'
        self.assertEqual(fraction(docstring), 1.0)

    def test_objects_of_the_program_compare_as_the_program_says(self):
        code = "class P:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x\ndef make(x): return P(x)"
        self.assertEqual(fraction(code, "assert make(1) == P(1)\nassert make(1) == 1"), 0.5)


if __name__ == "__main__":
    unittest.main()
