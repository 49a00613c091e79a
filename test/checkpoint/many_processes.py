"""More processes than descriptors: every one of them in every image, nobody is left when the checkpoint has killed them, and
all are back. They are small, so none of them is forked for it: who isn't root couldn't. The long form: 30 cycles of 2,000 processes with 1,024 descriptors."""
# ci: exact user
# serial: hundreds of tasks on two processors
import json
import os
import resource
from cairn_test import check, processes
from cairn_test.serving import ask, begin, finish


def left(name):
    return [pid for pid in processes.descendants() if (processes.stat(pid) or ("",))[0] == name]


def test(t):
    count, descriptors, cycles = (2000, 1024, 30) if t.soak else (421, 400, 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    program = begin(t, "many_processes", str(count))
    t.wait_members(count + 1, 120)
    for cycle in range(cycles):
        ask(t, program, 2 * cycle)
        folder = t.checkpoint("--kill", timeout=300)
        with open(os.path.join(folder, "manifest.json")) as file:
            manifest = json.load(file)
        manifest = manifest.get("manifest", manifest)
        images = [image for image in manifest["images"] if image["uid"]]
        check(manifest["np"] == count + 1 and len(images) == count + 1,
              f"{manifest['np']} processes in {len(images)} images, there are {count + 1}")
        said = [note for note in manifest["notes"] if "couldn't be forked" in note]
        check(not said, f"small processes of which there are many are forked: {said}")
        # A dead process whose parent is gone as well waits for its new parent: this test.
        t.wait_until(lambda: processes.reap() or not left("many_processes"), "nobody to be left")
        t.pull_the_plug(spare_coordinator=cycle % 2 == 0)
        program = t.restart(timeout=300)
        ask(t, program, 2 * cycle + 1)
        t.say(f"cycle {cycle + 1}: {len(images)} processes")
    finish(t, program)
