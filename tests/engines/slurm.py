"""A Slurm cluster on this machine: Debian's slurmctld and munge on node0, a slurmd on each of the nodes that follow (nodes.py).
Needs root and what scripts/setup engines installs. All of it is gone when it is closed.

As a program: brings it up, runs a command on node0 in the present folder, and takes it away. Without a command, a shell."""
import argparse
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nodes import Nodes

CONFIGURATION = """ClusterName=ripieno
SlurmctldHost=node0(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=2
InactiveLimit=0
SchedulerParameters=sched_interval=1,sched_min_interval=0
{nodes}PartitionName=all Nodes=node[1-{count}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


class Slurm:
    def __init__(self, count, cpus=4):
        self.folder = Path(tempfile.mkdtemp(prefix="ripieno-slurm-", dir="/var/tmp"))  # /tmp is each node's own
        self.count = count
        self.nodes = None
        try:
            (self.folder / "state").mkdir()
            nodes = "".join(f"NodeName=node{i} NodeAddr={Nodes.address(i)} CPUs={cpus} State=UNKNOWN\n" for i in range(1, count + 1))
            configuration = self.folder / "slurm.conf"
            configuration.write_text(CONFIGURATION.format(folder=self.folder, nodes=nodes, count=count))
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # which does not ask for any until one is used
            for node in range(1, count + 1):
                (self.folder / f"node{node}").mkdir()
            key = self.folder / "munge.key"
            key.touch(mode=0o600)
            key.write_bytes(secrets.token_bytes(1024))
            self.environment = os.environ | {"SLURM_CONF": str(configuration)}
            self.nodes = Nodes(count + 1)
            for node in range(count + 1):
                self._begin(node, "sh", "-c", 'mkdir -m 755 /run/munge && exec munged --force --key-file="$0" --pid-file=/run/munge/munged.pid '
                            "--log-file=/run/munge/munged.log --seed-file=/run/munge/seed", key)
            self._begin(0, "slurmctld")
            for node in range(1, count + 1):
                self._begin(node, "slurmd", "-N", f"node{node}")
            self.wait_for("idle")
        except BaseException:
            self.close()
            raise

    def _begin(self, node, *command):
        """A daemon, which goes to the background when it is ready."""
        done = self.nodes.start(node, command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said, _ = done.communicate(timeout=60)
        if done.returncode:
            said += "".join(log.read_text() for log in self.folder.glob("*.log"))
            raise RuntimeError(f"{command[0]} does not start on node{node}: {said.strip()}")

    def start(self, *command, cwd=None, env=None, **options):
        """A command on node0, where jobs are submitted."""
        return self.nodes.start(0, command, cwd=cwd or os.getcwd(), env=self.environment | (env or {}), **options)

    def run(self, *command, **options):
        """(exit code, what it said)"""
        done = self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        said, _ = done.communicate(timeout=300)
        return done.returncode, said

    def wait_for(self, state, seconds=30):
        """Until all nodes are in a state."""
        said = ""
        for _ in range(seconds * 10):
            _, said = self.run("sinfo", "--noheader", "--Node", "--format=%T")
            if said.split() == [state] * self.count:
                return
            time.sleep(0.1)
        raise RuntimeError(f"the nodes are not all {state}, but: {said}")

    def close(self):
        if self.nodes:
            self.nodes.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main():
    parser = argparse.ArgumentParser(prog="scripts/slurm", description=__doc__.split("\n\n")[1])
    parser.add_argument("--nodes", type=int, default=4, help="compute nodes, with 4 CPUs each (4)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    with Slurm(asked.nodes) as slurm:
        command = asked.command or [os.environ.get("SHELL", "/bin/sh"), "-i"]
        sys.exit(slurm.start(*command).wait())


if __name__ == "__main__":
    main()
