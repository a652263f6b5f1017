"""Runs a command as one rank of a job, at the place that a plan (a JSON file) gives this rank: pinned to a core, in a
network namespace, with variables of its own. Usage: enter.py PLAN -- COMMAND ..

The rank is what the launcher said: RIPIENO_RANK, OMPI_COMM_WORLD_RANK or RANK. The plan's keys, all optional: "cores" and
"namespaces", lists by rank; "env", a list of variables by rank; "control", a file by rank that takes the place of
Ripieno's pipe to its launcher; "rendezvous", an address that takes the place of the launcher's, whose own is written to
the file "rendezvous_file" (links.py passes connections on)."""

import ctypes
import json
import os
import signal
import sys

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1


def enter_namespace(name):
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        sys.exit(f"enter.py: namespace {name}: {os.strerror(ctypes.get_errno())}")
    os.close(descriptor)


def main():
    plan, command = json.load(open(sys.argv[1])), sys.argv[3:]
    rank = int(next(os.environ[name] for name in ("RIPIENO_RANK", "OMPI_COMM_WORLD_RANK", "RANK") if name in os.environ))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # it dies with its launcher
    if "cores" in plan:
        os.sched_setaffinity(0, {plan["cores"][rank % len(plan["cores"])]})
    if "env" in plan:
        os.environ |= plan["env"][rank]
    if "control" in plan:
        control = os.open(plan["control"][rank], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.set_inheritable(control, True)
        os.environ["RIPIENO_CONTROL_FD"] = str(control)
    if "rendezvous" in plan:
        partial = f"{plan['rendezvous_file']}.{rank}"
        with open(partial, "w") as file:
            file.write(os.environ["RIPIENO_RENDEZVOUS"])
        os.rename(partial, plan["rendezvous_file"])
        os.environ["RIPIENO_RENDEZVOUS"] = plan["rendezvous"]
    if "namespaces" in plan:
        enter_namespace(plan["namespaces"][rank])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
