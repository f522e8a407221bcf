"""Clients' data and mini-batches on the device: order, augmentation, precision."""
