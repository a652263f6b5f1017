"""Processes that end together: whatever a comparison starts is gone when it ends, fails or is killed."""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Failed(Exception):
    """A side of a comparison, or a tool that it needs, did not do its work; the text says which and how."""


def with_parent():
    """For a child between fork and exec: it dies when its parent does."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def own_orphans():
    """Makes this process the parent of its grandchildren whose own parent ends, so that end_children() finds them."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid=None):
    pid = pid or os.getpid()
    found = []
    with contextlib.suppress(OSError):
        for task in list(Path(f"/proc/{pid}/task").iterdir()):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def descendants(pid):
    found, todo = [], [pid]
    while todo:
        more = children(todo.pop()) if todo else []
        found += more
        todo += more
    return found


def kill_tree(pid):
    """Kills a child with all that it started. Parents first, or they would start new ones."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            for each in [pid, *descendants(pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal_number)
        deadline = time.monotonic() + 3
        while signal_number == signal.SIGTERM and time.monotonic() < deadline and running(pid):
            time.sleep(0.02)


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def end_children(but=()):
    """Kills and reaps every child of this process but those named, orphans that came to it included."""
    for _ in range(20):
        left = [pid for pid in children() if pid not in but]
        if not left:
            return
        for pid in left:
            kill_tree(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def start(command, env=None, **streams):
    return subprocess.Popen([str(part) for part in command], env=os.environ | (env or {}), text=True,
                            stdin=streams.pop("stdin", subprocess.DEVNULL), preexec_fn=with_parent, **streams)


def run(command, env=None, timeout=600):
    """The standard output of a command that must succeed."""
    process = start(command, env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException as error:
        kill_tree(process.pid)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"{brief(command)}: not done after {timeout} s") from None
        raise
    if process.returncode != 0:
        raise Failed(f"{brief(command)}: exit code {process.returncode}\n{err[-4000:]}")
    return out


def run_all(commands, envs, timeout=600):
    """Several commands at once, and their outputs. When one fails, the others are ended."""
    processes = [start(command, env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                 for command, env in zip(commands, envs)]
    outputs = {key: [] for process in processes for key in (process.stdout, process.stderr)}
    try:
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as pipes:
            for process in processes:
                pipes.register(process.stdout, selectors.EVENT_READ)
                pipes.register(process.stderr, selectors.EVENT_READ)
            while pipes.get_map():
                for key, _ in pipes.select(0.1):
                    chunk = os.read(key.fd, 1 << 16)
                    outputs[key.fileobj].append(chunk)
                    if not chunk:
                        pipes.unregister(key.fileobj)
                bad = [i for i, process in enumerate(processes) if process.poll() not in (None, 0)]
                if bad:
                    errors = b"".join(outputs[processes[bad[0]].stderr]).decode(errors="replace")
                    raise Failed(f"{brief(commands[bad[0]])} (rank {bad[0]}): exit code "
                                 f"{processes[bad[0]].returncode}\n{errors[-4000:]}")
                if time.monotonic() > deadline:
                    raise Failed(f"{brief(commands[0])}: not done after {timeout} s")
        for i, process in enumerate(processes):
            if process.wait(10) != 0:
                raise Failed(f"{brief(commands[i])} (rank {i}): exit code {process.returncode}")
        return [b"".join(outputs[process.stdout]).decode() for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                kill_tree(process.pid)
                process.wait()
            process.stdout.close()
            process.stderr.close()


class Served:
    """A program that stays, and does one round of work for each line that it is given: it writes a line of JSON for each.
    Between rounds it waits and takes no processor."""

    def __init__(self, command, env=None, timeout=3600):
        self.command, self.timeout = command, timeout
        self.process = start(command, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # said below
        with selectors.DefaultSelector() as pipe:
            pipe.register(self.process.stdout, selectors.EVENT_READ)
            if not pipe.select(self.timeout):
                raise Failed(f"{brief(self.command)}: no answer to {line!r} after {self.timeout} s")
        answer = self.process.stdout.readline()
        if not answer:
            raise Failed(f"{brief(self.command)}: ended with code {self.process.wait(10)} when asked {line!r}")
        return json.loads(answer)

    def close(self):
        if self.process.poll() is None:
            kill_tree(self.process.pid)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class PeakMemory:
    """The largest proportional set size (bytes) that any process with `word` in its command line had, of those that this
    one started: shared pages count as shares. It looks every 0.1 s, which takes time: never beside a timing."""

    def __init__(self, word):
        self.word, self.peak, self.ended = word.encode(), 0, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, error, *_):
        self.ended.set()
        self.thread.join()
        if not self.peak and not error:
            raise Failed(f"no process with {self.word.decode()!r} in its command line was seen: whose memory?")

    def _watch(self):
        while not self.ended.wait(0.1):
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    if self.word in Path(f"/proc/{pid}/cmdline").read_bytes():
                        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                        self.peak = max([self.peak, *[int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")]])


def brief(command):
    text = " ".join(str(part) for part in command)
    return text if len(text) < 300 else text[:300] + " .."


def raise_on_signals():
    """SIGTERM and SIGHUP unwind like Ctrl-C, so that everything is cleaned up."""
    def unwind(number, _):
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, unwind)
