"""Everything that decoding reads, damaged: `python tests/hostile.py [--trials 2000] [--seed 1] [--cases 3] [--minutes 60]`.

Prints, by kind of damage, what came of it (:mod:`support.hostile`): rows as if nothing had happened, or one error. Whatever is silent, a traceback, a
signal or hangs is printed with its seed and number, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from support.hostile import CASES, FAIR, Outcome, build_scene, damages, try_out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=len(CASES))
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so long, and print what there is")
    parser.add_argument("--show", action="store_true", help="print every trial")
    options = parser.parse_args()
    tally: Counter[tuple[str, Outcome]] = Counter()
    ends = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="tailrace-hostile-") as home:
        scenes = [build_scene(story, major, Path(home) / f"{story}-{major}") for story, major in CASES[: options.cases]]
        for number, damage in enumerate(damages(scenes, options.trials, options.seed), 1):
            if time.monotonic() > ends:
                break
            outcome, said = try_out(damage)
            tally[damage.kind, outcome] += 1
            if outcome not in FAIR or options.show:
                story = f"{damage.scene.case.story} {damage.scene.case.major}"
                print(
                    f"seed {options.seed}, trial {number}: {damage.kind} of {story}, {damage.what}: {outcome}\n{said}", flush=True
                )
    _print_table(tally, options.seed)
    return int(any(outcome not in FAIR for _, outcome in tally))


def _print_table(tally: Counter[tuple[str, Outcome]], seed: int) -> None:
    columns = list(Outcome)
    print(
        f"\n{tally.total()} trials, seed {seed}\n\n| damage | trials | {' | '.join(columns)} |\n|---|{'---|' * (len(columns) + 1)}"
    )
    for kind in sorted({kind for kind, _ in tally}):
        row = [tally[kind, outcome] for outcome in columns]
        print(f"| {kind} | {sum(row)} | {' | '.join(str(number or '') for number in row)} |")
    totals = [sum(tally[kind, outcome] for kind, _ in {(kind, 0) for kind, _ in tally}) for outcome in columns]
    print(f"| all | {sum(totals)} | {' | '.join(str(number or '') for number in totals)} |")


if __name__ == "__main__":
    sys.exit(main())
