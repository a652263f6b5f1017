"""Aji and Heafield, EMNLP 2017: of each bucket the largest numbers are sent as fp32, the others are kept for the
next step."""
import numpy as np


def reference(job):
    w, momentum, log = job.start, np.zeros_like(job.start), [[] for _ in range(job.workers)]
    error = np.zeros((job.workers, w.size))
    for batches in zip(*job.batches):
        total = np.zeros_like(w)
        for k, batch in enumerate(batches):
            error[k] += len(batch) / sum(len(one) for one in batches) * job.gradient(w, batch)
            for begin, end in job.buckets:
                top = int(np.ceil(job.fraction * (end - begin)))
                for i in sorted(range(begin, end), key=lambda i: -abs(error[k][i]))[:top]:
                    sent = np.float64(np.float32(error[k][i]))
                    total[i] += sent
                    error[k][i] -= sent
        momentum = job.momentum * momentum + total
        w = w - job.rate * momentum
        for one in log:
            one.append(w)
    return {"workers": log, "consensus": w}
