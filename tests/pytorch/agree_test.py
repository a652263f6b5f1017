#!/usr/bin/env python3
"""ripieno.agree: strategies around a module and an optimiser of PyTorch."""
import sys
import unittest

from ranks import on_ranks

import ripieno
import torch
import torch.distributed as dist


def net(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32), torch.nn.Tanh(), torch.nn.Linear(32, 3))


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(16, 8, generator=torch.Generator().manual_seed(100 * rank + step % 4))
    return inputs, inputs[:, :3].argmax(1)


def learn(rank: int, strategy: str, optimizer=torch.optim.SGD, rate: float = 0.1, count: int = 40, **options):
    """The mean loss of the first and of the last four steps, and the model's state in the end."""
    model = net(rank)
    own = optimizer(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.StepLR(own, step_size=30, gamma=0.5)
    if not strategy.startswith("ps-"):  # whose servers step
        options["before_update"] = lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    agreement = ripieno.agree(model, own, strategy, **options)
    losses = []
    for step in range(count):
        inputs, targets = batch(rank, step)
        own.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        agreement.step()
        schedule.step()
        losses.append(loss.item())
    agreement.finish()
    assert agreement.steps == count
    return sum(losses[:4]) / 4, sum(losses[-4:]) / 4, {name: tensor.detach().numpy().copy() for name, tensor in model.state_dict().items()}


class Agree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.optim.SGD(net(0).parameters(), lr=0.1).step()  # loads what PyTorch loads late, once for all ranks

    def test_ranks_learn_and_end_with_the_same_model(self):
        for strategy, options in (("diloco", {"steps": 4, "outer": {"momentum": 0.5}, "codec": "int8", "codec_options": {"block": 64}}),
                                  ("ring", {}), ("gossip-pairs", {"optimizer": torch.optim.RMSprop, "rate": 0.01}),
                                  ("ps-async", {"optimizer": torch.optim.AdamW, "rate": 0.01}),
                                  ("fedavg", {"steps_per_epoch": 4, "batch_norm": "local"})):
            with self.subTest(strategy):
                results = on_ranks(2, lambda rank: learn(rank, strategy, **options))
                for before, after, state in results:
                    self.assertLess(after, 0.7 * before)
                    for name, tensor in state.items():
                        self.assertTrue((tensor == results[0][2][name]).all(), f"ranks hold another {name}")

    def test_ring_takes_the_steps_of_one_process_on_the_whole_batch(self):
        def act(rank: int) -> float:
            model, alone = torch.nn.Linear(8, 3).double(), torch.nn.Linear(8, 3).double()
            torch.nn.init.constant_(model.weight, 0.1), torch.nn.init.zeros_(model.bias)
            alone.load_state_dict(model.state_dict())
            optimizers = [torch.optim.Adam(one.parameters(), lr=0.02) for one in (model, alone)]
            agreement = ripieno.agree(model, optimizers[0], "ring", before_update=lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3))
            for step in range(20):
                batches = [batch(other, step) for other in range(2)]
                whole = torch.cat([inputs for inputs, _ in batches]), torch.cat([targets for _, targets in batches])
                for one, optimizer, (inputs, targets) in zip((model, alone), optimizers, (batches[rank], whole), strict=True):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(one(inputs.double()), targets).backward()
                agreement.step()
                assert torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.3) > 0.3
                optimizers[1].step()
            agreement.finish()
            return max((a - b).abs().max().item() for a, b in zip(model.parameters(), alone.parameters(), strict=True))

        self.assertLess(max(on_ranks(2, act)), 1e-12)

    def test_errors_say_why(self):
        def refused(rank: int):
            model = net(0)
            sgd, lbfgs = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.LBFGS(model.parameters())
            cases = ((sgd, "ddp", {}, "it exchanges while backward() runs"), (sgd, "fedavg", {}, "give steps_per_epoch"),
                     (sgd, "diloko", {}, 'did you mean "diloco"'), (sgd, "ring", {"steps": 4}, "no use for the option steps"),
                     (sgd, "diloco", {"steps": -1}, "steps = -1; its type, or its range, is another"),
                     (sgd, "diloco", {"outer": {"momentun": 0.9}}, 'did you mean "outer.momentum"'), (lbfgs, "ring", {}, "LBFGS"),
                     (sgd, "ps-sync", {"before_update": print}, "before_update has no effect"),
                     (torch.optim.RMSprop(model.parameters()), "ps-sync", {}, "know SGD, Adam and AdamW, not RMSprop"),
                     (torch.optim.SGD(model.parameters(), lr=0.1, maximize=True), "ps-sync", {}, "cannot with maximize"))
            for optimizer, strategy, options, sentence in cases:
                try:
                    ripieno.agree(model, optimizer, strategy, **options)
                except ValueError as error:
                    assert sentence in str(error), f"{error} has no: {sentence}"
                else:
                    raise AssertionError(f"{strategy} was not refused")

        on_ranks(2, refused)

    def test_an_error_of_one_rank_reaches_the_other(self):
        class Failing(torch.optim.SGD):
            def step(self, closure=None):
                if dist.get_rank() == 1:
                    raise ArithmeticError("no step today")
                return super().step(closure)

        first, second = on_ranks(2, lambda rank: learn(rank, "ring", Failing), fails=True)
        self.assertIn("DistBackendError: rank 0: rank 1 gave up: ArithmeticError: no step today", first)
        self.assertEqual(second, "ArithmeticError: no step today")
        errors = on_ranks(2, lambda rank: learn(rank, "ring", count=5 + rank), fails=True)
        for error in errors:
            self.assertIn("rank 0 called finish() after 5 steps, but rank 1 is in number 6", error)

    def test_other_learning_rates_are_told_unless_they_are_meant(self):
        def act(rank: int, **options):
            return learn(rank, "local-sgd", rate=0.1 if rank == 0 else 0.05, **options)

        for error in on_ranks(2, act, fails=True):
            self.assertIn("rank 1 has the learning rate 0.05 where rank 0 has the learning rate 0.1: all ranks must have the same", error)
        on_ranks(2, lambda rank: act(rank, own_rates=True))


if __name__ == "__main__":
    sys.exit(unittest.main())
