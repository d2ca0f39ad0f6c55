"""Messages made up and damaged, for as long as one likes: `PYTHONPATH=tests python tests/fuzz_messages.py [--seconds 60] [--seed 1]`.

Of each session the reader of single messages and the reader of many must say the same, and raise nothing but PeerError
(:mod:`support.message_sessions`). Prints what came of them; what should not be is printed with its seed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter

from support.message_sessions import check, damaged, made_up
from support.vectors import recorded_sessions

MOST_DAMAGE = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally: Counter[str] = Counter()
    ends = time.monotonic() + options.seconds
    number = wrong = 0
    while time.monotonic() < ends:
        number += 1
        try:
            said = try_out(random.Random(f"{options.seed} {number}"))
        except Exception:
            wrong += 1
            print(f"seed {options.seed}, session {number}:\n{traceback.format_exc()}", flush=True)
            continue
        tally["values" if said.startswith("values: ") else (said.partition("\n")[0] and "refused") or "read"] += 1
    told = ", ".join(f"{count} {what}" for what, count in sorted(tally.items()))
    print(f"{number} sessions, seed {options.seed}: {told}, {wrong} wrong")
    return int(wrong > 0)


def try_out(dice: random.Random) -> str:
    """A session, made up or recorded, with some damage or none."""
    if dice.random() < 0.2:
        recorded = dice.choice(recorded_sessions())
        payloads, proto_version, streaming = list(recorded.payloads), recorded.proto_version, recorded.streaming
    else:
        payloads, proto_version, streaming = made_up(dice), 4, "on"
    for _ in range(dice.randrange(MOST_DAMAGE + 1)):
        payloads = damaged(payloads, dice)
    cut = dice.randrange(len(payloads) + 1) if dice.random() < 0.3 else None
    return check(payloads, proto_version, streaming, cut)


if __name__ == "__main__":
    sys.exit(main())
