#!/usr/bin/env python3
"""A process that ends with an exception tells the other ranks of its groups, whose errors then say what it was."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ENVIRONMENT = os.environ | {"PYTHONPATH": os.environ["RIPIENO_PYTHON"]}

TOLD = "rank 0: rank 1 gave up: the group has ended: its process ends with ZeroDivisionError: division by zero"


class Endings(unittest.TestCase):
    def test_an_exception_that_nobody_catches_is_told_to_the_others(self):
        script = '''
import datetime, sys, time
import ripieno
import torch
import torch.distributed as dist
dist.init_process_group("ripieno", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]), world_size=2, timeout=datetime.timedelta(seconds=60))
large = torch.ones(25_000_000 if sys.argv[3] == "under way" else 0)
if dist.get_rank() == 1:
    work = dist.all_reduce(large, async_op=True)
    time.sleep(0.1)
    1 / 0
time.sleep(0.3)
dist.all_reduce(large)
dist.barrier()
'''
        for memory, what in (("on", "nothing"), ("off", "under way")):  # "off": over tcp, behind the rest of a message
            with self.subTest(memory=memory, what=what), tempfile.TemporaryDirectory() as folder:
                environment = ENVIRONMENT | {"RIPIENO_SHARED_MEMORY": memory}
                command = [sys.executable, "-c", script, f"{folder}/store"]
                ranks = [subprocess.Popen([*command, str(rank), what], env=environment, stderr=subprocess.PIPE, text=True) for rank in range(2)]
                errors = [rank.communicate(timeout=120)[1].splitlines()[-1] for rank in ranks]
                self.assertIn(f"DistBackendError: {TOLD}", errors[0])
                self.assertIn("ZeroDivisionError: division by zero", errors[1])

    def test_an_exception_in_a_process_of_multiprocessing_is_told_to_the_others(self):
        script = '''
import datetime, multiprocessing, signal, sys
import ripieno
import torch.distributed as dist
import torch.multiprocessing

def work(rank, folder):
    dist.init_process_group("ripieno", init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=60))
    if rank == 1:
        1 / 0
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # by which the parent would end it before it has printed
    try:
        dist.barrier()
    except RuntimeError as error:
        print(error, flush=True)

if __name__ == "__main__":
    if sys.argv[1] == "process":
        ranks = [multiprocessing.Process(target=work, args=(rank, sys.argv[2])) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    else:
        try:
            torch.multiprocessing.start_processes(work, (sys.argv[2],), nprocs=2, start_method=sys.argv[1])
        except torch.multiprocessing.ProcessRaisedException as error:
            assert "ZeroDivisionError" in str(error), error
'''
        for way in ("process", "spawn", "fork"):
            with self.subTest(way), tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "script.py")
                path.write_text(script)
                ended = subprocess.run([sys.executable, path, way, folder], env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
                self.assertIn(TOLD, ended.stdout, ended.stderr)

    def test_a_killed_rank_is_missed_at_once_whatever_its_children_keep(self):
        script = '''
import datetime, os, signal, subprocess, sys, time
import ripieno
import torch
import torch.distributed as dist
dist.init_process_group("ripieno", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]), world_size=2, timeout=datetime.timedelta(minutes=10))
dist.barrier()
if dist.get_rank() == 1:
    if sys.argv[3] == "started":
        os.system("sleep 60 & echo $!")
    elif (child := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    else:
        print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(torch.ones(5))
'''
        for memory, child in (("on", "forked"), ("off", "started"), ("off", "forked")):
            with self.subTest(memory=memory, child=child), tempfile.TemporaryDirectory() as folder:
                environment = ENVIRONMENT | {"RIPIENO_SHARED_MEMORY": memory}
                command = [sys.executable, "-c", script, f"{folder}/store"]
                ranks = [subprocess.Popen([*command, str(rank), child], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                         for rank in range(2)]
                own = int(ranks[1].stdout.readline())
                ranks[1].wait(timeout=60)
                killed = time.monotonic()
                try:
                    errors = ranks[0].communicate(timeout=60)[1]
                finally:
                    os.kill(own, signal.SIGKILL)  # until here it has lived
                    for pipe in (ranks[1].stdout, ranks[1].stderr):
                        pipe.close()
                self.assertIn("lost rank 1", errors)
                self.assertLess(time.monotonic() - killed, 10)

    def test_a_rank_that_destroys_its_group_is_missed_at_once(self):
        script = '''
import datetime, sys, time
import ripieno
import torch
import torch.distributed as dist
dist.init_process_group("ripieno", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]), world_size=2, timeout=datetime.timedelta(minutes=10))
dist.barrier()
if dist.get_rank() == 1:
    dist.destroy_process_group()
    sys.stdin.read()  # goes on with something else
else:
    dist.all_reduce(torch.ones(5))
'''
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", script, f"{folder}/store"]
            ranks = [subprocess.Popen([*command, str(rank)], env=ENVIRONMENT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
            try:
                ranks[0].wait(timeout=60)
            finally:
                ranks[1].stdin.close()
            self.assertIn("lost rank 1", ranks[0].stderr.read())
            self.assertEqual(ranks[1].wait(timeout=60), 0)

    def test_an_error_says_who_is_lost_as_a_value(self):
        script = '''
import os, signal, sys
import ripieno
import torch
import torch.distributed as dist
rank = int(sys.argv[2])
dist.init_process_group("ripieno", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=3)
dist.barrier()
if rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(torch.ones(5))
except dist.DistBackendError as error:
    assert isinstance(error.loss, ripieno.Loss), error.loss
    print(error.loss.rank, error.loss.how, error.loss.told_by in (None, 0, 1))
'''
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", script, f"{folder}/store"]
            ranks = [subprocess.Popen([*command, str(rank)], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for rank in range(3)]
            outputs = [rank.communicate(timeout=60) for rank in ranks]
        for rank in range(2):
            self.assertEqual(outputs[rank][0], "2 ended True\n", outputs[rank][1])

    def test_an_error_of_ones_own_has_no_loss(self):
        script = '''
import sys
import ripieno
import torch
import torch.distributed as dist
rank = int(sys.argv[2])
dist.init_process_group("ripieno", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
try:
    dist.all_reduce(torch.ones(5 + rank))
except dist.DistBackendError as error:
    print(error.loss)
'''
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", script, f"{folder}/store"]
            ranks = [subprocess.Popen([*command, str(rank)], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for rank in range(2)]
            said = [rank.communicate(timeout=60)[0].strip() for rank in ranks]
        self.assertIn("None", said)  # who found that they differ; the other may hear that it has given up
        for one in said:
            self.assertTrue(one == "None" or "gave up" in one, said)


if __name__ == "__main__":
    unittest.main()
