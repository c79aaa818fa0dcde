# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi, as far as fabric information, the driver version and compute processes go."""

from __future__ import annotations

import sys
import time

from imex_simulator import rules, settings

_UUID = "b2daed23-9f04-4c2e-8a51-5d6f0c7e1a34"
_ZERO_UUID = "00000000-0000-0000-0000-000000000000"
_HEALTHY = {
    "summary": "Healthy",
    "bandwidth": "Full",
    "route_recovery": "False",
    "route_unhealthy": "False",
    "access_timeout": "False",
    "incorrect_configuration": "None",
}
_NO_HEALTH = dict.fromkeys(_HEALTHY, "N/A")

# The fabric blocks by the names of the cases catalogue.
# observed: values of F1 (GB200), F2, F4 (azhpc-images #506), F6 (torchcomms #1315). inferred: F5 (HGX: zero UUID)
VARIANTS = {
    "F1": {"state": "Completed", "status": "Success", "clique_id": 32766, "cluster_uuid": _UUID, "health": _HEALTHY},
    "F2": {
        "state": "In Progress",
        "status": "Success",
        "clique_id": None,
        "cluster_uuid": None,
        "health": {**_HEALTHY, "summary": "Unhealthy", "route_recovery": "True", "route_unhealthy": "True"},
    },
    "F3": {"state": "N/A", "status": "N/A", "clique_id": "N/A", "cluster_uuid": "N/A", "health": _NO_HEALTH},
    "F4": {
        "state": "Completed",
        "status": "Insufficient Resources",
        "clique_id": 0,
        "cluster_uuid": _ZERO_UUID,
        "health": _NO_HEALTH,
    },
    "F5": {"state": "Completed", "status": "Success", "clique_id": 0, "cluster_uuid": _ZERO_UUID, "health": _HEALTHY},
    "F6": {
        "state": "Completed",
        "status": "Success",
        "clique_id": 0,
        "cluster_uuid": "7c0f2f1e-3a5d-4f57-9d0b-6a1f8e2c4b90",
        "health": _HEALTHY,
        "product": "NVIDIA H100 80GB HBM3",
        "gpus": 8,
    },
}

_HEALTH_ROWS = (
    ("summary", "Summary", None),
    ("bandwidth", "Bandwidth", "bandwidth"),
    ("route_recovery", "Route Recovery in progress", "route_recovery_in_progress"),
    ("route_unhealthy", "Route Unhealthy", "route_unhealthy"),
    ("access_timeout", "Access Timeout Recovery", "access_timeout_recovery"),
    ("incorrect_configuration", "Incorrect Configuration", None),
)


class Gpu:
    def __init__(self, index, fabric):
        self.index = index
        self.fabric = fabric
        self.product = fabric.get("product", "NVIDIA GB200")
        self.uuid = f"GPU-5f0c1a7e-0000-4000-8000-{index:012x}"
        self.bus_id = f"{8 + index:08X}:01:00.0"

    def health_keys(self, driver):
        """observed: old builds print Bandwidth alone; 580.173.02 adds Incorrect Configuration. inferred: the borders."""
        number = rules.parse_version(driver)
        if number < (570,):
            return ("bandwidth",)
        rows = [key for key, _text, _tag in _HEALTH_ROWS]
        return tuple(rows) if number >= (580, 173) else tuple(rows[:-1])


def gpus(conf):
    """The GPUs of this host: a variant's name, or an object whose members override those of F1 (or of ``variant``)."""
    wanted = conf.fabric
    if isinstance(wanted, str):
        if wanted not in VARIANTS:
            raise settings.SettingsError(f"{conf.path}: unknown fabric {wanted}; known: {', '.join(VARIANTS)}")
        wanted = {"variant": wanted}
    base = VARIANTS[wanted.get("variant", "F1")]
    common = {**base, **wanted, "health": {**base["health"], **(wanted.get("health") or {})}}
    per_gpu = wanted.get("per_gpu") or []
    found = []
    for index in range(int(common.get("gpus", 4))):
        own = per_gpu[index] if index < len(per_gpu) else {}
        found.append(Gpu(index, {**common, **own, "health": {**common["health"], **(own.get("health") or {})}}))
    return found


