"""GRPO steps with TRL's GRPOTrainer on the rows of a JSONL file; one step per request.

Usage: trl_grpo.py MODEL_FOLDER ROWS.jsonl PROMPTS SAMPLES MAX_TOKENS
Request: {} (one step)
"""

import json
import resource
import sys
import tempfile
import time

import lines
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

folder, rows, prompts, samples, max_tokens = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
with open(rows) as file:
    data = [json.loads(line) for line in file]
dataset = Dataset.from_list(
    [{"prompt": [{"role": "user", "content": row["prompt"]}], "label": row["label"]} for row in data]
)


def exact(completions, label, **_):
    return [float(c[0]["content"].strip() == answer) for c, answer in zip(completions, label)]


class OneStepPerRequest(TrainerCallback):
    """Holds each step back until it is asked for, and reports how long it took."""

    def __init__(self):
        self.requests = lines.requests()
        self.start = None

    def wait(self):
        """Blocks until the next request; false at the end of input."""
        request = next(self.requests, None)
        self.start = time.perf_counter()
        return request is not None

    def on_train_begin(self, args, state, control, **_):
        if not self.wait():
            control.should_training_stop = True

    def on_step_end(self, args, state, control, **_):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        lines.say({"seconds": time.perf_counter() - self.start, "peak_bytes": peak})
        if not self.wait():
            control.should_training_stop = True


micro = 16
with tempfile.TemporaryDirectory() as scratch:
    trainer = GRPOTrainer(
        model=folder,
        reward_funcs=exact,
        train_dataset=dataset,
        processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
        callbacks=[OneStepPerRequest()],
        args=GRPOConfig(
            output_dir=scratch,
            use_cpu=True,
            bf16=False,
            model_init_kwargs={"dtype": "bfloat16"},
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=prompts * samples // micro,
            num_generations=samples,
            max_completion_length=max_tokens,
            temperature=1.0,
            beta=0.0,
            learning_rate=1e-6,
            max_steps=1000,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        ),
    )
    trainer.train()
