"""A restart comes in the moment when a coordinator that was started for programs ends, because nobody is left in its session: it is
begun with this one or with the next, and doesn't fail because the coordinator has gone away."""
# ci: exact user
LINGER = 0.3


def test(t):
    t.launch(["/bin/sleep", "1000"])
    t.wait_members(1)
    t.checkpoint("--kill")
    t.must("quit")
    for number in range(4 * t.rounds):
        t.must("coordinator", "--daemon", "--auto", "--linger", str(LINGER))
        t.sleep(LINGER - 0.025 + number % 6 * 0.006)
        t.restart()
        t.wait_members(1)
        t.must("kill")
        t.must("quit")
