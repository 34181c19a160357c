"""Ratios against a floor measured in the same run: `python -m benchmarks` (see `--help`)."""
