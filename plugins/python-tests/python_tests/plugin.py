"""The reward: the share of hidden tests that hold, and whether all do."""

from typing import Literal

from whet_plugin import Grade, Group, IsolatedReward, Outcome, Sample
from whet_plugin.plugin import option

from . import cases, extract
from .run import TestsNeed, run

_ENDS = {
    "time": "timed out: the call's time was used up",
    "memory": "out of memory",
    "stack": "the stack was used up",
    "trap": "the program broke its sandbox",
}


class PythonTests(IsolatedReward):
    """Runs the model's Python against the row's tests."""

    components = ("passed", "fraction")

    component: Literal["passed", "fraction", "both"] = option(
        "passed", "the component: 1 when all tests hold, the share that holds, or both components"
    )
    style: Literal["auto", "block", "completion"] = option(
        "auto",
        "where the program is: the last fenced block; the response as the continuation of the prompt's "
        "program; or whichever of both it is",
    )
    steps: int = option(
        1_000_000,
        "rounds of loops and calls of functions that one test may take; what takes none is left to the "
        "limit on the call's time",
        minimum=1,
        maximum=1_000_000_000,
    )

    def score(self, group: Group):
        try:
            tests, entry_point = cases.of_row(group.metadata, group.label)
        except cases.NoTests as error:
            return group.all(Outcome.unscorable(str(error)))
        prompt = next((m.text for m in reversed(group.prompt) if m.role == "user"), "")
        try:
            return [self._grade(sample, prompt, tests, entry_point) for sample in group.samples]
        except TestsNeed as error:
            return group.all(Outcome.unscorable(str(error)))

    def _grade(self, sample: Sample, prompt: str, tests, entry_point: str | None) -> Grade:
        program, continues = extract.program(sample.response, prompt, entry_point, self.style)
        if not program.strip():
            return self._graded(0.0, 0.0, "no program in the response")
        begun = prompt if continues and self.style == "completion" else extract.prompt_code(prompt)
        result = run(program, begun, tests, entry_point, self.steps)
        held = f"{sum(result.held)} of {len(result.held)}"
        note = f"{held}: {result.failure}" if result.failure else f"{held} hold"
        return self._graded(float(result.passed), result.fraction, note)

    def ended(self, end):
        return self._graded(0.0, 0.0, _ENDS[end])

    def _graded(self, passed: float, fraction: float, note: str) -> Grade:
        values = {"passed": passed, "fraction": fraction}
        if self.component != "both":
            values = {self.component: values[self.component]}
        return Outcome.components(values, note)
