"""Makes the model and its draft model from the quantized weights of SmolLM2-135M-Instruct.

MODELS/smollm2 is the model in bfloat16. MODELS/smollm2-draft is the same with noise on its weights, so that
drafts are accepted often but not always.

Usage: models.py WEIGHTS MODELS
"""

import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

NOISE = 0.05  # of the draft model, in standard deviations of each matrix
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FROM_FILE = ("quantization_config", "_name_or_path", "_model_name_or_path", "transformers_version", "dtype")

weights, models = sys.argv[1], pathlib.Path(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(weights, gguf_file=FILE)
source = AutoModelForCausalLM.from_pretrained(weights, gguf_file=FILE, dtype=torch.float32)
settings = {name: value for name, value in source.config.to_dict().items() if name not in FROM_FILE}
config = LlamaConfig(**{**settings, "rms_norm_eps": 1e-5})


def save(model, name):
    model = model.to(torch.bfloat16)
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2)
    model.save_pretrained(models / name)
    tokenizer.save_pretrained(models / name)


def copy():
    model = LlamaForCausalLM(config)
    model.load_state_dict(source.state_dict())
    model.tie_weights()
    return model


save(copy(), "smollm2")
draft = copy()
torch.manual_seed(0)
with torch.no_grad():
    for name, matrix in draft.named_parameters():
        if matrix.ndim == 2 and "embed" not in name:
            matrix.add_(torch.randn_like(matrix) * matrix.std() * NOISE)
save(draft, "smollm2-draft")
