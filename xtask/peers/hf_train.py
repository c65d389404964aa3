"""A training step in plain PyTorch: forward, backward, clipping and AdamW, bf16 throughout.

Usage: hf_train.py MODEL_FOLDER
Request: {"sequences": 16, "tokens": 128, "micro_batch": 4}
"""

import sys
import time

import lines
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for request in lines.requests():
    n, length, micro = request["sequences"], request["tokens"], request["micro_batch"]
    ids = torch.randint(100, model.config.vocab_size, (n, length))
    start = time.perf_counter()
    for part in ids.split(micro):
        loss = model(input_ids=part, labels=part).loss * (len(part) / n)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    seconds = time.perf_counter() - start
    lines.say({"seconds": seconds, "tokens_per_second": n * length / seconds})
