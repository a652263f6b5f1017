"""McMahan et al., AISTATS 2017, algorithm 1; clients send parameters or what they changed, which comes to the same."""
import numpy as np


def reference(job):
    v, momentum, log, rounds = job.start, np.zeros((job.workers, job.start.size)), [[] for _ in range(job.workers)], []
    samples = [sum(len(batch) for batch in job.epochs[k][0]) for k in range(job.workers)]
    for t, clients in enumerate(job.clients):
        local = {}
        for k in clients:
            w = v
            for epoch in job.epochs[k][t * job.local_epochs:(t + 1) * job.local_epochs]:
                for batch in epoch:
                    momentum[k] = job.momentum * momentum[k] + job.gradient(w, batch)
                    w = w - job.rate * momentum[k]
                    log[k].append(w)
            local[k] = w
        v = sum(samples[k] * local[k] for k in clients) / sum(samples[k] for k in clients)
        rounds.append(v)
    return {"workers": log, "rounds": rounds, "consensus": v}
