"""What reports read: gathered results, the experiments that a figure shows, references between them."""
