"""Reproduction of four federated-learning papers, from raw data to verdicts."""

import os

# torch reads it as it is imported: on CUDA it would write a kernel of its own for batches of one image, for which it calls a C
# compiler that many a machine lacks
os.environ.setdefault("TORCH_DISABLE_NATIVE_JIT", "1")
