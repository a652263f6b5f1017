"""Zhang et al., Lookahead, 2019, around SGD with momentum; the decay of the mean rises with the part of training that is done, and weights end at it."""
import numpy as np


def reference(job):
    w, slow, m = job.start.copy(), job.start.copy(), np.zeros_like(job.start)
    log = [[] for _ in range(job.workers)]
    for t, batches in enumerate(zip(*job.batches), start=1):
        m = job.momentum * m + job.gradient(w, sum(batches, []))
        w = w - job.rate * m
        if t % job.lookahead_every == 0:
            decay = job.lookahead_decay * min(1, t / job.total_steps) ** job.lookahead_power
            slow = w = decay * slow + (1 - decay) * w
        elif t == job.total_steps:
            w = slow
        for one in log:
            one.append(w.copy())
    return {"workers": log, "consensus": w}
