"""Ying et al., NeurIPS 2021: in step t the peer is 2^(t mod ceil(log2 P)) ranks away on the one-peer exponential
graph."""
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
        hop = 2 ** (t % int(np.ceil(np.log2(job.workers))))
        mixing = np.eye(job.workers) / 2
        for k in range(job.workers):
            mixing[k, (k - hop) % job.workers] += 1 / 2
        w = mixing @ w
        for k in range(job.workers):
            log[k].append(w[k].copy())
    return {"workers": log, "consensus": w.mean(axis=0)}
