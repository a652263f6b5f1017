"""Karimireddy et al., ICML 2019 (EF-signSGD): signs, times the mean magnitude of their block as fp32; the rest is
kept."""
import numpy as np


def reference(job):
    w, momentum, log = job.start, np.zeros_like(job.start), [[] for _ in range(job.workers)]
    error = np.zeros((job.workers, w.size))
    for batches in zip(*job.batches):
        total = np.zeros_like(w)
        for k, batch in enumerate(batches):
            error[k] += len(batch) / sum(len(one) for one in batches) * job.gradient(w, batch)
            for begin, end in job.buckets:
                for at in range(begin, end, job.block):
                    part = slice(at, min(at + job.block, end))
                    sent = np.float64(np.float32(np.mean(abs(error[k][part])))) * np.sign(error[k][part])
                    total[part] += sent
                    error[k][part] -= sent
        momentum = job.momentum * momentum + total
        w = w - job.rate * momentum
        for one in log:
            one.append(w)
    return {"workers": log, "consensus": w}
