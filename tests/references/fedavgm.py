"""Hsu, Qi and Brown, 2019: federated averaging with server momentum, v <- beta v + mean change, w <- w + rate v."""
import numpy as np


def reference(job):
    v, momentum, log, rounds = job.start, np.zeros((job.workers, job.start.size)), [[] for _ in range(job.workers)], []
    samples = [sum(len(batch) for batch in job.epochs[k][0]) for k in range(job.workers)]
    speed = np.zeros_like(v)
    for t, clients in enumerate(job.clients):
        change = np.zeros_like(v)
        for k in clients:
            w = v
            for batch in job.epochs[k][t]:
                momentum[k] = job.momentum * momentum[k] + job.gradient(w, batch)
                w = w - job.rate * momentum[k]
                log[k].append(w)
            change += samples[k] * (w - v) / sum(samples[i] for i in clients)
        speed = job.outer_momentum * speed + change
        v = v + job.outer_rate * speed
        rounds.append(v)
    return {"workers": log, "rounds": rounds, "consensus": v}
