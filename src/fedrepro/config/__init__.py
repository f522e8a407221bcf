"""Settings: models and readers of params.yaml and of the papers' files, and the registry of
names."""
