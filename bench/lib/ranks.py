"""Starts the ranks of a job, each at its place: a core, a network namespace, variables (see enter.py)."""

import json
import sys
import tempfile
from pathlib import Path

from . import machine, netns, processes

ENTER = Path(__file__).with_name("enter.py")
PYTHON = sys.executable
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def enter(plan):
    """The start of a command line that takes a rank to its place."""
    return [PYTHON, "-S", "-E", str(ENTER), str(plan), "--"]


def write_plan(folder, ranks, net=None, cores=None, **more):
    """Rank r on core r, and again from the first where there are more ranks than cores."""
    plan = {"cores": cores or machine.cores()} | more
    if net:
        plan["namespaces"] = net.namespaces
        # Ripieno's ranks would listen on 127.0.0.1, and find that they are on one host.
        plan["env"] = [{"GLOO_SOCKET_IFNAME": netns.INTERFACE, "RIPIENO_LISTEN": address, "RIPIENO_SHARED_MEMORY": "off"}
                       for address in net.addresses]
    path = Path(folder) / "plan.json"
    path.write_text(json.dumps(plan))
    return path


def python_ranks(script, arguments, ranks, net=None, cores=None, port=29511, timeout=1800, **variables):
    """A script of peers/ as so many ranks; the JSON that rank 0 printed."""
    address = net.addresses[0] if net else "127.0.0.1"
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        plan = write_plan(folder, ranks, net, cores)
        command = [*enter(plan), PYTHON, str(script), *map(str, arguments)]
        envs = [ONE_THREAD | {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": address, "MASTER_PORT": str(port)} | variables
                for rank in range(ranks)]
        return json.loads(processes.run_all([command] * ranks, envs, timeout)[0])