def _row(indent, name, value):
    return f"{' ' * indent}{name:<{42 - indent}s}: {value}"


def fabric_text(gpu, driver):
    """observed: samples of a GB200, of one in progress and of one without fabric."""
    f = gpu.fabric
    out = ["    Fabric", _row(8, "State", f["state"]), _row(8, "Status", f["status"])]
    if f["clique_id"] is not None:  # observed: missing while registering
        out.append(_row(8, "CliqueId", f["clique_id"]))
    if f["cluster_uuid"] is not None:
        out.append(_row(8, "ClusterUUID", f["cluster_uuid"]))
    if rules.parse_version(driver) >= (580, 173):  # observed: 580.173.02 has the row. inferred: its place
        out.append(_row(8, "Partition Assigned", f.get("partition_assigned", "N/A")))
    out.append("        Health")
    keys = gpu.health_keys(driver)
    out += [_row(12, text, f["health"][key]) for key, text, _tag in _HEALTH_ROWS if key in keys]
    return out


def text_report(conf, all_gpus):
    driver = conf.driver_version
    out = [
        "",
        "==============NVSMI LOG==============",
        "",
        _row(0, "Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
        _row(0, "Driver Version", driver),
        _row(0, "CUDA Version", "12.8"),
        "",
        _row(0, "Attached GPUs", len(all_gpus)),
    ]
    for gpu in all_gpus:
        out += [
            f"GPU {gpu.bus_id}",
            _row(4, "Product Name", gpu.product),
            _row(4, "GPU UUID", gpu.uuid),
            _row(4, "Minor Number", gpu.index),
            *fabric_text(gpu, driver),
        ]
        processes = [p for p in conf.gpu_processes if int(p.get("gpu", 0)) == gpu.index]
        if not processes:
            out.append(_row(4, "Processes", "None"))
        else:
            out.append("    Processes")
        for process in processes:
            out += [
                _row(8, "GPU instance ID", "N/A"),
                _row(8, "Compute instance ID", "N/A"),
                _row(8, "Process ID", process["pid"]),
                _row(12, "Type", "C"),
                _row(12, "Name", process.get("name", "[Not Found]")),
                _row(12, "Used GPU Memory", process.get("used_memory", "512 MiB")),
            ]
        out.append("")
    return "\n".join(out) + "\n"


def xml_report(conf, all_gpus):
    """observed: tags of the fabric block. inferred: Summary and newer rows have no published tag and are left out."""
    from xml.sax.saxutils import escape

    out = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
        "<nvidia_smi_log>",
        f"\t<timestamp>{time.strftime('%a %b %e %H:%M:%S %Y')}</timestamp>",
        f"\t<driver_version>{escape(conf.driver_version)}</driver_version>",
        "\t<cuda_version>12.8</cuda_version>",
        f"\t<attached_gpus>{len(all_gpus)}</attached_gpus>",
    ]
    for gpu in all_gpus:
        f = gpu.fabric
        out += [f'\t<gpu id="{gpu.bus_id}">', f"\t\t<product_name>{escape(gpu.product)}</product_name>"]
        out += [f"\t\t<uuid>{gpu.uuid}</uuid>", "\t\t<fabric>"]
        for tag, key in (
            ("state", "state"),
            ("status", "status"),
            ("cliqueId", "clique_id"),
            ("clusterUuid", "cluster_uuid"),
        ):
            if f[key] is not None:
                out.append(f"\t\t\t<{tag}>{escape(str(f[key]))}</{tag}>")
        out.append("\t\t\t<health>")
        keys = gpu.health_keys(conf.driver_version)
        for key, _text, tag in _HEALTH_ROWS:
            if key in keys and tag:
                out.append(f"\t\t\t\t<{tag}>{escape(str(f['health'][key]))}</{tag}>")
        out += ["\t\t\t</health>", "\t\t</fabric>", "\t</gpu>"]
    return "\n".join([*out, "</nvidia_smi_log>"]) + "\n"


