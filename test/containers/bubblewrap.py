"""bubblewrap, as an ordinary user: a job is saved in one container, killed with it, and goes on in another; also where its program, or
the restart, is the container's first process."""
# timeout: 300
import shutil
from cairn_test import Skip, modes
from cairn_test.containers import Way, three_containers, undisturbed


def bubblewrap(t, *options):
    user = modes.ordinary_user()
    who = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--inh-caps=-all", "--bounding-set=-all"]
    box = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run", "--bind", t.work, t.work,
           "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts", "--die-with-parent", *options]
    return Way(t, lambda argv, environment: [*who, *box, "--", *argv], user.pw_name)


def test(t):
    if not shutil.which("bwrap"):
        raise Skip("bubblewrap isn't installed")
    t.own_by_user()
    expected = undisturbed(t, 100)
    three_containers(t, bubblewrap(t), 100, expected)
    three_containers(t, bubblewrap(t, "--as-pid-1"), 100, expected, "first process")
