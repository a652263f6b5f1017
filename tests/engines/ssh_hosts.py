"""Hosts with an sshd each, on this machine (nodes.py). Node 0 is where the user sits. Needs root and openssh-server."""
import os
import subprocess
import tempfile
from pathlib import Path

from nodes import Nodes

SERVER = """HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
"""
CLIENT = """IdentityFile {folder}/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""


class SshHosts(Nodes):
    def __init__(self, count):
        held = tempfile.TemporaryDirectory(prefix="ripieno-ssh-", dir="/var/tmp")  # /tmp is each node's own
        self.held, self.folder = held, Path(held.name)
        super().__init__(count)
        try:
            subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "key"), check=True)
            for name, text in (("server", SERVER), ("client", CLIENT)):
                (self.folder / name).write_text(text.format(folder=self.folder))
            self.environment = os.environ | {"RIPIENO_SSH": f"ssh -F {self.folder}/client"}
            for node in range(count):
                begun = self.start(node, ("sh", "-c", 'mkdir -p /run/sshd && exec /usr/sbin/sshd -f "$0"', self.folder / "server"), cwd="/")
                if begun.wait(timeout=30):
                    raise RuntimeError(f"sshd does not start on node{node}")
        except BaseException:
            self.close()
            raise

    def close(self):
        super().close()
        self.held.cleanup()
