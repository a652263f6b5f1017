"""Dettmers, ICLR 2016, linear: 8 bits of a block's largest number, with a scale of fp32 cut to 17 bits; the rest is
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
                    mantissa, exponent = np.frexp(np.float32(abs(error[k][part]).max() / 127))
                    scale = np.ldexp(np.floor(np.float64(mantissa) * 2**17) / 2**17, exponent)
                    sent = scale * np.rint(error[k][part] / scale)
                    total[part] += sent
                    error[k][part] -= sent
        momentum = job.momentum * momentum + total
        w = w - job.rate * momentum
        for one in log:
            one.append(w)
    return {"workers": log, "consensus": w}
