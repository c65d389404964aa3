"""Writes a GGUF model as a Hugging Face folder in bf16, so that every program gets equal weights.

Usage: prepare_model.py FILE.gguf FOLDER
"""

import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

gguf, folder = Path(sys.argv[1]), Path(sys.argv[2])
where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
loaded = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
# A model that was read from GGUF refuses to be saved: its weights go into a fresh one.
config = AutoConfig.from_pretrained(**where)
fresh = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
fresh.load_state_dict(loaded.state_dict())
fresh.save_pretrained(folder)
AutoTokenizer.from_pretrained(**where).save_pretrained(folder)
