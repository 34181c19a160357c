"""Hypothesis profiles: quick by default and in CI; `pytest tests/test_laws.py --hypothesis-profile=long` for long."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]  # a stream is a large input; the laws read all of it

settings.register_profile(
    "quick",
    max_examples=120,
    deadline=None,
    suppress_health_check=SLOW,
    derandomize="CI" in os.environ,
    print_blob=True,
)
settings.register_profile("long", settings.get_profile("quick"), max_examples=5_000, derandomize=False)
settings.load_profile("quick")
