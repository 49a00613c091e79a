"""Programs that fork and exec as fast as they can, with checkpoints at random moments."""

from .rounds import same_as_undisturbed


def storm(t, argv):
    for run in range(20 if t.soak else 2):
        t.say(f"run {run + 1}")
        same_as_undisturbed(t, argv, least_seconds=0.4, at_once=True)
