"""A program that changes its memory at random in every way, and knows what is to be in it: checkpoints at random moments, each
of which stores only what has changed, compressed or not, and restarts from random generations, those whose predecessors are gone too.
memory_model.py still: each process is copied while it stands still, and none is forked.
memory_model.py heirs: each child is born of its restored parent, with what they have in common."""
# ci: exact
# ci memory_model:
# ci memory_model_still: still
# ci memory_model_heirs: heirs
import json
import os
import random
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def manifest_of(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        return json.load(file)


def test(t):
    if "still" in t.arguments.names:
        os.environ["CAIRN_COPY_SMALL"] = t.env["CAIRN_COPY_SMALL"] = "always"
    if "heirs" in t.arguments.names:
        os.environ["CAIRN_INHERIT"] = t.env["CAIRN_INHERIT"] = "always"
    chance = random.Random(t.arguments.seed)
    # Children have own images beside; some generations are kept, and older ones are removed while later ones need their pages.
    program = begin(t, "memory_model", str(t.arguments.seed), options=["--keep", "6"])
    rounds = 2000 if t.soak else 100
    linked = stored = 0
    for number in range(rounds):
        t.sleep(chance.random() * 0.1)
        # Compressed or not, by turns: a generation needs images of both kinds.
        folder = t.checkpoint("--compress", chance.choice(["none", "lz4", "zstd", "zstd:7"]))
        manifest = manifest_of(folder)
        linked += len(manifest.get("earlier", []))
        stored += manifest["bytes"]
        if chance.random() < 0.5:
            continue
        generations = sorted((int(name) for name in os.listdir(os.path.dirname(folder)) if name.isdigit()), reverse=True)
        chosen = os.path.join(os.path.dirname(folder), str(chance.choice(generations)))
        if chance.random() < 0.2:
            code, out, err = t.command("inspect", "--verify", chosen)
            check(code == 0, f"{chosen}: {out}{err}")
        t.pull_the_plug(spare_coordinator=chance.random() < 0.5)
        # The file with the test's orders may have been open, and is replaced by the next one.
        how = ["--files=use", *(["--lazy"] if t.mode == "exact" and chance.random() < 0.4 else [])]
        program = t.restart(*how, script=os.path.join(chosen, "restart.sh"),
                            name=f"restart {number} from {os.path.basename(chosen)}")
        ask(t, program, number)
    check(linked > rounds / 2, f"{rounds} checkpoints needed only {linked} images of earlier ones")
    t.say(f"{stored / rounds / 1e6:.1f} MB for a checkpoint, {linked / rounds:.1f} earlier images")
    finish(t, program)
