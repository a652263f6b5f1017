"""Federated averaging of differences, of which the largest are sent (Aji and Heafield, 2017) and the rest is kept by
the client for its next (Karimireddy et al., 2019). The server is client 0 and loses nothing."""
import numpy as np


def reference(job):
    v, momentum, log, rounds = job.start, np.zeros((job.workers, job.start.size)), [[] for _ in range(job.workers)], []
    samples = [sum(len(batch) for batch in job.epochs[k][0]) for k in range(job.workers)]
    error, top = np.zeros_like(momentum), int(np.ceil(job.fraction * v.size))
    for t, clients in enumerate(job.clients):
        change = np.zeros_like(momentum)
        for k in clients:
            w = v
            for batch in job.epochs[k][t]:
                momentum[k] = job.momentum * momentum[k] + job.gradient(w, batch)
                w = w - job.rate * momentum[k]
                log[k].append(w)
            change[k] = w - v
            if k > 0:
                whole = change[k] + error[k]
                largest = np.argsort(-abs(whole))[:top]
                change[k] = 0
                change[k][largest] = np.float32(whole[largest])
                error[k] = whole - change[k]
        v = v + sum(samples[k] * change[k] for k in clients) / sum(samples[k] for k in clients)
        rounds.append(v)
    return {"workers": log, "rounds": rounds, "consensus": v}
