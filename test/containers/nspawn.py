"""systemd-nspawn: a job is saved in one container, killed with it, and goes on in another; with its own first process and without."""
# ci: none
# timeout: 300
import shutil
from cairn_test import Skip
from cairn_test.containers import Image, Way, three_containers, undisturbed


def nspawn(t, *options):
    images = []

    def command(argv, environment):
        images.append(Image(t))
        passed = [f"--setenv={name}={value}" for name, value in environment.items()]
        return ["systemd-nspawn", "--quiet", f"--machine={environment['CAIRN_TEST_BOX'].replace('_', '')}", f"--directory={images[-1].root}",
                "--register=no", "--keep-unit", "--private-network", f"--bind={t.work}", "--link-journal=no", *options, *passed, "--", *argv]
    return Way(t, command), images


def test(t):
    if not shutil.which("systemd-nspawn"):
        raise Skip("systemd-nspawn isn't installed")
    expected = undisturbed(t, 150)
    for name, options in (("first process", []), ("second process", ["--as-pid2"])):
        way, images = nspawn(t, *options)
        try:
            three_containers(t, way, 150, expected, name)
        finally:
            for image in images:
                image.close()
