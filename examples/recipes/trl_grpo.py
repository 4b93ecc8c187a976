"""Reinforcement learning with TRL's GRPO trainer and a tiny model, on GPUs or on CPUs.

    dsrun --nproc_per_node 2 examples/recipes/trl_grpo.py

The model starts with random weights, its language has six words, and the reward counts one of them,
so nothing is downloaded.
"""

from __future__ import annotations

import gc

import torch
from accelerate import PartialState
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

WORDS = ("[pad]", "[end]", "red", "green", "blue", "black")


def main() -> None:
    train()
    # With gloo, a rank may hang on exit if a DDP model outlives the process group.
    gc.collect()
    PartialState().destroy_process_group()


def train() -> None:
    torch.manual_seed(0)
    size = {"vocab_size": len(WORDS), "n_positions": 16, "n_embd": 32, "n_layer": 1, "n_head": 2}
    config = GPT2Config(**size, bos_token_id=1, eos_token_id=1, pad_token_id=0)
    arguments = GRPOConfig(
        "trl_output",
        max_steps=6,
        per_device_train_batch_size=8,
        num_generations=8,
        max_completion_length=8,
        learning_rate=0.02,
        logging_steps=3,
        save_strategy="no",
        disable_tqdm=True,
        report_to="none",
        use_cpu=not torch.accelerator.is_available(),
    )
    prompts = Dataset.from_dict({"prompt": ["red green", "blue black", "green green"] * 16})
    trainer = GRPOTrainer(
        GPT2LMHeadModel(config),
        share_of_green,
        arguments,
        train_dataset=prompts,
        processing_class=tokenizer(),
    )
    trainer.train()


def share_of_green(completions: list[str], **_columns: object) -> list[float]:
    """Return a reward for each completion."""
    return [text.split().count("green") / 8 for text in completions]


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are the words."""
    whole = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, "[pad]"))
    whole.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=whole, pad_token="[pad]", eos_token="[end]", bos_token="[end]"
    )


if __name__ == "__main__":
    main()
