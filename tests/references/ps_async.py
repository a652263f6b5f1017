"""Dean et al., NIPS 2012 (Downpour SGD): the server steps on each gradient as it comes, and its worker goes on from
there. A gradient counts as many samples as it has, over the mean batch."""
import heapq

import numpy as np


def reference(job):
    v, momentum, version = job.start, np.zeros_like(job.start), 0
    log, ages = [[] for _ in range(job.workers)], [[] for _ in range(job.workers)]
    w, seen = [v] * job.workers, [0] * job.workers
    mean_batch = np.mean([len(batch) for batches in job.batches for batch in batches])
    events = [(job.times[k][0], k) for k in range(job.workers)]
    heapq.heapify(events)
    while events:
        now, k = heapq.heappop(events)
        batch = job.batches[k][len(log[k])]
        momentum = job.momentum * momentum + len(batch) / mean_batch * job.gradient(w[k], batch)
        v = v - job.rate * momentum
        ages[k].append(version - seen[k])
        version += 1
        w[k], seen[k] = v, version
        log[k].append(v)
        if len(log[k]) < len(job.batches[k]):
            heapq.heappush(events, (now + job.times[k][len(log[k])], k))
    return {"workers": log, "ages": ages, "consensus": v}
