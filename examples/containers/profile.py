#!/usr/bin/python3
"""profile.py [PROFILE] > cairn-seccomp.json: an engine's seccomp profile that allows besides what cairn asks for and can do without:

    podman run --security-opt seccomp=cairn-seccomp.json ...

PROFILE: podman's by default. Docker has its own compiled in; it is profiles/seccomp/default.json in the sources of moby."""
import json
import sys

# Descriptors are taken and compared at once, memory comes in huge pages, and who stands still for a checkpoint is woken and needn't look.
CALLS = ["futex_waitv", "kcmp", "pidfd_getfd", "userfaultfd"]

with open(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/containers/seccomp.json") as file:
    profile = json.load(file)
for rule in profile["syscalls"]:
    rule["names"] = [name for name in rule["names"] if name not in CALLS]
profile["syscalls"] = [rule for rule in profile["syscalls"] if rule["names"]]
profile["syscalls"].append({"names": CALLS, "action": "SCMP_ACT_ALLOW", "args": [], "comment": "for cairn", "includes": {}, "excludes": {}})
json.dump(profile, sys.stdout, indent=4)
