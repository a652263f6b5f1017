#!/usr/bin/env python3
"""Ordinary mistakes of those who use torch.distributed, over backend ripieno: each ends at once, on all ranks that take part in it, with a
line that says who and what, or simply works. Nobody waits for the group's timeout."""
import contextlib
import datetime
import os
import sys
import tempfile
import time
import unittest
from collections.abc import Callable

from ranks import on_ranks

import ripieno
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LIMIT = 10  # seconds in which a mistake has ended; the group's timeout is 60


def numbers(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(count, dtype=dtype)


def net(width: int = 6) -> torch.nn.Sequential:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 3))


def loss_of(model: torch.nn.Module, rank: int, step: int) -> torch.Tensor:
    inputs = torch.randn(5, 4, generator=torch.Generator().manual_seed(10 * rank + step))
    return model(inputs.to(next(model.parameters()).dtype)).square().mean()


def sgd(model: torch.nn.Module, rate: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate)


class Mistakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sgd(net()).step()  # loads what PyTorch loads late, once for all ranks

    def errors_of(self, act: Callable[[int], object], **options) -> list[str]:
        """Of two ranks, which end when `act` does; "" of one that ends without."""
        start = time.monotonic()
        errors = [error or "" for error in on_ranks(2, act, fails=True, meets=False, **options)]
        self.assertLess(time.monotonic() - start, LIMIT)
        return errors

    def all_are_told(self, act: Callable[[int], object], *parts: str) -> None:
        """Each rank's error has all the parts."""
        for rank, error in enumerate(self.errors_of(act)):
            for part in parts:
                self.assertIn(part, error, f"rank {rank}")

    def one_is_told(self, act: Callable[[int], object], *parts: str) -> None:
        """At least one rank's error has all the parts; the other's names that rank."""
        errors = self.errors_of(act)
        self.assertTrue(any(all(part in error for part in parts) for error in errors), errors)
        for rank, error in enumerate(errors):
            self.assertIn(f"rank {1 - rank}", error)

    def works(self, act: Callable[[int], object]) -> None:
        start = time.monotonic()
        on_ranks(2, act)
        self.assertLess(time.monotonic() - start, LIMIT)


