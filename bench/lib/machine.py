"""What the figures were taken on."""

import datetime
import os
import platform


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


def name():
    """"AMD EPYC (family 25, model 17), 2 cores, Linux 6.1.0" """
    return f"{cpu()}, {len(cores())} cores, {platform.system()} {platform.release()}"


def date():
    return datetime.date.today().isoformat()


def load():
    """Processes that ran on average over the last minute: what else the machine did."""
    return os.getloadavg()[0]
