"""Reddi et al., ICLR 2021, algorithm 2 (FedAdam), with Adam's corrections of the first rounds' bias (Kingma and Ba,
2015) in place of the paper's second moment that starts at epsilon squared."""
import numpy as np


def reference(job):
    v, momentum, log, rounds = job.start, np.zeros((job.workers, job.start.size)), [[] for _ in range(job.workers)], []
    samples = [sum(len(batch) for batch in job.epochs[k][0]) for k in range(job.workers)]
    mean, square = np.zeros_like(v), np.zeros_like(v)
    for t, clients in enumerate(job.clients):
        change = np.zeros_like(v)
        for k in clients:
            w = v
            for batch in job.epochs[k][t]:
                momentum[k] = job.momentum * momentum[k] + job.gradient(w, batch)
                w = w - job.rate * momentum[k]
                log[k].append(w)
            change += samples[k] * (w - v) / sum(samples[i] for i in clients)
        mean = job.beta1 * mean + (1 - job.beta1) * change
        square = job.beta2 * square + (1 - job.beta2) * change**2
        corrected, root = mean / (1 - job.beta1 ** (t + 1)), np.sqrt(square / (1 - job.beta2 ** (t + 1)))
        v = v + job.outer_rate * corrected / (root + job.epsilon)
        rounds.append(v)
    return {"workers": log, "rounds": rounds, "consensus": v}
