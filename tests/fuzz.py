"""Random trials in any number: ``python -m tests.fuzz selections 5000 --jobs 2`` ``... maps 2000``
``... facts 2000``, ``... searches 200``, ``... proofs 500`` or ``... mutations 1000``.

The suite runs the first few hundred of each. Outcomes are counted; each failure is shown with its seed, and the exit code is
then 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from time import perf_counter

from joblib import Parallel, delayed
from tqdm import tqdm

from tests import facts, hostile, mutations, proofs, searches, selections

TRIALS = {
    "selections": selections.trial,
    "maps": hostile.trial,
    "facts": facts.trial,
    "searches": searches.trial,
    "proofs": proofs.trial,
    "mutations": mutations.trial,
}


def attempt(name, seed):
    """The outcome of a trial, or the error that it ended with, and the seconds that it took."""
    begin = perf_counter()
    try:
        outcome, failed = TRIALS[name](seed), False
    except Exception as error:
        outcome, failed = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", True
    return seed, outcome, failed, perf_counter() - begin


def main(argv=None):
    """Run trials; 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=TRIALS)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    arguments = parser.parse_args(argv)
    seeds = range(arguments.first, arguments.first + arguments.count)
    results = Parallel(arguments.jobs, return_as="generator_unordered")(delayed(attempt)(arguments.name, s) for s in seeds)
    outcomes, n_failed, slowest = Counter(), 0, (0.0, -1)
    for seed, outcome, failed, seconds in tqdm(results, total=len(seeds), disable=None):
        slowest = max(slowest, (seconds, seed))
        n_failed += failed
        outcomes["failed" if failed else outcome] += 1
        if failed:
            tqdm.write(f"seed {seed}: {outcome}")
    for outcome, count in outcomes.most_common():
        print(f"{count:7d}  {outcome}")
    print(f"slowest: seed {slowest[1]}, {slowest[0]:.1f} s")
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
