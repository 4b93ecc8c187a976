"""Use the second device that this worker sees."""

import torch

print(torch.ones(4, device="cuda:1").sum().item())
