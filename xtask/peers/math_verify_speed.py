"""math-verify on the rows that Whet's reward scores.

Usage: math_verify_speed.py ROWS.jsonl  (rows with "response" and "label")
Request: {} (all rows once)
"""

import json
import sys
import time

import lines
from math_verify import parse, verify

with open(sys.argv[1]) as file:
    rows = [json.loads(line) for line in file]
for _ in lines.requests():
    start = time.perf_counter()
    right = sum(verify(parse(row["label"]), parse(row["response"])) for row in rows)
    seconds = time.perf_counter() - start
    lines.say({"seconds": seconds, "samples_per_second": len(rows) / seconds, "right": right})
