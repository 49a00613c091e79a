"""Programs that fork and exec as fast as they can, with checkpoints at random moments."""

from .rounds import same_as_undisturbed


def storm(t, argv):
    """argv gets one more word: how many steps to take."""
    for run in range(20 if t.soak else 2):
        t.say(f"run {run + 1}")
        same_as_undisturbed(t, lambda steps: [*argv, str(steps)], scale=200, seconds=1.0, at_once=True)


# For any Bourne shell.
SHELL_SCRIPT = r"""
i=0
while [ $i -lt $1 ]; do
  i=$((i + 1))
  /bin/echo $i >> numbers
  x=$(echo $i | tr 0-9 a-j)
  (exit $((i % 3))); code=$?
  /bin/true & wait $!
  echo "$i $x $code $?"
done
"""


def shell_storm(t, shell):
    storm(t, [shell, "-c", SHELL_SCRIPT, shell])