def _csv(header, rows, form):
    lines = [] if "noheader" in form else [", ".join(header)]
    return "".join(line + "\n" for line in lines + [", ".join(str(v) for v in row) for row in rows])


def query_gpu(conf, all_gpus, fields, form):
    values = {
        "index": lambda g: g.index,
        "name": lambda g: g.product,
        "uuid": lambda g: g.uuid,
        "gpu_uuid": lambda g: g.uuid,
        "pci.bus_id": lambda g: g.bus_id,
        "count": lambda g: len(all_gpus),
        "driver_version": lambda g: conf.driver_version,
        "fabric.state": lambda g: g.fabric["state"],
        "fabric.status": lambda g: g.fabric["status"],
    }
    return _query(fields, values, all_gpus, form)


def query_processes(conf, all_gpus, fields, form):
    def uuid(p):
        index = int(p.get("gpu", 0))
        return all_gpus[index].uuid if index < len(all_gpus) else "N/A"

    values = {
        "pid": lambda p: p["pid"],
        "process_name": lambda p: p.get("name", "[Not Found]"),
        "name": lambda p: p.get("name", "[Not Found]"),
        "gpu_uuid": uuid,
        "used_memory": lambda p: p.get("used_memory", "512 MiB"),
        "used_gpu_memory": lambda p: p.get("used_memory", "512 MiB"),
    }
    return _query(fields, values, conf.gpu_processes, form)


def _query(fields, values, rows, form):
    names = [name.strip() for name in fields.split(",")]
    for name in names:
        if name not in values:
            return f'Field "{name}" is not a valid field to query.\n\n', 2
    return _csv(names, [[values[name](row) for name in names] for row in rows], form), 0


def main(argv):
    try:
        conf = settings.load(settings.find())
        hang = conf.fault("smi_hang")
        if hang:
            time.sleep(1e8 if hang is True else float(hang))
        forced = conf.fault("smi_exit")
        if forced:
            forced = forced if isinstance(forced, dict) else {"code": int(forced)}
            sys.stdout.write(str(forced.get("text", "")))
            return int(forced.get("code", 1))
        if not conf.driver_loaded:
            sys.stdout.write(
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
                "Make sure that the latest NVIDIA driver is installed and running.\n\n"
            )
            return 9
        all_gpus = gpus(conf)
    except settings.SettingsError as e:
        sys.stderr.write(f"nvidia-smi (simulator): {e}\n")
        return 2
    options = {}
    words = iter(argv)
    for word in words:
        name, sign, value = word.partition("=")
        if name in ("--format", "--query-gpu", "--query-compute-apps", "--id"):
            options[name] = value if sign else next(words, "")
        elif word == "-i":
            options["--id"] = next(words, "")
        elif word in ("-q", "--query", "-x", "--xml-format", "-L", "--list-gpus"):
            options[{"--query": "-q", "--xml-format": "-x", "--list-gpus": "-L"}.get(word, word)] = ""
        else:
            sys.stdout.write(
                f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n{word}\n"
            )
            return 1
    if options.get("--id", "").isdigit():
        all_gpus = [gpu for gpu in all_gpus if gpu.index == int(options["--id"])]
    form = options.get("--format", "").split(",")
    status = 0
    if "--query-gpu" in options:
        text, status = query_gpu(conf, all_gpus, options["--query-gpu"], form)
    elif "--query-compute-apps" in options:
        text, status = query_processes(conf, all_gpus, options["--query-compute-apps"], form)
    elif "-L" in options:
        text = "".join(f"GPU {g.index}: {g.product} (UUID: {g.uuid})\n" for g in all_gpus)
    elif "-q" in options:
        text = xml_report(conf, all_gpus) if "-x" in options else text_report(conf, all_gpus)
    else:
        # The board is not simulated: only what the collection reads.
        text = f"{time.strftime('%a %b %e %H:%M:%S %Y')}\nNVIDIA-SMI {conf.driver_version}  GPUs: {len(all_gpus)}\n"
    sys.stdout.write(text)
    return status
