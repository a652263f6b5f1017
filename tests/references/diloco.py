"""Douillard et al., 2023, algorithm 1 (SGD within, Nesterov's momentum without), changes weighted by samples."""
import numpy as np


def reference(job):
    v, w = job.start, np.tile(job.start, (job.workers, 1))
    speed, momentum = np.zeros_like(v), np.zeros_like(w)
    samples, log = np.zeros(job.workers), [[] for _ in range(job.workers)]
    for t in range(len(job.batches[0])):
        for k in range(job.workers):
            momentum[k] = job.momentum * momentum[k] + job.gradient(w[k], job.batches[k][t])
            w[k] = w[k] - job.rate * momentum[k]
            samples[k] += len(job.batches[k][t])
        if (t + 1) % job.local_steps == 0:
            change = sum(samples[k] * (v - w[k]) for k in range(job.workers)) / samples.sum()
            speed = job.outer_momentum * speed + change
            v = v - job.outer_rate * (change + job.outer_momentum * speed)
            w[:], samples[:] = v, 0
        for k in range(job.workers):
            log[k].append(w[k].copy())
    return {"workers": log, "consensus": np.average(w, axis=0, weights=samples if samples.any() else None)}
