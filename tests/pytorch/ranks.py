"""Ranks of a torch.distributed job as forked processes, for tests of the package ripieno."""
import datetime
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, os.environ["RIPIENO_PYTHON"])
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import ripieno  # noqa: E402, F401

torch.set_num_threads(1)


def _run(rank: int, size: int, file: str, backend: str, timeout: float, act: Callable, meets: bool, answer) -> None:
    try:
        dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=timeout))
        result = act(rank)
        if meets:
            dist.barrier()
        dist.destroy_process_group()
        answer.send((result, None))
    except BaseException as error:  # noqa: BLE001: the test shall see it, whatever it is
        answer.send((None, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))


def on_ranks(size: int, act: Callable, backend: str = "ripieno", timeout: float = 60, fails: bool = False, meets: bool = True) -> list:
    """What act(rank) returns on each rank of a job; with `fails` each rank's error, the first line of it. AssertionError otherwise.

    Ranks meet before they end, unless `meets` is False."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(size):
            ours, theirs = fork.Pipe()
            process = fork.Process(target=_run, args=(rank, size, f"{folder}/store", backend, timeout, act, meets, theirs))
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        answers = []
        for rank, pipe in enumerate(pipes):
            try:
                answers.append(pipe.recv() if pipe.poll(timeout + 30) else (None, "gave no answer"))
            except EOFError:
                answers.append((None, "ended without an answer"))
        for process in processes:
            process.join(10)
            if process.is_alive():
                process.kill()
    if fails:
        return [error.splitlines()[0] if error else None for _, error in answers]
    errors = "\n".join(f"rank {rank}: {error}" for rank, (_, error) in enumerate(answers) if error)
    if errors:
        raise AssertionError(errors)
    return [result for result, _ in answers]
