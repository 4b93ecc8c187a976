"""Train a small model with Lightning, on GPUs or on CPUs.

dsrun --nproc_per_node 2 examples/recipes/lightning_train.py
"""

from __future__ import annotations

import os

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):  # type: ignore[misc]
    """Learn to add eight numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch: tuple[Tensor, Tensor], _number: int) -> Tensor:
        x, y = batch
        loss: Tensor = (self.layer(x) - y).square().mean()
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self) -> None:
        loss = self.trainer.callback_metrics["loss"]
        self.print(f"epoch {self.current_epoch}: loss {loss:.5f}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(1024, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    trainer = lightning.Trainer(
        # Lightning checks these two against WORLD_SIZE. dsrun sets the variables as torchrun does.
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
        strategy="ddp",
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Regression(), DataLoader(data, batch_size=64, shuffle=True))
    if torch.distributed.is_initialized():  # Lightning destroys the group only with NCCL
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
