"""The export targets, one a file: `triton`, `jetson`."""
