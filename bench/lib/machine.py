"""What the figures were taken on."""

import datetime
import os
import platform
import subprocess


def cores():
    """Those that this process may use."""
    return sorted(os.sched_getaffinity(0))


def cpu():
    fields = {}
    with open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    model = fields.get("model name") or platform.processor() or platform.machine()
    family = f" (family {fields['cpu family']}, model {fields['model']})" if "cpu family" in fields else ""
    return model + family


def gpus():
    """Their names, of NVIDIA's."""
    try:
        told = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    except FileNotFoundError:
        return []
    return told.stdout.splitlines() if told.returncode == 0 else []


def name(with_gpus=False):
    """"AMD EPYC (family 25, model 17), 2 cores, Linux 6.1.0" """
    parts = [cpu(), f"{len(cores())} cores", *(gpus() if with_gpus else []), f"{platform.system()} {platform.release()}"]
    return ", ".join(parts)


def date():
    return datetime.date.today().isoformat()


def load():
    """Processes that ran on average over the last minute: what else the machine did."""
    return os.getloadavg()[0]
