"""The export targets, one a file: `triton` and `jetson`."""
