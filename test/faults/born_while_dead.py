"""Processes that are born while the coordinator is dead are in the next checkpoint."""
import os
import json
import signal
from cairn_test import check, processes


def test(t):
    shell = t.launch(["bash", "--norc", "--noprofile"], env={"PS1": "$ "})
    t.wait_members(1)
    shell.expect(r"\$ ")
    shell.send("bind 'set enable-bracketed-paste off'\n")
    shell.expect(r"\$ ")
    shell.send("PS1=; echo up\n")
    shell.expect(r"\nup\r?\n")
    os.kill(t.coordinator_pid(), signal.SIGKILL)
    t.wait_until(lambda: not t.coordinator_pid() or processes.stat(t.coordinator_pid())[1] == "Z", "it to die")
    shell.send("for i in 1 2 3; do (sleep 1000; echo $i) & done; /bin/sleep 1000 & /usr/bin/python3 -c 'import subprocess; "
               "subprocess.run([\"sleep\", \"1000\"])' & echo born\n")
    shell.expect(r"\nborn\r?\n")
    # On a busy machine python3 takes its time to begin.
    def sleeps():
        found = map(processes.stat, processes.descendants())
        return [stat for stat in found if stat and stat[0] == "sleep"]
    t.wait_until(lambda: len(sleeps()) == 5, "five sleeps to be born")
    t.must("coordinator", "--daemon")
    # bash, three subshells with a sleep each, a sleep, python3 and its sleep
    t.wait_members(10)
    folder = t.checkpoint()
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    manifest = manifest.get("manifest", manifest)
    check(manifest["np"] == 10, f"{manifest['np']} processes are in the checkpoint, 10 were expected: "
          f"{[image['name'] for image in manifest['images']]}")
    t.pull_the_plug()
    shell = t.restart()
    check(len(t.members()) == 10, f"{len(t.members())} came back")
    shell.send("jobs | wc -l; kill $(jobs -p); wait; echo all ended\n")
    shell.expect(r"\n5\r?\n.*all ended")
    shell.send("exit 4\n")
    shell.expect_exit(4)
