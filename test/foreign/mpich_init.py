"""An MPICH job over its default transport, saved, killed and restarted at random moments of MPI_Init: there its ranks attach each other's
System V segments, whose ids they have told each other, by a shmat that UCX has written over."""
# ci: none (its packages are heavy: where they are installed)
import os
from cairn_test import Failure, Skip, check, processes, stitched, without_messages
from cairn_test.mpi import compiled


def test(t):
    program, starter = compiled(t, "mpich")
    if program is None:
        raise Skip("MPICH isn't installed")
    words = [starter, "-n", "4", program, "60"]
    whole, status, taken = t.native(words)
    check(os.waitstatus_to_exitcode(status) == 0, f"the undisturbed run: {processes.describe_status(status)}")
    t.say(f"undisturbed: {taken:.2f} s")
    met = trials = 0
    wanted = 40 if t.soak else 8
    while met < wanted:
        trials += 1
        check(trials < 4 * wanted, f"of {trials} checkpoints {met} came before the first step")
        job = t.launch(words)
        t.wait_until(lambda: processes.status_of(job.pid) is not None or t.has_members(1), "the job to be in the group")
        t.sleep(t.random.uniform(0, 0.7))
        pieces = []
        for number in range(2):
            before = b"step 0" not in job.terminal.text
            try:
                job, shown = t.cycle(job, trials + number, at_once=True)
            except Failure:
                if processes.status_of(job.pid) is None:
                    raise
                break  # it had ended
            pieces.append(shown)
            if not before:
                break
            met += 1
            t.sleep(t.random.uniform(0, 0.3))
        job.expect_exit(0, 120)
        pieces = [without_messages(piece) for piece in [*pieces, job.terminal.text]]
        check(stitched(whole, pieces), f"undisturbed: {whole.decode()}\nhere: {pieces}")
        t.pull_the_plug(True)
    t.say(f"{trials} jobs, {met} checkpoints before the first step")