class Collectives(Mistakes):
    def test_other_sizes(self):
        self.all_are_told(lambda rank: dist.all_reduce(numbers(4 + rank)), "rank 0", "4 fp32", "rank 1", "5 fp32")
        self.all_are_told(lambda rank: dist.all_gather_single(numbers(2 * (4 + rank)), numbers(4 + rank)), "rank 0", "4 fp32", "rank 1", "5 fp32")
        self.all_are_told(lambda rank: dist.reduce_scatter_single(numbers(4 + rank), numbers(2 * (4 + rank))), "rank 0", "4 fp32", "rank 1", "5 fp32")
        errors = self.errors_of(lambda rank: dist.broadcast(numbers(4 + rank), 0))  # a root that has sent may have ended
        self.assertRegex(errors[1], "rank 1 .*5 fp32 .*rank 0 .*4 fp32")

    def test_other_types(self):
        self.all_are_told(lambda rank: dist.all_reduce(numbers(4, (torch.float32, torch.float64)[rank])), "rank 0", "4 fp32", "rank 1", "4 fp64")

    def test_other_shapes_of_as_many_numbers_go_number_by_number(self):
        def act(rank: int) -> None:
            tensor = torch.arange(12.0).reshape((3, 4) if rank == 0 else (2, 6))
            dist.all_reduce(tensor)
            assert torch.equal(tensor.flatten(), 2 * torch.arange(12.0))

        self.works(act)

    def test_another_collective_on_one_rank(self):
        for other, name in ((lambda: dist.broadcast(numbers(4), 0), "broadcast"), (lambda: dist.all_gather([numbers(4), numbers(4)], numbers(4)), "all_gather"),
                            (lambda: dist.all_reduce(numbers(4), dist.ReduceOp.MAX), "all_reduce max")):
            with self.subTest(name):
                self.one_is_told(lambda rank: other() if rank == 1 else dist.all_reduce(numbers(4)), "rank 0", "all_reduce sum", "rank 1", name)

    def test_another_operation_on_types_that_travel_as_bytes(self):
        self.all_are_told(lambda rank: dist.all_reduce(numbers(4, torch.int16), (dist.ReduceOp.SUM, dist.ReduceOp.MAX)[rank]), "rank 0", "sum of 8 uint8",
                          "rank 1", "max of 8 uint8", "CPUShortType[4]")

    def test_a_barrier_is_no_sum_of_one_number(self):
        self.all_are_told(lambda rank: dist.barrier() if rank == 0 else dist.all_reduce(numbers(1)), "rank 0", "barrier", "rank 1", "all_reduce sum")

    def test_other_roots(self):
        def act(rank: int, operation: str) -> None:
            many = [numbers(4) for _ in range(2)]
            {"broadcast": lambda: dist.broadcast(numbers(4), rank), "reduce": lambda: dist.reduce(numbers(4), rank),
             "gather": lambda: dist.gather(numbers(4), many, dst=rank), "scatter": lambda: dist.scatter(numbers(4), many, src=rank)}[operation]()
            dist.barrier()

        for operation in ("broadcast", "reduce", "gather", "scatter"):
            with self.subTest(operation):
                own, other = (f"rank {rank} has ripieno:{operation} number 0 with root {rank}" for rank in (0, 1))
                self.all_are_told(lambda rank: act(rank, operation), own, other, ": all ranks must call the same operations with the same root")

    def test_parts_for_oneself_of_other_sizes(self):
        self.all_are_told(lambda rank: dist.all_to_all_single(numbers(5), numbers(5), [2 + rank, 3 - rank], [3 - rank, 2 + rank]),
                          "ValueError: all_to_all_single where rank ", " sends itself ", "part ", " of its input and of its output must be alike")

    def test_one_rank_calls_fewer_and_ends(self):
        def act(rank: int) -> None:
            for _ in range(4 - rank):
                dist.all_reduce(numbers(4))

        errors = self.errors_of(act)
        self.assertRegex(errors[0], "DistBackendError: .*rank 1 .*all_reduce")
        self.assertEqual(errors[1], "")

    def test_a_rank_is_killed(self):
        errors = self.errors_of(lambda rank: os._exit(3) if rank == 1 else dist.all_reduce(numbers(4)))
        self.assertRegex(errors[0], "DistBackendError: .*rank 1 .*all_reduce")
        self.assertEqual(errors[1], "ended without an answer")

    def test_arguments_that_fit_no_collective(self):
        self.all_are_told(lambda rank: dist.broadcast(numbers(4), 7), "ValueError: broadcast with root rank 7: the group has ranks 0 to 1")
        errors = self.errors_of(lambda rank: dist.gather(numbers(3), [numbers(3)] if rank == 0 else None) or dist.barrier())
        self.assertIn("ValueError: gather with a list of 1 tensors: the group has 2 ranks", errors[0])
        self.assertRegex(errors[1], "DistBackendError: .*rank 0 ")

    def test_a_message_of_another_size_or_type(self):
        for tensor, expected in ((numbers(5), "5 fp32"), (numbers(4, torch.float64), "4 fp64")):
            errors = self.errors_of(lambda rank: dist.send(numbers(4), 0) if rank == 1 else dist.recv(tensor, 1))
            self.assertIn(f"DistBackendError: rank 0: receives {expected} with tag 0, but rank 1 sent 4 fp32", errors[0])


