"""The numerical precision of a run: `precision` in its settings.

float32   every number and every product in single precision (the default)
float64   every number and every product in double precision
tf32      CUDA only: numbers in single precision, factors of products rounded to 10 bits of mantissa
bfloat16  local training in automatic mixed precision: all networks in an objective, the trained and the received one, compute
          in bfloat16; weights, the objective itself, estimates and tests are in float32
"""

import torch

from fedrepro.core.errors import UserError


def dtype(precision: str) -> torch.dtype:
    """Return the type of images and weights."""
    return torch.float64 if precision == "float64" else torch.float32


def set_products(precision: str, device: torch.device) -> None:
    """Allow (tf32) or forbid that products round their factors, which torch by default allows in CUDA's convolutions.

    Applies to the process until the next call. Raises UserError for tf32 without CUDA."""
    if precision == "tf32" and device.type != "cuda":
        raise UserError("precision: tf32 is a mode of CUDA devices; choose float32, float64 or bfloat16 here")
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
