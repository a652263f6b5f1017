"""All-reduce over rate-limited links (1 Gb/s and 100 Mb/s, network namespaces) against raw TCP streams: every rank sends
its neighbour the bytes that a ring sends, 2 (P - 1) / P of the size, all at once. The share is of the streams' speed.

The links' bursts are drained before each timing: the streams flow already when their time begins. Ripieno's bench must have
--drain for that; without it, its figures are flattered by up to a burst, and said to be."""

import statistics

from lib import comparison, ripieno
from lib.alternate import alternate, ratio, values
from lib.netns import Network, streams
from lib.table import Row

MB = 1000 * 1000
WORLDS, RATES, SIZES = (2, 3, 4, 5, 7), (1000, 100), (MB, 8 * MB)
WANTED = 0.97


def rows(options):
    worlds, rates, sizes = ((2, 3), (1000,), (MB,)) if options.quick else (WORLDS, RATES, SIZES)
    can_drain = ripieno.knows("bench", "--drain")
    found, kept = [], {}
    for mbit in rates:
        for count in worlds:
            for size in sizes:
                what = f"all-reduce, {mbit:,} Mb/s, {count} ranks, {size:,} bytes"
                if not options.takes(what):
                    continue
                with Network(count, mbit) as net:
                    extra = [*options.routes, *(["--drain", 2 * net.burst] if can_drain else [])]
                    each = 2 * (count - 1) * size // count
                    iterations = 3 if options.quick else max(5, min(50, int(mbit * 1e6 * 2 / 8 / each)))

                    def ours():
                        with net.must_carry(each * iterations):
                            return {"seconds": ripieno.all_reduce(size, count, iterations, 2, net, options.cores, extra)}

                    def raw():
                        return {"seconds": statistics.median(one["time_s"] for one in streams(net, each, iterations, options.cores))}

                    comparison.say(what)
                    rounds = kept[what] = alternate({"Ripieno": ours, "raw": raw, "A/A": ours}, options.repetitions)
                own = values(rounds, "Ripieno", "seconds")
                note = "" if can_drain else " (ours not drained)"
                found.append(Row("links", what + note, "raw TCP streams", ratio(values(rounds, "raw", "seconds"), own).times(1e3),
                                 "ms", options.repetitions, WANTED))
                found.append(Row("links", what + note, "A/A", ratio(values(rounds, "A/A", "seconds"), own).times(1e3), "ms",
                                 options.repetitions))
    comparison.keep("links", kept)
    return found


if __name__ == "__main__":
    comparison.main(rows, __doc__)
