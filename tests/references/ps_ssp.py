"""Ho et al., NIPS 2013: as asynchronously, but who is more than `staleness` clocks ahead of the slowest that goes on
waits."""
import numpy as np


def reference(job):
    v, momentum = job.start, np.zeros_like(job.start)
    log, ages = [[] for _ in range(job.workers)], [[] for _ in range(job.workers)]
    w, lead = [v] * job.workers, [0] * job.workers
    mean_batch = np.mean([len(batch) for batches in job.batches for batch in batches])
    clock, due, waiting = [0] * job.workers, {k: job.times[k][0] for k in range(job.workers)}, set()
    while due:
        k = min(due, key=due.get)
        now, batch = due.pop(k), job.batches[k][clock[k]]
        momentum = job.momentum * momentum + len(batch) / mean_batch * job.gradient(w[k], batch)
        v = v - job.rate * momentum
        ages[k].append(lead[k])
        clock[k] += 1
        waiting.add(k)
        going_on = [c for c, batches in zip(clock, job.batches) if c < len(batches)]
        for j in list(waiting):
            ended = clock[j] == len(job.batches[j])
            if ended or clock[j] - min(going_on) <= job.staleness:
                waiting.remove(j)
                w[j], lead[j] = v, 0 if ended else clock[j] - min(going_on)
                log[j].append(v)
                if not ended:
                    due[j] = now + job.times[j][clock[j]]
    return {"workers": log, "ages": ages, "consensus": v}
