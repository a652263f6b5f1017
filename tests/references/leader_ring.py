"""Chundury, 2022, section 2.2: all take the leader's average. Who dies within a step counts in none from that one
on, and the others' samples weigh more."""
import numpy as np


def reference(job):
    w, momentum, log = job.start, np.zeros_like(job.start), [[] for _ in range(job.workers)]
    for t in range(len(job.batches[0])):
        alive = [k for k in range(job.workers) if k != job.dies or t < job.dies_in]
        gradient = sum(len(job.batches[k][t]) * job.gradient(w, job.batches[k][t]) for k in alive)
        momentum = job.momentum * momentum + gradient / sum(len(job.batches[k][t]) for k in alive)
        w = w - job.rate * momentum
        for k in alive:
            log[k].append(w)
    return {"workers": log, "consensus": w}
