"""What Docker's default profile and capabilities leave, with a filter of our own in its place: a job is saved in one container, killed
with it, and goes on in another; as root and as an ordinary user, with a root that can only be read, and on kernels before 6.10."""
# timeout: 300
import os
from cairn_test import check, modes
from cairn_test.containers import DOCKERS_CAPABILITIES, ENTER, FILTER, Way, three_containers, undisturbed


def engine(t, user=None, **variables):
    """Namespaces, an overlay of this machine's root, masked paths, a filter, few capabilities; `user`: in the container."""
    bounding = "-all," + ",".join("+" + name for name in DOCKERS_CAPABILITIES)
    become = ["setpriv", f"--bounding-set={bounding}", "--inh-caps=-all"]
    if user:
        become += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]

    def command(argv, environment):
        environment.update(variables)
        overlay = os.path.join(t.folder, f"overlay.{len(os.listdir(t.folder))}")
        os.mkdir(overlay)
        return ["unshare", "--mount", "--pid", "--ipc", "--net", "--uts", "--fork", "--kill-child", "bash", "-c", ENTER, "enter", overlay,
                t.work, *become, "python3", "-c", FILTER, *argv]
    return Way(t, command, user and user.pw_name)


def forbidden(t, way):
    """The doctor names it, and works."""
    box = way.start([t.cairn, "doctor", "--timeout", "20", "--ckptdir", t.work])
    t.wait_until(lambda: box.ended() is not None, "the doctor to end", 60)
    said = box.text()
    check(box.ended() == 0, f"cairn doctor ended with {box.ended()}:\n{said}")
    for word in ("kcmp", "pidfd_getfd", "userfaultfd", "docker run --cap-add=SYS_PTRACE", "rehearsal          a program was"):
        check(word in said, f"cairn doctor doesn't say {word}:\n{said}")


def test(t):
    expected = undisturbed(t, 100)
    forbidden(t, engine(t, container="docker"))
    three_containers(t, engine(t), 100, expected, "root")
    three_containers(t, engine(t, NO_QUERY="1"), 100, expected, "older", first=["sh", "-c", '"$@"; exit $?', "sh"],
                     later=["sh", "-c", '"$@"; exit $?', "sh"])
    t.own_by_user()
    three_containers(t, engine(t, modes.ordinary_user(), BOX_READ_ONLY="1"), 100, expected, "user")