class Groups(Mistakes):
    def test_other_world_sizes(self):
        with tempfile.TemporaryDirectory() as folder:
            def act(rank: int) -> None:
                dist.destroy_process_group()
                dist.init_process_group("ripieno", init_method=f"file://{folder}/again", rank=rank, world_size=2 + rank,
                                        timeout=datetime.timedelta(seconds=60))

            self.all_are_told(act, "ValueError: group 0 has ", "2 ranks, says rank 0", "3 ranks, says rank 1", "start all with one world size")

    def test_a_rank_beyond_its_world(self):
        with tempfile.TemporaryDirectory() as folder:
            def act(rank: int) -> None:
                dist.destroy_process_group()
                ripieno.ProcessGroupRipieno(dist.FileStore(f"{folder}/again", 2), rank, 2 - rank, datetime.timedelta(seconds=60))

            self.all_are_told(act, "ValueError: rank 1 of the group in a world of 1: ranks begin at 0; start all with one world size")

    def test_two_processes_as_one_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            def act(_: int) -> None:
                dist.destroy_process_group()
                ripieno.ProcessGroupRipieno(dist.FileStore(f"{folder}/again", 2), 0, 2, datetime.timedelta(seconds=60))

            self.all_are_told(act, "ValueError: rank 0 of the group has come twice, as process ", " and as process ", ": give each process a rank of its own")

    def test_a_group_of_other_ranks_on_one_rank(self):
        errors = self.errors_of(lambda rank: dist.new_group([0, 1] if rank == 1 else [0]))
        self.assertRegex(errors[1], "ValueError: group 1 has .*start all with one world size")
        for part in ("2 ranks, says rank 1", "1 ranks, says rank 0"):
            self.assertIn(part, errors[1])


class DataParallel(Mistakes):
    def train(self, rank: int, model: torch.nn.Sequential | None = None, steps: int = 3, rate: float = 0.1,
              change: Callable[[DistributedDataParallel, torch.optim.Optimizer, int], object] = lambda model, optimiser, step: None,
              hook: ripieno.hooks.Hook | None = None, **options) -> DistributedDataParallel:
        """`change` of the model, on rank 1 alone, after each step."""
        parallel = DistributedDataParallel(model or net(), **options)
        if hook:
            parallel.register_comm_hook(None, hook)
        optimiser = sgd(parallel, rate)
        for step in range(steps):
            optimiser.zero_grad()
            loss_of(parallel, rank, step).backward()
            optimiser.step()
            if rank == 1:
                change(parallel, optimiser, step)
        return parallel

    def test_another_model(self):
        errors = self.errors_of(lambda rank: self.train(rank, net(6 + rank)))
        self.assertIn("rank 1 ", errors[0])
        self.assertIn("params[0] in this process with sizes [7, 4] appears not to match sizes of the same param in process 0", errors[1])
        self.all_are_told(lambda rank: self.train(rank, net().append(torch.nn.Tanh() if rank == 0 else torch.nn.Linear(3, 3))),
                          "ank 0 ", "4 params", "ank 1 ", "6 params")
        self.one_is_told(lambda rank: self.train(rank, net().double() if rank == 1 else net()), "rank 0", "51 fp32", "rank 1", "51 fp64")

    def test_a_layer_frozen_on_one_rank(self):
        def act(rank: int) -> None:
            model = net()
            model[0].weight.requires_grad_(rank == 0)
            self.train(rank, model)

        self.all_are_told(act, "ank 0 ", "4 params", "ank 1 ", "3 params")

    def test_other_options(self):
        self.one_is_told(lambda rank: self.train(rank, find_unused_parameters=rank == 1), "rank 0", "rank 1", "4 int32")
        self.works(lambda rank: ripieno.check_replicas(self.train(rank, bucket_cap_mb=25 if rank == 0 else 1e-4)))  # rank 0's are taken

    def test_other_hooks(self):
        hooks = ripieno.hooks
        self.all_are_told(lambda rank: self.train(rank, hook=(hooks.fp16(), hooks.bf16())[rank]), "rank 0", "hook fp16", "rank 1", "hook bf16")
        self.all_are_told(lambda rank: self.train(rank, hook=hooks.powersgd(2) if rank == 1 else None), "rank 0", "all_reduce sum of 51 fp32", "rank 1",
                          "hook powersgd")
        self.all_are_told(lambda rank: self.train(rank, hook=hooks.topk((0.25, 0.5)[rank])), "rank 0", "104 uint8", "rank 1", "208 uint8")

    def test_a_backward_pass_too_few_or_too_many(self):
        def act(rank: int, forgetful: int) -> None:
            parallel = DistributedDataParallel(net())
            for step in range(3):
                if rank != forgetful or step != 1:
                    loss_of(parallel, rank, step).backward()

        for forgetful in (0, 1):
            errors = self.errors_of(lambda rank: act(rank, forgetful))
            self.assertEqual(errors[forgetful], "")
            self.assertIn(f"rank {forgetful} ", errors[1 - forgetful])

    def test_fewer_steps_on_one_rank(self):
        errors = self.errors_of(lambda rank: self.train(rank, steps=4 - rank) and None)
        self.assertIn("rank 1 ", errors[0])
        self.assertEqual(errors[1], "")

    def test_an_exception_in_a_step_of_one_rank(self):
        errors = self.errors_of(lambda rank: self.train(rank, change=lambda *_: 1 / 0))
        self.assertIn("rank 1 ", errors[0])
        self.assertEqual(errors[1], "ZeroDivisionError: division by zero")

    def test_gradients_kept_back_on_one_rank(self):
        def act(rank: int) -> None:
            parallel = DistributedDataParallel(net())
            for step in range(3):
                with parallel.no_sync() if rank == step == 1 else contextlib.nullcontext():
                    loss_of(parallel, rank, step).backward()

        errors = self.errors_of(act)
        self.assertIn("rank 1 ", errors[0])

    def test_ranks_that_part_are_found(self):
        def loads(model: DistributedDataParallel, optimiser: torch.optim.Optimizer, step: int) -> None:
            if step == 1:
                model.module.load_state_dict({name: 2 * tensor for name, tensor in model.module.state_dict().items()})

        for act in (lambda rank: self.train(rank, change=loads), lambda rank: self.train(rank, rate=0.1 + rank),
                    lambda rank: self.train(rank, change=lambda model, optimiser, step: optimiser.step())):
            self.all_are_told(lambda rank: ripieno.check_replicas(act(rank)),
                              "RuntimeError: rank 1 holds ", " in 0.weight[0, 0] where rank 0 holds ", "must be the same on all ranks")


