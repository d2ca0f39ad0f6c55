"""PostgreSQL's subscription suite: what a slot beside that of each subscription is told by the server, and by tailrace of the same log."""

from __future__ import annotations

import pytest

from support.subscription_suite import compare

pytestmark = [pytest.mark.marathon, pytest.mark.matrix]
LEAST_MESSAGES, LEAST_SLOTS = 90_000, 40


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_subscriptions_are_sent_what_the_server_sends(major: int, capsys: pytest.CaptureFixture[str]) -> None:
    counts = compare(major)
    with capsys.disabled():
        print(f"\n{counts}")
    assert counts.shown == []
    assert counts.messages > LEAST_MESSAGES
    assert counts.slots > LEAST_SLOTS
