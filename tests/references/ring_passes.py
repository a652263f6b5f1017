"""Chundury, 2022: everybody takes the mean of its own weights and of those of `passes` predecessors on the ring.
What a narrow format on the wire loses stays with its worker, so that the mean of all is kept."""
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
        sets = [{(k - j) % job.workers for j in range(job.passes + 1)} for k in range(job.workers)]
        q = w.astype(job.wire).astype("f8")
        w = w - q + np.array([sum(q[j] for j in one) / len(one) for one in sets])
        for k in range(job.workers):
            log[k].append(w[k].copy())
    return {"workers": log, "consensus": w.mean(axis=0)}
