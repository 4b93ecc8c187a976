"""Train a small model with Accelerate, on GPUs or on CPUs.

    dsrun --nproc_per_node 2 examples/recipes/accelerate_train.py

The script does not depend on the launcher: `accelerate launch` runs the same file.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(1024, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=64, shuffle=True)

    # Without a GPU, Accelerate joins the ranks only with cpu=True.
    accelerator = Accelerator(cpu=not torch.accelerator.is_available())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accelerator.print(f"{accelerator.num_processes} processes, {len(loader)} steps per epoch")
    for epoch in range(3):
        for x, y in loader:
            loss = (model(x) - y).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        mean = accelerator.reduce(loss.detach(), "mean").item()
        accelerator.print(f"epoch {epoch}: loss {mean:.5f}")
    # With gloo, a rank may hang on exit if a DDP model outlives the process group.
    model, optimizer, loader = accelerator.free_memory(model, optimizer, loader)
    accelerator.end_training()


if __name__ == "__main__":
    main()
