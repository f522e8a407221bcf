"""A client's batches on the device: its images, their order, augmentation and rounding."""
