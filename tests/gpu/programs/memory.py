"""Ask for this share of the device's memory."""

import sys

import torch

total = torch.cuda.get_device_properties(0).total_memory
print(torch.empty(int(total * float(sys.argv[-1])), dtype=torch.uint8, device="cuda").numel())
