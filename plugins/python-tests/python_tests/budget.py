"""How long code of the model may run: a number of steps, since a plugin has no clock.

A step is a round of a loop or a call of a function in the program, which is rewritten to count them.
The count is the same on every machine, and so is the verdict. What loops within one instruction
(`10 ** 10 ** 8`, a regular expression) takes no steps: that is left to the host's deadline.
"""

import os
from collections.abc import Callable
from itertools import chain, repeat

#: Steps after the last in which code may still give up, before the sandbox does.
_GRACE = 1_000


class OutOfSteps(BaseException):
    """The budget is used up. Not an `Exception`, so that few programs catch it."""


def counter(steps: int) -> Callable[[], bool]:
    """Returns True `steps` times, then raises. Runs no Python until then: it is called in every loop."""
    over = 0

    def out(_: object) -> bool:
        nonlocal over
        over += 1
        if over > _GRACE:
            # It catches everything and goes on: end the call.
            os.abort()
        raise OutOfSteps

    return chain(repeat(True, steps), map(out, repeat(None))).__next__
