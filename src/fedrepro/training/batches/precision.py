"""The numerical precision of a run: `precision` in its settings.

float32   every number and every product in single precision (the default)
float64   every number and every product in double precision
bfloat16  local training in automatic mixed precision: all networks in an objective, the trained and the received one, compute
          in bfloat16; weights, the objective itself, estimates and tests are in float32
"""

import torch


def dtype(precision: str) -> torch.dtype:
    """Return the type of images and weights."""
    return torch.float64 if precision == "float64" else torch.float32


def forbid_rounded_factors() -> None:
    """Forbid that products round their factors (TF32), which torch by default allows in CUDA's convolutions.

    Applies to the process until another call of torch allows it."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
