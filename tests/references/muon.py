"""Jordan et al., Muon, 2024, on the matrices but the last, each kept at the norm sqrt(rows); Nesterov's SGD on the others, at
rates that are times the first, with a weight decay that is not."""
import numpy as np


def orthogonalised(job, g):
    x = g / (np.linalg.norm(g) + 1e-7)
    for _ in range(job.newton_schulz):
        a = x @ x.T
        x = 3.4445 * x - 4.7750 * a @ x + 2.0315 * a @ a @ x
    return x


def reference(job):
    w, m, log = job.start.copy(), np.zeros_like(job.start), [[] for _ in range(job.workers)]
    ends = np.cumsum([np.prod(shape) for shape in job.shapes])
    for batches in zip(*job.batches):
        gradient = job.gradient(w, sum(batches, []))
        for shape, end in zip(job.shapes, ends):
            at = slice(end - np.prod(shape), end)
            hidden, factor = shape in job.shapes[:2], job.vector_factor if len(shape) == 1 else job.head_factor
            g = gradient[at] + (0 if hidden else job.weight_decay / factor * w[at])
            momentum = job.momentum if hidden else job.sgd_momentum
            m[at] = momentum * m[at] + g
            g = g + momentum * m[at]
            if hidden:
                w[at] *= shape[0] ** 0.5 / np.linalg.norm(w[at])
            w[at] -= job.rate * (orthogonalised(job, g.reshape(shape)).ravel() if hidden else factor * g)
        for one in log:
            one.append(w.copy())
    return {"workers": log, "consensus": w}
