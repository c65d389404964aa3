"""The protocol between the benchmark and a peer: one JSON object a line, both ways.

The peer says {"ready": true} once its model is loaded. Each line it then gets is one repetition,
which it answers with one line. So the benchmark can take turns between programs, and none of them
pays its start-up time twice.
"""

import json
import os
import sys

# Libraries print where they like; the protocol keeps the real standard output for itself.
_out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(answer):
    _out.write(json.dumps(answer) + "\n")
    _out.flush()


def requests():
    say({"ready": True})
    for line in sys.stdin:
        if line.strip():
            yield json.loads(line)
