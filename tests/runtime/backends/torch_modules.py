"""Modules of PyTorch that the tests script and export."""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownParameterType=false

import torch


class Same(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


class Pair(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a + b, a - b
