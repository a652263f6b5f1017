"""Alistarh et al., NeurIPS 2017: s levels of a block's norm, rounded by the given draws, and shrunk by 1 + omega so
that what is kept stays bounded (Beznosikov et al., 2020). The norm is fp32, rounded up."""
import numpy as np


def reference(job):
    w, momentum, log = job.start, np.zeros_like(job.start), [[] for _ in range(job.workers)]
    error, s = np.zeros((job.workers, w.size)), 2 ** (job.bits - 1) - 1
    for t, batches in enumerate(zip(*job.batches)):
        total = np.zeros_like(w)
        for k, batch in enumerate(batches):
            error[k] += len(batch) / sum(len(one) for one in batches) * job.gradient(w, batch)
            for (begin, end), draws in zip(job.buckets, job.draws[k][t]):
                for at in range(begin, end, job.block):
                    x = error[k][at:min(at + job.block, end)]
                    norm = np.float32(np.linalg.norm(x))
                    norm = norm if norm >= np.linalg.norm(x) else np.nextafter(norm, np.float32(np.inf))
                    ratio = s * abs(x) / np.float64(norm)
                    level = np.floor(ratio) + (np.array(draws[at - begin:][:x.size]) < ratio - np.floor(ratio))
                    omega = min(x.size / s**2, np.sqrt(x.size) / s)
                    sent = np.float64(norm) * np.sign(x) * level / s / (1 + omega)
                    total[at:at + x.size] += sent
                    x -= sent
        momentum = job.momentum * momentum + total
        w = w - job.rate * momentum
        for one in log:
            one.append(w)
    return {"workers": log, "consensus": w}
