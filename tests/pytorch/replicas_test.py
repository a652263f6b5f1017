#!/usr/bin/env python3
"""ripieno.check_replicas: ranks that hold different models are told where."""
import sys
import time
import unittest
from collections.abc import Callable

from ranks import on_ranks

import ripieno
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RULE = "whatever changes parameters (the optimiser, its learning rate, clipping, loading) must be the same on all ranks"


def net() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 5))
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.2203)
    model.register_buffer("halves", torch.linspace(0, 1, 9).to(torch.bfloat16))
    model.register_buffer("numbers", torch.arange(6, dtype=torch.int32).reshape(2, 3))
    model.register_buffer("turns", torch.tensor([1 + 2j, 3 - 1j]), persistent=False)
    model.register_buffer("mask", torch.tensor([True, False]))
    model.register_buffer("nothing", torch.empty(0, 3))
    model.register_buffer("scales", torch.ones(4).to(torch.float8_e4m3fn))
    return model


def changed(change: Callable[[torch.nn.Module], object]) -> Callable[[int], None]:
    """Compares models, of which rank 1 has changed its own."""
    def act(rank: int) -> None:
        model = net()
        if rank == 1:
            with torch.no_grad():
                change(model)
        ripieno.check_replicas(model)

    return act


def set_number(name: str, place: tuple[int, ...], value: complex) -> Callable[[torch.nn.Module], object]:
    def change(model: torch.nn.Module) -> None:
        {**dict(model.named_parameters()), **dict(model.named_buffers())}[name][place] = value

    return change