class Agreements(Mistakes):
    def agree(self, rank: int, strategy: str = "ring", model: torch.nn.Module | None = None, rate: float = 0.1, count: int = 3,
              finish: bool = True, forgetful: int | None = None, between: Callable[[torch.nn.Module], object] = lambda model: None, **options) -> None:
        """`count` steps, of which rank `forgetful` calls backward() in all but the second."""
        model = model or net()
        optimiser = sgd(model, rate)
        agreement = ripieno.agree(model, optimiser, strategy, **options)
        for step in range(count):
            optimiser.zero_grad()
            if rank != forgetful or step != 1:
                loss_of(model, rank, step).backward()
            agreement.step()
            between(model)
        if finish:
            agreement.finish()
            ripieno.check_replicas(model)

    def test_another_strategy_option_or_model(self):
        rule = ": all ranks must make the same model and options"
        self.all_are_told(lambda rank: self.agree(rank, ("ring", "direct")[rank]), "rank 1 has strategy direct where rank 0 has strategy ring" + rule)
        self.all_are_told(lambda rank: self.agree(rank, "local-sgd", steps=4 + rank), "rank 1 has steps 5", "where rank 0 has steps 4", rule)
        self.all_are_told(lambda rank: self.agree(rank, codec=("fp16", "int8")[rank]), "rank 1 has codec int8", "where rank 0 has codec fp16", rule)
        self.all_are_told(lambda rank: self.agree(rank, model=net(6 + rank)), "rank 1 has parameter 0.weight of shape [7, 4]",
                          "where rank 0 has parameter 0.weight of shape [6, 4]", rule)
        self.all_are_told(lambda rank: self.agree(rank, model=net().double() if rank == 1 else net()),
                          "rank 1 has parameter 0.weight of shape [6, 4], type Double", "where rank 0 has parameter 0.weight of shape [6, 4], type Float", rule)

    def test_values_that_no_hook_takes(self):
        for make, expected in ((lambda: ripieno.hooks.int8(-1), "block = -1;"), (lambda: ripieno.hooks.powersgd(2.5), "rank = 2.5;"),
                               (lambda: ripieno.hooks.topk(0.1, "x"), "error_feedback = 'x';")):
            with self.subTest(expected), self.assertRaisesRegex(ValueError, expected + " its type, or its range, is another"):
                make()

    def test_names_that_are_not_known(self):
        for options, expected in (({"codec": "int9"}, 'did you mean "int8"'), ({"route": "rnig"}, 'did you mean "ring"'),
                                  ({"codec": "int8", "codec_options": {"blocks": 64}}, 'did you mean "codec.block"'),
                                  ({"outer": {"momentum": "much"}}, "outer.momentum = 'much'; its type, or its range, is another"),
                                  ({"batch_norm": "men"}, "batch_norm = men; known are rank0, mean, local")):
            with self.subTest(options):
                self.all_are_told(lambda rank: self.agree(rank, "local-sgd", **options), "ValueError: ", expected)

    def test_no_agreement_on_one_rank(self):
        for other, name in ((dist.barrier, "barrier"), (lambda: DistributedDataParallel(net()), "all_gather")):
            with self.subTest(name):
                self.all_are_told(lambda rank: self.agree(rank) if rank == 0 else other(), "rank 0", "agree()", "rank 1", name)

    def test_an_exception_before_the_agreement_of_one_rank(self):
        errors = self.errors_of(lambda rank: self.agree(rank, model=net(int(6 / (1 - rank)))))
        self.assertRegex(errors[0], "DistBackendError: .*rank 1 ")
        self.assertEqual(errors[1], "ZeroDivisionError: division by zero")

    def test_fewer_steps_on_one_rank(self):
        errors = self.errors_of(lambda rank: self.agree(rank, count=4 - rank, finish=False))
        self.assertIn("rank 1 left the agreement after 3 steps, without finish()", errors[0])
        self.assertEqual(errors[1], "")
        self.all_are_told(lambda rank: self.agree(rank, "local-sgd", count=9 - rank), "rank 1 ", "after 8", "rank 0 ", " 9",
                          "with this strategy all ranks must take equally many")

    def test_an_optimiser_of_another_net(self):
        def act(rank: int) -> None:
            ripieno.agree(net(), sgd(net()), "ring")

        self.all_are_told(act, "ValueError: the optimiser has a parameter of shape [6, 4] that the net does not have: nobody would agree on it")

    def test_weights_replaced_after_the_beginning(self):
        def act(rank: int) -> None:
            model = net()
            agreement = ripieno.agree(model, sgd(model), "ring")
            model[0].weight.data = torch.ones(6, 4)
            loss_of(model, rank, 0).backward()
            agreement.step()

        self.all_are_told(act, "parameters or buffers of the net were replaced (loaded, or moved?) before step() number 1: do that before agree()")

    def test_a_step_after_the_end(self):
        def act(rank: int) -> None:
            model = net()
            agreement = ripieno.agree(model, sgd(model), "ring")
            agreement.finish()
            agreement.step()

        self.all_are_told(act, "ValueError: step() after finish()")

    def test_without_a_backward_pass_gradients_are_zeros(self):
        self.works(lambda rank: self.agree(rank, forgetful=1))

    def test_collectives_between_steps(self):
        def add(model: torch.nn.Module) -> None:
            tensor = numbers(3)
            dist.all_reduce(tensor)
            assert tensor[0] == 2

        self.works(lambda rank: self.agree(rank, between=add))

    def test_ranks_that_part_are_found(self):
        apart = "DistBackendError: rank 1 holds ", " where rank 0 holds ", "must be the same on all ranks"

        def act(rank: int, strategy: str = "ring", count: int = 3) -> None:
            def part(model: torch.nn.Module) -> None:
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter += rank

            self.agree(rank, strategy, count=count, between=part)

        for strategy in ("ring", "leader-ring"):
            with self.subTest(strategy):
                self.all_are_told(lambda rank: act(rank, strategy), *apart, "step() number 2")
        self.all_are_told(lambda rank: act(rank, count=1), *apart, "in finish()")
        self.all_are_told(lambda rank: self.agree(rank, rate=0.1 + rank),
                          "rank 1 has the learning rate 1.1 where rank 0 has the learning rate 0.1: all ranks must have the same")
        self.all_are_told(lambda rank: self.agree(rank, "local-sgd", rate=0.1 + rank, own_rates=True, between=ripieno.check_replicas),
                          "RuntimeError: rank 1 holds ", " in 0.weight[0, 0] where rank 0 holds ", "must be the same on all ranks")


if __name__ == "__main__":
    sys.exit(unittest.main())
