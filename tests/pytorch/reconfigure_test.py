#!/usr/bin/env python3
"""A job that goes on with other members, by PyTorch 2.14's torch.distributed._reconfigure: a rank ends in the midst of training, the
others go on, and one more comes. With an earlier PyTorch, which has no such call, a group that would wait for it is refused;
tests/c10d/reconfigure_test.cpp tests the backend itself."""
import multiprocessing
import os
import sys
import tempfile
import unittest
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, os.environ["RIPIENO_PYTHON"])
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import ripieno  # noqa: E402

LIMIT = timedelta(seconds=60)


def train(model: torch.nn.Module, steps: range, dies_at: int | None = None) -> None:
    """Of each step's 12 samples, each rank takes its part. A new DistributedDataParallel has the same weights on all ranks."""
    ddp = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    part = 12 // dist.get_world_size()
    for step in steps:
        if step == dies_at:
            os._exit(3)
        inputs = torch.randn(12, 8, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
        mine = inputs[dist.get_rank() * part:(dist.get_rank() + 1) * part]
        optimiser.zero_grad()
        ((ddp(mine) - mine.sum(1, keepdim=True)) ** 2).mean().backward()
        optimiser.step()


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()


def member(process: int, processes: int, file: str, act) -> None:
    store = dist.FileStore(file, processes)
    # Each is first in a group of its own: who has not come yet is not waited for.
    dist.init_process_group("ripieno", store=dist.PrefixStore("job", store), rank=process, world_size=processes, timeout=LIMIT,
                            enable_reconfigure=True)
    store.set(f"handle/{process}", dist._get_reconfigure_handle())

    def meet(number: int, members: list[int]) -> None:
        handles = [store.get(f"handle/{one}").decode() for one in members]
        dist._reconfigure(number, handles, timeout=LIMIT).wait()

    act(process, store, meet)
    sys.stdout.flush()
    os._exit(0)


@unittest.skipIf(hasattr(dist, "_reconfigure"), f"PyTorch {torch.__version__} has torch.distributed._reconfigure")
class WithoutTheCall(unittest.TestCase):
    def test_no_group_waits_for_it(self):
        with self.assertRaisesRegex(ValueError, "enable_reconfigure needs PyTorch 2.14"):
            ripieno.ProcessGroupRipieno(dist.HashStore(), 0, 1, enable_reconfigure=True)


@unittest.skipUnless(hasattr(dist, "_reconfigure"), f"PyTorch {torch.__version__} has no torch.distributed._reconfigure")
class ATrainingGoesOn(unittest.TestCase):
    def run_members(self, processes: int, act) -> list[int]:
        fork = multiprocessing.get_context("fork")
        with tempfile.TemporaryDirectory() as folder:
            members = [fork.Process(target=member, args=(one, processes, f"{folder}/store", act)) for one in range(processes)]
            for one in members:
                one.start()
            for one in members:
                one.join(120)
            for one in members:
                if one.is_alive():
                    one.kill()
            return [one.exitcode for one in members]

    def test_a_rank_dies_and_a_new_one_comes(self):
        """Processes 0, 1, 2 train; 1 dies at step 10; 0 and 2 go on from step 10; at step 20 process 3 joins them, with the model of 0."""
        def act(process, store, meet):
            model = network()
            if process == 3:
                store.get("ready for one more")
            else:
                meet(1, [0, 1, 2])
                try:
                    train(model, range(30), dies_at=10 if process == 1 else None)
                    raise AssertionError("nobody was missed")
                except RuntimeError as error:
                    print(f"process {process}: {error}".splitlines()[0])
                # Step 10 has changed nothing: no rank has got the mean.
                meet(2, [2, 0])
                assert (dist.get_rank(), dist.get_world_size()) == ({2: 0, 0: 1}[process], 2)
                train(model, range(10, 20))
                store.set("ready for one more", "")
            meet(3, [0, 2, 3])
            train(model, range(20, 30))
            alone = network()
            optimiser = torch.optim.SGD(alone.parameters(), lr=0.1)
            for step in range(30):
                inputs = torch.randn(12, 8, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
                optimiser.zero_grad()
                ((alone(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean().backward()
                optimiser.step()
            for ours, theirs in zip(model.parameters(), alone.parameters()):
                torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)

        self.assertEqual(self.run_members(4, act), [0, 3, 0, 0])

    def test_a_set_of_handles_is_ordered_by_the_first_ranks(self):
        def act(process, store, meet):
            handles = {store.get(f"handle/{one}").decode() for one in range(3)}
            dist._reconfigure(1, handles, timeout=LIMIT).wait()
            assert dist.get_rank() == process
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            assert tensor[0] == 3

        self.assertEqual(self.run_members(3, act), [0, 0, 0])

    def test_agreements_keep_a_group_as_it_is(self):
        def act(process, store, meet):
            meet(1, [0, 1])
            model = network()
            agreement = ripieno.agree(model, torch.optim.SGD(model.parameters(), lr=0.1), "local-sgd", steps=2)
            try:
                meet(2, [process])
                raise AssertionError("it was not refused")
            except (RuntimeError, ValueError) as error:
                assert "communicators of its own" in str(error), error
            del agreement

        self.assertEqual(self.run_members(2, act), [0, 0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
