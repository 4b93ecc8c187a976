"""Train a small model with DeepSpeed and ZeRO, on GPUs or on CPUs.

    dsrun --num_gpus 2 examples/recipes/deepspeed_train.py \
        --deepspeed --deepspeed_config examples/recipes/ds_config.json

The `deepspeed` command can start it as well: it accepts --local_rank and DeepSpeed's own arguments.
"""

from __future__ import annotations

import argparse

import deepspeed
import torch
from torch import nn
from torch.utils.data import TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int)
    options = deepspeed.add_config_arguments(parser).parse_args()

    torch.manual_seed(0)
    inputs = torch.randn(1024, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = nn.Linear(8, 1)
    deepspeed.init_distributed()
    engine, _, loader, _ = deepspeed.initialize(
        options, model, model_parameters=model.parameters(), training_data=data
    )
    for epoch in range(3):
        for x, y in loader:
            loss = (engine(x.to(engine.device)) - y.to(engine.device)).square().mean()
            engine.backward(loss)
            engine.step()
        print(f"epoch {epoch}: loss {loss.item():.3f} of {engine.world_size} ranks", flush=True)
    engine.destroy()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
