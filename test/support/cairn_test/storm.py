"""Programs that fork and exec as fast as they can, with checkpoints at random moments."""

from .rounds import same_as_undisturbed


def storm(t, argv):
    """argv gets one more word: how many steps to take."""
    for run in range(20 if t.soak else 2):
        t.say(f"run {run + 1}")
        same_as_undisturbed(t, lambda steps: [*argv, str(steps)], scale=200, seconds=1.0, at_once=True)
