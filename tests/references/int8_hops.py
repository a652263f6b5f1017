"""A ring all-reduce (Patarasuk and Yuan, 2009) whose hops each send 8 bits: a worker adds what comes in to its own
part of the gradient and to what its last encoding of this part lost (Karimireddy et al., 2019), and sends the sum
on. The last one's is all's."""
import numpy as np


def reference(job):
    w, momentum, log = job.start, np.zeros_like(job.start), [[] for _ in range(job.workers)]
    error = np.zeros((job.workers, w.size))
    for batches in zip(*job.batches):
        total, samples = np.zeros_like(w), sum(len(one) for one in batches)
        for chunk in range(job.workers):
            part = slice(chunk * job.block, (chunk + 1) * job.block)
            for hop in range(job.workers):
                k = (chunk + hop) % job.workers
                x = total[part] + len(batches[k]) / samples * job.gradient(w, batches[k])[part] + error[k][part]
                mantissa, exponent = np.frexp(np.float32(abs(x).max() / 127))
                scale = np.ldexp(np.floor(np.float64(mantissa) * 2**17) / 2**17, exponent)
                total[part] = scale * np.rint(x / scale)
                error[k][part] = x - total[part]
        momentum = job.momentum * momentum + total
        w = w - job.rate * momentum
        for one in log:
            one.append(w)
    return {"workers": log, "consensus": w}
