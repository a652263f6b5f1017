"""Vogels et al., NeurIPS 2019, algorithms 1 and 2, on the matrix that the model begins with; what comes after it is
averaged as it is. A worker keeps what its own part of the result lacks of its own matrix."""
import numpy as np


def reference(job):
    w, momentum, log = job.start, np.zeros_like(job.start), [[] for _ in range(job.workers)]
    rows, columns = job.shapes[0]
    q = np.array(job.factors[0]).reshape(job.rank, columns).T
    error = np.zeros((job.workers, rows, columns))
    for batches in zip(*job.batches):
        samples = sum(len(batch) for batch in batches)
        gradients = [len(batch) / samples * job.gradient(w, batch) for batch in batches]
        matrices = [error[k] + gradients[k][:rows * columns].reshape(rows, columns) for k in range(job.workers)]
        p = np.linalg.qr(sum(matrix @ q for matrix in matrices))[0]
        own = [matrix.T @ p for matrix in matrices]
        q = sum(own)
        for k in range(job.workers):
            error[k] = matrices[k] - p @ own[k].T
        total = np.append(p @ q.T, sum(gradients)[rows * columns:])
        momentum = job.momentum * momentum + total
        w = w - job.rate * momentum
        for one in log:
            one.append(w)
    return {"workers": log, "consensus": w}
