"""Boyd et al., 2006, and Jin et al., 2016: after its step everybody averages with a partner; who is drawn itself
idles. What a narrow format on the wire loses stays with its worker, so that the mean of all is kept."""
import numpy as np


def reference(job):
    w = np.tile(job.start, (job.workers, 1))
    momentum, log = np.zeros_like(w), [[] for _ in range(job.workers)]
    for t in range(len(job.batches[0])):
        samples = sum(len(job.batches[k][t]) for k in range(job.workers))
        for k in range(job.workers):
            weight = len(job.batches[k][t]) * job.workers / samples
            momentum[k] = job.momentum * momentum[k] + weight * job.gradient(w[k], job.batches[k][t])
            w[k] = w[k] - job.rate * momentum[k]
        q = w.astype(job.wire).astype("f8")
        w = w - q + np.array([(q[k] + q[job.partners[k][t]]) / 2 for k in range(job.workers)])
        for k in range(job.workers):
            log[k].append(w[k].copy())
    return {"workers": log, "consensus": w.mean(axis=0)}
