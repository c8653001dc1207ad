# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log symptoms that any member can show, whatever its engine: `_core/watch/symptom.py` says how they are read."""

from __future__ import annotations

from .._core.watch.symptom import Symptom, symptom

SYMPTOMS: tuple[Symptom, ...] = (
    symptom(
        "unresolved placeholder",
        r"\$\{[a-z_]{1,40}(?:\.[a-z_]{1,40}){0,4}\}|\{\{\s{0,8}[a-z_.]{1,80}\s{0,8}\}\}",
        "a value of the command line or environment had no source and reached the process as it was written",
        "Look at the member's argv and env in the plan; give the host what the value comes from.",
        fatal=True,
    ),
    symptom(
        "address already in use",
        r"[Aa]ddress already in use|EADDRINUSE|Errno 98\b|[Pp]ort \d{1,5} is already in use",
        "another process listens on a port of this member",
        "End what holds the port (ss -ltnp shows it), or move pd_port_range away from it.",
        fatal=True,
    ),
    symptom(
        "address not of this host",
        r"Cannot assign requested address|EADDRNOTAVAIL|Errno 99\b",
        "the process was told to listen on an address that no interface of this host has",
        "Set pd_address or pd_kv_interface of the host to an address that it really has.",
        fatal=True,
    ),
    symptom(
        "command not in image",
        r"exec(?:utable file)?:? .{0,200}not found|executable file not found|: command not found"
        r"|(?:exec|spawn|stat) .{0,200}[Nn]o such file or directory|can't find command"
        r"|No such file or directory: '(?:[^'/]{0,60}/){0,20}[\w.-]{1,100}'$",
        "the program that the member runs is not there",
        "Give the role an image that has it, or set its executable to the right path.",
        fatal=True,
    ),
    symptom(
        "permission denied",
        r"PermissionError: \[Errno 13\]|exec .{0,200}[Pp]ermission denied|EACCES",
        "the process may not read or run something that it needs",
        "Check owner and mode of what the line names for the user that runs the members.",
    ),
    symptom(
        "no accelerator",
        r"No CUDA GPUs are available|Found no NVIDIA driver|Torch not compiled with CUDA"
        r"|CUDA driver initialization failed|no ROCm-capable device"
        r"|Failed to infer device type|No NPU devices? (?:is|are) available|Can't get ascend_hal device count",
        "the process sees no accelerator",
        "Give the role gpus, a container the runtime of its vendor (nvidia-container-toolkit, the NPU's devices), and the host its driver.",
        fatal=True,
    ),
    symptom(
        "accelerator out of memory",
        r"(?:CUDA|NPU|HIP) out of memory|OutOfMemoryError|Tried to allocate|(?:error|code|ret|result)\D{0,16}507899\b",
        "the accelerator has not the memory that the member asks for",
        "Memory fractions are of the whole card: two roles at 0.9 on one card cannot work. Lower the fraction or the context length.",
    ),
    symptom(
        "no memory left for kv cache",
        r"leaves? no (?:GPU|NPU|CPU)? ?memory for the KV cache|No available memory for the cache blocks"
        r"|Free memory on device .{0,120} less than desired",
        "after the weights no memory is left for the KV cache",
        "A matter of size: a higher memory fraction, more GPUs a member, or a shorter context length.",
        fatal=True,
    ),
    symptom(
        "killed for memory",
        r"Out of memory: Killed process|oom-kill|Cannot allocate memory|MemoryError\b|std::bad_alloc",
        "the host ran out of memory",
        "Lower the member's memory use, or place fewer members on the host.",
    ),
    symptom(
        "no space left",
        r"No space left on device|ENOSPC",
        "a file system of the host is full (for /dev/shm: the container's shared memory is too small)",
        "Free space, or raise the shared memory size.",
    ),
    symptom(
        "model not found",
        r"(?:Repository|Entry)NotFoundError|(?:is not a local folder|Can't load (?:the )?(?:config|tokenizer|model))"
        r"|Incorrect path_or_model_id|Repo id must be in the form"
        r"|does not appear to have a file named|Invalid repository ID or local directory",
        "the engine does not find the model under the name that it was given",
        "Check the model's path on this host; it must be the same on every host of the group.",
        fatal=True,
    ),
    symptom(
        "argument refused",
        r"error: (?:unrecognized arguments|argument |the following arguments are required|ambiguous option|unexpected argument"
        r"|invalid value)",
        "the program does not accept its command line",
        "Correct the args of the role, or choose an engine version that knows them.",
        fatal=True,
    ),
    symptom(
        "shared library missing",
        r"cannot open shared object file",
        "a library that the program needs is not in its image",
        "Use an image whose CUDA or CANN fits the engine's wheels.",
        fatal=True,
    ),
    symptom(
        "python module missing",
        r"ModuleNotFoundError: No module named",
        "a Python package that the program needs is not installed",
        "Install it in the member's environment, or use an image that has it.",
    ),
)
