"""Stich, ICLR 2019: after every `local_steps` steps all take the mean, here weighted by the samples learnt from
since."""
import numpy as np


def reference(job):
    w = np.tile(job.start, (job.workers, 1))
    momentum, samples, log = np.zeros_like(w), np.zeros(job.workers), [[] for _ in range(job.workers)]
    for t in range(len(job.batches[0])):
        for k in range(job.workers):
            momentum[k] = job.momentum * momentum[k] + job.gradient(w[k], job.batches[k][t])
            w[k] = w[k] - job.rate * momentum[k]
            samples[k] += len(job.batches[k][t])
        if (t + 1) % job.local_steps == 0:
            w[:] = samples @ w / samples.sum()
            samples[:] = 0
        for k in range(job.workers):
            log[k].append(w[k].copy())
    return {"workers": log, "consensus": np.average(w, axis=0, weights=samples if samples.any() else None)}
