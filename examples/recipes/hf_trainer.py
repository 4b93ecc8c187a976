"""Train a tiny language model with Hugging Face's Trainer, on GPUs or on CPUs.

    dsrun --nproc_per_node 2 --max_restarts 3 examples/recipes/hf_trainer.py

The model starts with random weights and the text is made up, so nothing is downloaded. Each start
continues from the newest checkpoint in `hf_output`.
"""

from __future__ import annotations

import gc
from pathlib import Path

import torch
from accelerate import PartialState
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

OUTPUT = "hf_output"
WORDS = 32


def main() -> None:
    train()
    # With gloo, a rank may hang on exit if a DDP model outlives the process group.
    gc.collect()
    PartialState().destroy_process_group()


def train() -> None:
    size = {"vocab_size": WORDS, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
    config = GPT2Config(**size, bos_token_id=0, eos_token_id=0)
    arguments = TrainingArguments(
        OUTPUT,
        max_steps=12,
        per_device_train_batch_size=16,
        learning_rate=0.01,
        logging_steps=4,
        save_steps=4,
        disable_tqdm=True,
        report_to="none",
        use_cpu=not torch.accelerator.is_available(),
    )
    trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=counting(512))
    last = get_last_checkpoint(OUTPUT) if Path(OUTPUT).is_dir() else None
    trainer.train(resume_from_checkpoint=last)


def counting(samples: int) -> list[dict[str, torch.Tensor]]:
    """Return sequences of 16 words that count upwards from a random word."""
    starts = torch.randint(WORDS, (samples, 1), generator=torch.Generator().manual_seed(0))
    rows = (starts + torch.arange(16)) % WORDS
    return [{"input_ids": row, "labels": row} for row in rows]


if __name__ == "__main__":
    main()
