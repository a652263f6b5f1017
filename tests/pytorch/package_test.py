#!/usr/bin/env python3
"""The Python package: DistributedDataParallel over backend ripieno, and its hooks."""
import ast
import datetime
import importlib.metadata
import inspect
import io
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
import unittest.mock
from pathlib import Path

from ranks import on_ranks

import numpy
import ripieno
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5)).double()


def batch(step: int, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(step)
    inputs = torch.randn(samples, 20, generator=random, dtype=torch.float64)
    return inputs, (inputs @ torch.ones(20, 5, dtype=torch.float64) + inputs[:, :5] ** 2).detach()


def train(model: torch.nn.Module, rank: int, ranks: int, steps: int = 12, samples: int = 8) -> tuple[list[float], list[numpy.ndarray]]:
    """The steps' losses on this rank's part of the batches, and the parameters in the end."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for step in range(steps):
        inputs, targets = batch(step, samples * ranks)
        part = slice(rank * samples, (rank + 1) * samples)
        loss = torch.nn.functional.mse_loss(model(inputs[part]), targets[part])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, [parameter.detach().numpy().copy() for parameter in model.parameters()]


def data_parallel(rank: int, hook=None, state=None, steps: int = 12, **options) -> tuple[list[float], list[numpy.ndarray]]:
    model = DistributedDataParallel(network(), **{"bucket_cap_mb": 0.02, **options})
    if hook is not None:
        model.register_comm_hook(state, hook)
    return train(model, rank, dist.get_world_size(), steps)


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.alone = {ranks: train(network(), 0, 1, samples=8 * ranks) for ranks in (2, 3)}

    def difference(self, results: list, ranks: int) -> float:
        """How far the parameters are from those of one process on the whole batch; all ranks must hold the same bits."""
        for _, parameters in results[1:]:
            self.assertTrue(all(numpy.array_equal(a, b) for a, b in zip(parameters, results[0][1], strict=True)), "ranks have parted")
        return max(abs(a - b).max() for a, b in zip(results[0][1], self.alone[ranks][1], strict=True))

    def test_data_parallel_equals_one_process_on_the_whole_batch(self):
        for ranks in (2, 3):
            for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"static_graph": True}):
                with self.subTest(ranks=ranks, **options):
                    results = on_ranks(ranks, lambda rank: data_parallel(rank, **options))
                    self.assertLess(self.difference(results, ranks), 1e-12)
                    mean = [sum(losses) / ranks for losses in zip(*(losses for losses, _ in results), strict=True)]
                    for ours, alone in zip(mean, self.alone[ranks][0], strict=True):
                        self.assertAlmostEqual(ours, alone, delta=1e-9 * alone)

    def test_pytorchs_debug_mode(self):
        def act(rank: int):
            dist.set_debug_level_from_env()
            return data_parallel(rank, ripieno.hooks.topk(fraction=1.0))

        with unittest.mock.patch.dict(os.environ, TORCH_DISTRIBUTED_DEBUG="DETAIL"):
            self.assertLess(self.difference(on_ranks(2, act), 2), 1e-8)

    def test_ranks_that_share_no_memory(self):
        with unittest.mock.patch.dict(os.environ, RIPIENO_SHARED_MEMORY="off"):
            results = on_ranks(3, lambda rank: (*data_parallel(rank), dist.group.WORLD._get_backend(torch.device("cpu"))._ways()))
        self.assertEqual({way for *_, ways in results for way in ways}, {"tcp"})
        self.assertLess(self.difference([result[:2] for result in results], 3), 1e-12)

    def test_hooks(self):
        for hook, most in ((ripieno.hooks.powersgd(rank=64), 1e-9), (ripieno.hooks.topk(fraction=1.0), 1e-8), (ripieno.hooks.fp16(), 1e-3),
                           (ripieno.hooks.bf16(), 1e-2), (ripieno.hooks.int8(), 1e-2), (ripieno.hooks.qsgd(bits=8), 5e-2)):
            with self.subTest(hook=hook.__name__):
                difference = self.difference(on_ranks(2, lambda rank: data_parallel(rank, hook)), 2)
                self.assertLess(difference, most)

    def test_hooks_that_lose_much_still_learn(self):
        for hook in (ripieno.hooks.powersgd(2), ripieno.hooks.sign(), ripieno.hooks.topk(0.1), ripieno.hooks.topk_sampled(0.1)):
            with self.subTest(hook=hook.__name__):
                results = on_ranks(3, lambda rank: data_parallel(rank, hook, steps=60))
                self.difference(results, 3)  # all hold the same
                losses = [sum(losses) for losses in zip(*(losses for losses, _ in results), strict=True)]
                self.assertLess(sum(losses[-10:]), 0.7 * sum(losses[:10]))

    def test_hooks_go_on_from_what_they_have_kept(self):
        def resumed(rank: int, make, carry) -> float:
            first, second = network(), network()
            hook, other = make(), make()
            one, two = DistributedDataParallel(first), DistributedDataParallel(second)
            one.register_comm_hook(None, hook)
            two.register_comm_hook(None, other)

            def step(model: torch.nn.Module, number: int) -> None:
                inputs, targets = batch(number, 16)
                part = slice(rank * 8, rank * 8 + 8)
                model.zero_grad()
                torch.nn.functional.mse_loss(model(inputs[part]), targets[part]).backward()
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter -= 0.01 * parameter.grad

            for number in range(3):
                step(one, number)
            step(two, 9)  # forms its buckets as the other has
            second.load_state_dict(first.state_dict())
            other.load_state_dict(carry(hook))
            for number in range(3, 6):
                step(one, number)
                step(two, number)
            return max((a - b).abs().max().item() for a, b in zip(first.parameters(), second.parameters(), strict=True))

        def saved(hook):
            file = io.BytesIO()
            torch.save(hook.state_dict(), file)
            file.seek(0)
            return torch.load(file)

        def pickled(hook):
            return pickle.loads(pickle.dumps(hook)).state_dict()

        for make in (lambda: ripieno.hooks.powersgd(1), lambda: ripieno.hooks.qsgd(), lambda: ripieno.hooks.topk(0.1), ripieno.hooks.fp16):
            for carry in (saved, pickled):
                with self.subTest(hook=make().__name__, carry=carry.__name__):
                    self.assertEqual(on_ranks(2, lambda rank: resumed(rank, make, carry)), [0, 0])
        with self.assertRaisesRegex(ValueError, r"^what int8\(block=256, error_feedback=True\) has kept is loaded into powersgd\(rank=2, "):
            ripieno.hooks.powersgd().load_state_dict(ripieno.hooks.int8().state_dict())

    def test_pytorchs_own_hooks_whose_callbacks_exchange(self):
        # PowerSGD in one bucket: of several, the callbacks begin their exchanges in an order of chance, with which Gloo hangs.
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

        def powersgd(rank: int):
            state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=64, start_powerSGD_iter=2, min_compression_rate=0.1)
            return data_parallel(rank, powerSGD_hook.powerSGD_hook, state, bucket_cap_mb=25)

        self.difference(on_ranks(2, powersgd), 2)
        self.assertLess(self.difference(on_ranks(2, lambda rank: data_parallel(rank, default_hooks.fp16_compress_hook)), 2), 1e-2)

    def test_a_group_of_some_ranks_has_its_hook(self):
        def of_two(rank: int):
            group = dist.new_group([0, 1], backend="ripieno")
            if rank == 2:
                return None
            model = DistributedDataParallel(network(), process_group=group)
            model.register_comm_hook(group, ripieno.hooks.topk(fraction=1.0))
            return train(model, rank, 2)

        self.assertLess(self.difference(on_ranks(3, of_two)[:2], 2), 1e-8)  # it sends fp32


def built_on_groups(rank: int) -> dict:
    """Functional collectives, fully sharded data parallel, batches of messages, objects: what each gives on this rank of two."""
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    world, numbers = dist.group.WORLD, torch.arange(4.0)
    found = {"all_reduce": functional.all_reduce(numbers + rank, "sum", world), "all_to_all": functional.all_to_all_single(numbers + 10 * rank, None, None, world),
             "reduce_scatter": functional.reduce_scatter_single(numbers, "sum", 0, world), "all_gather": functional.all_gather_single(numbers + rank, 0, world)}
    found = {name: tensor.tolist() for name, tensor in found.items()}
    model, mesh = network(), init_device_mesh("cpu", (2,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(5):
        inputs, targets = batch(step, 16)
        loss = torch.nn.functional.mse_loss(model(inputs[8 * rank:8 * rank + 8]), targets[8 * rank:8 * rank + 8])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found["fully_shard"] = loss.item()
    theirs = torch.zeros(3)
    messages = [dist.P2POp(dist.isend, torch.full((3,), float(rank)), 1 - rank), dist.P2POp(dist.irecv, theirs, 1 - rank)]
    works = dist.batch_isend_irecv(messages)
    for work in works:
        work.wait()
    found["its works"] = len(works)
    found["batch_isend_irecv"] = theirs.tolist()
    found["all_gather_object"] = [None, None]
    dist.all_gather_object(found["all_gather_object"], {"rank": rank})
    dist.new_subgroups(1)
    return found


class Groups(unittest.TestCase):
    def test_what_is_built_on_groups_gives_what_it_gives_with_gloo(self):
        self.assertEqual(on_ranks(2, built_on_groups), on_ranks(2, built_on_groups, backend="gloo"))


WITHOUT_AN_END = """
import sys
import ripieno, torch, torch.distributed as dist
dist.init_process_group("ripieno", init_method="file://" + sys.argv[2], rank=int(sys.argv[1]), world_size=2)
work = dist.all_reduce(torch.ones(5), async_op=True)
work.get_future().then(lambda future: future.value()[0] * 2).wait()
if dist.get_rank() == 0:
    never = dist.irecv(torch.zeros(3), 1)
"""


class Ends(unittest.TestCase):
    def test_a_script_may_end_without_destroying_its_group(self):
        for _ in range(3):
            with tempfile.TemporaryDirectory() as folder:
                environment = os.environ | {"PYTHONPATH": os.environ["RIPIENO_PYTHON"]}
                ranks = [subprocess.Popen([sys.executable, "-c", WITHOUT_AN_END, str(rank), f"{folder}/store"], env=environment, stderr=subprocess.PIPE, text=True)
                         for rank in range(2)]
                for rank in ranks:
                    _, errors = rank.communicate(timeout=60)
                    self.assertEqual((rank.returncode, errors), (0, ""))


class EntryPoint(unittest.TestCase):
    def test_what_pytorch_finds_the_backend_by_makes_it_known(self):
        project = tomllib.loads((Path(__file__).parents[2] / "python/pyproject.toml").read_text())["project"]
        register = importlib.metadata.EntryPoint("ripieno", project["entry-points"]["torch.distributed.backends"]["ripieno"], "").load()
        register()
        self.assertIn("ripieno", dist.Backend.backend_list)


class Program(unittest.TestCase):
    """python -m ripieno, and the command ripieno, with the program where a wheel has it."""

    def setUp(self):
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        self.folder = Path(own.name)
        shutil.copytree(Path(os.environ["RIPIENO_PYTHON"]) / "ripieno_program", self.folder / "ripieno_program")
        (self.folder / "ripieno").mkdir()
        for file in (Path(os.environ["RIPIENO_PYTHON"]) / "ripieno").iterdir():
            if file.suffix == ".py":
                shutil.copy(file, self.folder / "ripieno")
            elif file.suffix == ".so":
                (self.folder / "ripieno" / file.name).symlink_to(file)

    def run_module(self, *arguments: str) -> tuple[int, str, str]:
        return self.ended(sys.executable, "-m", "ripieno", *arguments)

    def ended(self, *command: str) -> tuple[int, str, str]:
        result = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(self.folder)}, cwd=self.folder, capture_output=True, text=True, timeout=120)
        return result.returncode, result.stdout, result.stderr

    def test_it_is_the_program(self):
        binary = self.folder / "ripieno/bin"
        binary.mkdir()
        (binary / "ripieno").symlink_to(os.environ["RIPIENO"])
        for arguments, code in ((["list", "strategies"], 0), (["trian"], 2)):
            with self.subTest(arguments=arguments):
                ours = self.run_module(*arguments)
                self.assertEqual(ours, self.ended(os.environ["RIPIENO"], *arguments))
                self.assertEqual((ours[0], ours[1] == ""), (code, code != 0))

    def test_the_command_does_not_load_pytorch(self):
        project = tomllib.loads((Path(__file__).parents[2] / "python/pyproject.toml").read_text())["project"]
        module, _, function = project["scripts"]["ripieno"].partition(":")
        code = f"import sys, {module}; {module}.{function}; print('torch' in sys.modules)"
        self.assertEqual(self.ended(sys.executable, "-c", code), (0, "False\n", ""))

    def test_a_package_without_the_program_says_so(self):
        code, output, errors = self.run_module("list", "strategies")
        self.assertEqual((code, output), (1, ""))
        self.assertRegex(errors, r"^ripieno: \S+/ripieno/bin/ripieno is not there, as in a build tree or an editable install: pip install")


class Types(unittest.TestCase):
    """What a type checker reads: the package's own hints, and for the module in C++ a stub, which must say what that has."""

    @staticmethod
    def parameters(function: ast.FunctionDef) -> list[tuple[str, bool]]:
        """Names, and whether each has a default; of parameters without a name "arg0", "arg1", ..."""
        arguments = function.args
        names = [f"arg{place}" for place in range(len(arguments.posonlyargs) - 1)]  # without self
        names += [one.arg for one in arguments.args if one.arg != "self"]
        defaults = len(names) - len(arguments.defaults)
        return [(name, place >= defaults) for place, name in enumerate(names)]

    @classmethod
    def of_binding(cls, method: object) -> list[list[tuple[str, bool]]]:
        """The parameters of each overload, as pybind11 says them."""
        lines = [line.partition(". ")[2] if line[0].isdigit() else line for line in method.__doc__.splitlines() if " -> " in line]
        signatures = [ast.parse(f"def {line}: ...").body[0] for line in lines]
        return [cls.parameters(one) for one in signatures if not one.args.vararg]

    def compare(self, found: type, stub: ast.ClassDef) -> None:
        said: dict[str, list[ast.AST]] = {}
        for one in stub.body:
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                said.setdefault(one.name, []).append(one)
        own = {name for name in vars(found) if name == "__init__" or not name.startswith(("__", "_pybind11"))}
        self.assertEqual(own - said.keys(), set(), f"the stub of {found.__name__} lacks these")
        for name, versions in said.items():
            with self.subTest(found.__name__, name=name):
                member = inspect.getattr_static(found, name)
                if isinstance(versions[0], ast.ClassDef):
                    self.compare(member, versions[0])
                elif isinstance(member, property):
                    self.assertEqual([decorator.id for decorator in versions[0].decorator_list], ["property"])
                else:
                    self.assertEqual(self.of_binding(member), [self.parameters(one) for one in versions])

    def test_the_stub_says_what_the_module_has(self):
        from ripieno import _ripieno

        folder = Path(os.environ["RIPIENO_PYTHON"]) / "ripieno"
        self.assertTrue((folder / "py.typed").exists())
        stub = {one.name: one for one in ast.parse((folder / "_ripieno.pyi").read_text()).body if isinstance(one, (ast.ClassDef, ast.FunctionDef))}
        has = {name: one for name, one in vars(_ripieno).items() if not name.startswith("__")}
        self.assertEqual({name for name in stub if not name.startswith("_")}, has.keys())
        for name, found in has.items():
            if isinstance(found, type):
                self.compare(found, stub[name])
            else:
                self.assertEqual(self.of_binding(found), [self.parameters(stub[name])])

    def test_all_that_is_public_has_hints_and_a_text(self):
        for module in (ripieno, ripieno.hooks):
            for name in module.__all__:
                one = getattr(module, name)
                if inspect.isfunction(one) or inspect.isclass(one):
                    self.assertTrue(one.__doc__, name)
                if inspect.isfunction(one):
                    signature = inspect.signature(one)
                    for annotation in (signature.return_annotation, *(parameter.annotation for parameter in signature.parameters.values())):
                        self.assertIsNot(annotation, inspect.Parameter.empty, name)


class Errors(unittest.TestCase):
    def test_a_monitored_barrier_names_who_is_missing(self):
        def act(rank: int):
            ripieno.monitored_barrier()
            if rank == 1:
                return ""
            with self.assertRaises(RuntimeError) as caught:
                ripieno.monitored_barrier(timeout=datetime.timedelta(seconds=1), wait_all_ranks=True)
            return str(caught.exception)

        errors = on_ranks(3, act)
        self.assertEqual(errors[0], "Rank 1 failed to pass monitoredBarrier in 1000 ms")
        self.assertIn("rank 1 has not come", errors[2])

    def test_a_monitored_barrier_without_time_does_not_wait(self):
        def act(rank: int):
            if rank == 1:
                time.sleep(1)
                return ""
            with self.assertRaises(RuntimeError) as caught:
                ripieno.monitored_barrier(timeout=datetime.timedelta(0), wait_all_ranks=True)
            return str(caught.exception)

        self.assertIn("Rank 1 failed to pass monitoredBarrier in 0 ms", on_ranks(2, act)[0])

    def test_a_hook_names_the_backend_that_it_needs(self):
        errors = on_ranks(2, lambda rank: data_parallel(rank, ripieno.hooks.fp16()), backend="gloo", fails=True)
        for error in errors:
            self.assertIn("backend is gloo, and must be ripieno here", error)

    def test_options_out_of_range_are_refused_when_a_hook_is_made(self):
        with self.assertRaisesRegex(ValueError, "65"):
            ripieno.hooks.powersgd(rank=65)
        with self.assertRaisesRegex(ValueError, "codec.fraction|fraction"):
            ripieno.hooks.topk(fraction=0)

    def test_options_of_another_backend_have_no_effect(self):
        line = r"^pg_options=<\S+ object at \w+> has no effect with backend ripieno: leave it out$"
        with self.assertRaisesRegex(ValueError, line):
            dist.init_process_group("ripieno", store=dist.HashStore(), rank=0, world_size=1, pg_options=dist.ProcessGroupGloo._Options())

        def act(rank: int) -> None:
            with self.assertRaisesRegex(ValueError, line):
                dist.new_group([0, 1], pg_options=dist.ProcessGroupGloo._Options())

        on_ranks(2, act)

    def test_an_exception_on_one_rank_reaches_the_others_at_once(self):
        def act(rank: int):
            dist.barrier()
            if rank == 1:
                raise KeyError("on rank 1")
            dist.all_reduce(torch.ones(5))

        start = time.monotonic()
        errors = on_ranks(3, act, fails=True)
        self.assertIn("KeyError", errors[1])
        for rank in (0, 2):
            self.assertIn("rank 1", errors[rank])
            self.assertIn("DistBackendError", errors[rank])
        self.assertLess(time.monotonic() - start, 10)


if __name__ == "__main__":
    sys.exit(unittest.main())
