"""Alistarh et al., NeurIPS 2017, as in their experiments: s levels of a block's maximum, rounded by the given draws,
and shrunk by 1 + omega, omega this block's expected error (Beznosikov et al., 2020). The maximum is fp32, rounded up;
what is sent of it is the nearest fp32."""
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
                    most = np.float32(abs(x).max())
                    most = np.float64(most if most >= abs(x).max() else np.nextafter(most, np.float32(np.inf)))
                    up = s * abs(x) / most % 1
                    level = np.rint(s * abs(x) / most - up) + (np.array(draws[at - begin:][:x.size]) < up)
                    omega = (most / s)**2 * sum(up * (1 - up)) / sum(x**2)
                    sent = np.float32(most / (1 + omega)) * np.sign(x) * level / s
                    total[at:at + x.size] += sent
                    x -= sent
        momentum = job.momentum * momentum + total
        w = w - job.rate * momentum
        for one in log:
            one.append(w)
    return {"workers": log, "consensus": w}
