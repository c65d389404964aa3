"""Hugging Face generate: random prompts, one batch, no early stop.

Usage: hf_generate.py MODEL_FOLDER
Request: {"sequences": 64, "prompt_tokens": 64, "new_tokens": 128}
"""

import sys
import time

import lines
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).eval()
for request in lines.requests():
    n, prompt, new = request["sequences"], request["prompt_tokens"], request["new_tokens"]
    ids = torch.randint(100, model.config.vocab_size, (n, prompt))
    start = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            min_new_tokens=new,
            max_new_tokens=new,
            pad_token_id=0,
        )
    seconds = time.perf_counter() - start
    assert out.shape[1] == prompt + new
    lines.say({"seconds": seconds, "tokens_per_second": n * new / seconds})