class Replicas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.optim.SGD(net().parameters(), lr=0.1).step()  # loads what PyTorch loads late, once for all ranks

    def errors(self, act: Callable[[int], object], expected: str, size: int = 2) -> None:
        """Each rank's error is the line expected, with any backend, at once."""
        for backend in ("gloo", "ripieno"):
            with self.subTest(backend):
                start = time.monotonic()
                self.assertEqual(on_ranks(size, act, backend=backend, fails=True), [f"RuntimeError: {expected}"] * size)
                self.assertLess(time.monotonic() - start, 5)

    def test_the_same_weights_pass(self):
        for backend in ("gloo", "ripieno"):
            for size in (1, 3):
                on_ranks(size, lambda rank: ripieno.check_replicas(net()), backend=backend)

    def test_where_memory_lies_otherwise_the_numbers_are_the_same(self):
        def act(rank: int) -> None:
            model = torch.nn.Conv2d(3, 4, 3)
            torch.nn.init.uniform_(model.weight, generator=torch.Generator().manual_seed(1)), torch.nn.init.zeros_(model.bias)
            ripieno.check_replicas(model.to(memory_format=torch.channels_last) if rank == 1 else model)

        on_ranks(2, act)

    def test_a_changed_number_is_named_with_both_values(self):
        self.errors(changed(set_number("0.weight", (3, 14), 0.2151)), f"rank 1 holds 0.2151 in 0.weight[3, 14] where rank 0 holds 0.2203: {RULE}")
        self.errors(changed(set_number("2.bias", (4,), -0.0)), f"rank 1 holds -0 in 2.bias[4] where rank 0 holds 0.2203: {RULE}", size=3)

    def test_values_have_the_digits_that_tell_them_apart(self):
        self.errors(changed(lambda model: model[0].weight[0, 0].mul_(1 + 2e-7)),
                    f"rank 1 holds 0.2203001 in 0.weight[0, 0] where rank 0 holds 0.2203: {RULE}")

    def test_a_number_far_into_a_large_tensor(self):
        def act(rank: int) -> None:
            model = torch.nn.Embedding(1000, 50, dtype=torch.float64, _weight=torch.zeros(1000, 50, dtype=torch.float64))
            if rank == 1:
                model.weight.data[700:, 7] = 1 / 3
            ripieno.check_replicas(model)

        self.errors(act, f"rank 1 holds 0.3333 in weight[700, 7] where rank 0 holds 0: {RULE}")

    def test_nan_equals_nan_of_other_bits(self):
        def act(rank: int) -> None:
            model = net()
            with torch.no_grad():
                model[0].weight[2, 3] = float("nan")
                model.halves[4] = float("nan")
                model.turns[1] = complex(float("nan"), 1)
                if rank == 1:
                    model[0].weight.view(torch.int32)[2, 3] ^= -1 << 31 | 5
                    model.halves.view(torch.int16)[4] ^= -1 << 15
            assert model[0].weight[2, 3].isnan() and model.halves[4].isnan()
            ripieno.check_replicas(model)
            if rank == 1:
                model[0].weight.data[2, 3] = 1
            ripieno.check_replicas(model)

        self.errors(act, f"rank 1 holds 1 in 0.weight[2, 3] where rank 0 holds nan: {RULE}")

    def test_buffers_of_all_types(self):
        for name, place, value, expected in (("halves", (3,), 0.5, "0.5 in halves[3] where rank 0 holds 0.375"),
                                             ("numbers", (1, 1), -4, "-4 in numbers[1, 1] where rank 0 holds 4"),
                                             ("turns", (1,), 3 + 1j, "3+1j in turns[1] where rank 0 holds 3-1j"),
                                             ("mask", (1,), True, "True in mask[1] where rank 0 holds False"),
                                             ("scales", (2,), 2, "2 in scales[2] where rank 0 holds 1"),
                                             ("1.num_batches_tracked", (), 7, "7 in 1.num_batches_tracked where rank 0 holds 0")):
            with self.subTest(name):
                for error in on_ranks(2, changed(set_number(name, place, value)), fails=True):
                    self.assertIn(f"RuntimeError: rank 1 holds {expected}: a buffer is each rank's own unless", error)

    def test_other_models(self):
        weight, end = "parameter 0.weight of shape [64, 20] and type float32", "all ranks must have the same model"
        for change, expected in (
                (lambda model: setattr(model[0], "weight", torch.nn.Parameter(torch.zeros(63, 20))),
                 f"parameter 0.weight of shape [63, 20] and type float32 where rank 0 has {weight}"),
                (lambda model: model[0].to(torch.float64), f"parameter 0.weight of shape [64, 20] and type float64 where rank 0 has {weight}"),
                (lambda model: model[0].weight.requires_grad_(False), f"{weight}, frozen where rank 0 has {weight}"),
                (lambda model: model[0].to("meta"), f"{weight}, without numbers where rank 0 has {weight}"),
                (lambda model: model.append(torch.nn.LazyLinear(3)),
                 "parameter 3.weight, not initialised yet where rank 0 has buffer halves of shape [9] and type bfloat16"),
                (lambda model: model[1].register_buffer("one_more", torch.zeros(1)),
                 "buffer 1.one_more of shape [1] and type float32 where rank 0 has nothing more"),
                (lambda model: delattr(model[1], "num_batches_tracked"),
                 "nothing more where rank 0 has buffer 1.num_batches_tracked of shape [] and type int64")):
            with self.subTest(expected):
                self.assertEqual(on_ranks(2, changed(change), fails=True), [f"RuntimeError: rank 1 has {expected}: {end}"] * 2)

    def test_a_model_without_numbers(self):
        on_ranks(2, lambda rank: ripieno.check_replicas(torch.nn.Tanh()))
        for error in on_ranks(2, lambda rank: ripieno.check_replicas(torch.nn.Linear(1, 1) if rank == 0 else torch.nn.Tanh()), fails=True):
            self.assertIn("where rank 0 has parameter weight of shape [1, 1]", error)

    def test_what_data_parallel_gives_all_ranks_is_not_compared(self):
        def act(rank: int) -> str:
            model = DistributedDataParallel(net().float())
            optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
            model(torch.randn(8, 20, generator=torch.Generator().manual_seed(rank))).sum().backward()
            optimiser.step()
            ripieno.check_replicas(model)  # batch norm's statistics are those of each rank's batch
            try:
                ripieno.check_replicas(model.module)
            except RuntimeError as error:
                assert "1.running_mean[0]" in str(error) and "SyncBatchNorm" in str(error), error
            else:
                raise AssertionError("statistics were not compared")
            if rank == 1:
                model.module[2].bias.data[0] += 1
            ripieno.check_replicas(model)

        for error in on_ranks(2, act, fails=True):
            self.assertRegex(error, r"^RuntimeError: rank 1 holds \S+ in 2.bias\[0\] where rank 0 holds \S+: " + RULE[:20])

    def test_a_group_has_the_ranks_of_the_default_group(self):
        def act(rank: int) -> str:
            group = dist.new_group([1, 2])
            model = net()
            if rank != 1:
                model[0].bias.data[1] = 4
            if rank == 0:
                with self.assertRaisesRegex(ValueError, "this process is not in the group"):
                    ripieno.check_replicas(model, group)
                return ""
            with self.assertRaises(RuntimeError) as caught:
                ripieno.check_replicas(model, group)
            with self.assertRaises(RuntimeError) as of_model:
                ripieno.check_replicas(DistributedDataParallel(model, process_group=group, init_sync=False))
            self.assertEqual(str(caught.exception), str(of_model.exception))
            return str(caught.exception)

        for backend in ("gloo", "ripieno"):
            _, *errors = on_ranks(3, act, backend=backend)
            for error in errors:
                self.assertRegex(error, r"^rank 2 holds 4 in 0.bias\[1\] where rank 1 holds ")

    def test_no_group(self):
        with self.assertRaisesRegex(ValueError, "Default process group has not been initialized"):
            ripieno.check_replicas(net())


if __name__ == "__main__":
    sys.exit(unittest.main())
