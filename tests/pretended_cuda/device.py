"""The pretended device from Python: what was noted of it, and cuDNN's convolutions as kernels that
put out nothing."""

import ctypes
import os

import torch

library = ctypes.CDLL(os.environ["LD_PRELOAD"])
library.pretended_read.restype = ctypes.c_char_p
library.pretended_peak.restype = ctypes.c_size_t
library.pretended_limit.argtypes = [ctypes.c_size_t]
library.pretended_kernel.argtypes = [ctypes.c_char_p, ctypes.c_void_p]


class Notes:
    """What the host did within a `with` block. `launches`: how many things it started; `nodes`: how
    many a capture took; `wrong`: waits, what a capture forbids, and what the pretended runtime has
    no answer to."""

    def __enter__(self) -> "Notes":
        library.pretended_note(1)
        return self

    def __exit__(self, *_: object) -> None:
        library.pretended_note(0)
        self.lines = [
            library.pretended_read(number).decode() for number in range(library.pretended_notes())
        ]

    def launches(self, begin: int = 0, end: int | None = None) -> int:
        return sum(line.startswith("launch ") for line in self.lines[begin:end])

    @property
    def nodes(self) -> int:
        return sum(line.startswith("node ") for line in self.lines)

    @property
    def wrong(self) -> list[str]:
        return sorted(
            {
                line
                for line in self.lines
                if line.startswith(("wait", "forbidden", "beside", "unanswered"))
            }
        )


def _kernel(name: str) -> None:
    library.pretended_kernel(name.encode(), torch.cuda.current_stream().cuda_stream)


def _convolution(x, weight, padding, stride, dilation, groups, *_):
    _kernel("convolution")
    sizes = zip(x.shape[2:], weight.shape[2:], padding, stride, dilation, strict=True)
    places = [
        (size + 2 * pad - apart * (kernel - 1) - 1) // step + 1
        for size, kernel, pad, step, apart in sizes
    ]
    last = any(
        tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()
        for tensor in (x, weight)
    )
    layout = torch.channels_last if last else torch.contiguous_format
    return torch.empty(
        (len(x), len(weight), *places), dtype=x.dtype, device=x.device, memory_format=layout
    )


def _slopes(slope, x, weight, bias, stride, padding, dilation, transposed, more, groups, wanted):
    """Two kernels at most; the bias's is a sum of its own."""
    for name, needed in zip(("of the inputs", "of the weights"), wanted, strict=False):
        if needed:
            _kernel(f"convolution's slope {name}")
    found = (torch.empty_like(x), torch.empty_like(weight))
    parts = [tensor if needed else None for tensor, needed in zip(found, wanted, strict=False)]
    return *parts, slope.sum((0, 2, 3)) if wanted[2] else None


stand_ins = torch.library.Library("aten", "IMPL")
stand_ins.impl("cudnn_convolution", _convolution, "CUDA")
stand_ins.impl("convolution_backward", _slopes, "CUDA")
