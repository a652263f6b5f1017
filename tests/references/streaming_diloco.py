"""Douillard et al., Streaming DiLoCo, 2025: fragment f goes after its own steps and arrives `delay` later (at an
epoch's end at the latest); what was learnt meanwhile is kept on top of the new weights."""
import numpy as np


def reference(job):
    v, w = job.start.copy(), np.tile(job.start, (job.workers, 1))
    speed, momentum = np.zeros_like(v), np.zeros_like(w)
    samples, log = np.zeros((len(job.fragments), job.workers)), [[] for _ in range(job.workers)]
    under_way, k = [], job.local_steps
    for t in range(len(job.batches[0])):
        for i in range(job.workers):
            momentum[i] = job.momentum * momentum[i] + job.gradient(w[i], job.batches[i][t])
            w[i] = w[i] - job.rate * momentum[i]
            samples[:, i] += len(job.batches[i][t])
        for f, (begin, end) in enumerate(job.fragments):
            if t % k == k - 1 - f * k // len(job.fragments):
                there = w[:, begin:end].copy()
                change = v[begin:end] - samples[f] @ there / samples[f].sum()
                under_way.append((t + job.delay, begin, end, there, change))
                samples[f] = 0
        for one in [one for one in under_way if one[0] <= t or (t + 1) % len(job.epochs[0][0]) == 0]:
            under_way.remove(one)
            _, begin, end, there, change = one
            speed[begin:end] = job.outer_momentum * speed[begin:end] + change
            v[begin:end] -= job.outer_rate * (change + job.outer_momentum * speed[begin:end])
            w[:, begin:end] = v[begin:end] + (w[:, begin:end] - there)
        for i in range(job.workers):
            log[i].append(w[i].copy())
    means = [np.average(w[:, begin:end], axis=0, weights=since if since.any() else None) for (begin, end), since in zip(job.fragments, samples)]
    return {"workers": log, "consensus": np.concatenate(means)}
