"""Li et al., OSDI 2014: the server steps once on all workers' gradients, each weighted by its share of the batch."""
import numpy as np


def reference(job):
    w, momentum, log = job.start, np.zeros_like(job.start), [[] for _ in range(job.workers)]
    for batches in zip(*job.batches):
        gradient = sum(len(batch) * job.gradient(w, batch) for batch in batches) / sum(len(batch) for batch in batches)
        momentum = job.momentum * momentum + gradient
        w = w - job.rate * momentum
        for one in log:
            one.append(w)
    return {"workers": log, "consensus": w}
