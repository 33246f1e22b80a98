"""headrace: a compiler and runtime for multi-model inference pipelines."""
