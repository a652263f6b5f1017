"""What projecting a job of many workers costs: `scripts/bench scale`. For each way, the median over rounds of two
projected steps' wall and CPU seconds, the peak of memory, and microseconds a message; and what is wanted of them
(bench/scale.cpp says of which job). Each projection is a process of its own; nothing else should run."""

import argparse
import json
import statistics
import subprocess
import sys

from lib import comparison, machine, processes

BINARY = comparison.ROOT / "build/release/bin/scale_bench"
SECONDS, MIB = {1024: 5, 4096: 20}, {1024: 1024, 4096: 3072}
WAYS = (
    (1024, "ring"),
    (1024, "halving-doubling"),
    (1024, "ddp", "halving-doubling"),
    (4096, "halving-doubling"),
    (4096, "ddp", "halving-doubling"),
    (4096, "ring"),
)


def measured(binary, way):
    try:
        done = subprocess.run([str(binary), *map(str, way)], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as failed:
        raise processes.Failed(f"{binary}: {getattr(failed, 'stderr', failed)}") from failed
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench scale", description=__doc__)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="64 workers in the place of 1,024 and 4,096, one round")
    parser.add_argument("--binary", default=BINARY, help="another scale_bench")
    arguments = parser.parse_args()
    ways = [(64, *way[1:]) for way in WAYS[:3]] if arguments.quick else WAYS
    print(f"{machine.name()}, {machine.date()}")
    print(
        f"{'workers':>7}  {'way':26} {'wall s':>8} {'wanted':>7} {'CPU s':>8} {'MiB':>6} {'wanted':>7} "
        f"{'messages':>10} {'us each':>8}"
    )
    thousand = None
    try:
        for way in ways:
            rounds = [measured(arguments.binary, way) for _ in range(1 if arguments.quick else arguments.rounds)]
            median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
            wanted = SECONDS.get(way[0])
            if way[1:] == ("ring",):
                wanted = 16 * thousand if thousand else wanted
                thousand = median["wall_s"]
            wanted = f"{wanted:.1f}" if wanted else ""
            print(
                f"{way[0]:7}  {' '.join(way[1:]):26} {median['wall_s']:8.2f} {wanted:>7} {median['cpu_s']:8.2f} "
                f"{median['peak_mib']:6.0f} {MIB.get(way[0], ''):>7} {median['messages']:10.0f} "
                f"{median['us_a_message']:8.2f}",
                flush=True,
            )
    except processes.Failed as failed:
        sys.exit(f"bench: {failed}")


if __name__ == "__main__":
    main()
