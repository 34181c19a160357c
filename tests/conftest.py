"""Hypothesis profiles, and the server that replays recorded streams.

The profile is quick by default and in CI; `pytest tests/test_laws.py --hypothesis-profile=long` takes the long one.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.replay_server import ReplayServer

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    """A replay server, in threads of this process: none of them collects the garbage of a client that is read meanwhile.

    A collection that begins in a thread of the server finalizes the asynchronous generators that a client has left, one
    after the other, while the event loop in the test's thread closes the first of them, and so all within it. Python
    ignores what then goes wrong ("async generator already executing"), and says so.
    """
    gc.disable()
    try:
        with ReplayServer() as server:
            yield server
    finally:
        gc.enable()
        gc.collect(0)  # what this test has left, and what is said of that, is of this test
