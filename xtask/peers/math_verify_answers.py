"""math-verify on mathematical answers.

Usage: math_verify_answers.py ROWS.jsonl  (rows with "response" and "label")
Request: {} (all rows once)

The label goes in dollars, as math-verify wants it. Time is the processor's, of one thread.
"""

import json
import sys
import time

import lines
from math_verify import parse, verify

with open(sys.argv[1]) as file:
    rows = [json.loads(line) for line in file]
for _ in lines.requests():
    times = []
    for row in rows:
        start = time.process_time()
        verify(parse(f"${row['label']}$"), parse(row["response"]))
        times.append(time.process_time() - start)
    times.sort()
    lines.say({"samples_per_second": len(rows) / sum(times), "p99_ms": 1000 * times[len(times) * 99 // 100]})
