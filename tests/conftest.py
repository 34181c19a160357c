"""Hypothesis profiles: a quick one by default and in CI; `pytest --hypothesis-profile=long` for a million inputs a law."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]  # a stream is a large input; the laws read all of it

settings.register_profile(
    "quick", max_examples=15, deadline=None, suppress_health_check=SLOW, derandomize="CI" in os.environ, print_blob=True
)
settings.register_profile("long", max_examples=1_000_000, deadline=None, suppress_health_check=SLOW, print_blob=True)
settings.load_profile("quick")

# The laws over generated tellings take minutes: `LAWS=1 pytest tests/test_laws.py` runs them.
collect_ignore = [] if os.environ.get("LAWS") else ["test_laws.py"]
