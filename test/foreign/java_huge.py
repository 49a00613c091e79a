"""java -XX:+UseLargePages: its heap and its code in hugetlb pages, from a pool that root keeps filled meanwhile."""
# ci: none (its packages are heavy: where they are installed)
# serial: the machine's pool: an MPICH job beside it takes what there is
import os
import runpy
import shutil
from cairn_test import Skip, check, huge_pool, same_as_undisturbed

java = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "java.py"))


def huge_kilobytes(pid):
    with open(f"/proc/{pid}/status") as status:
        return sum(int(line.split()[1]) for line in status if line.startswith("HugetlbPages:"))


def test(t):
    if not shutil.which("javac"):
        raise Skip("javac isn't installed")
    with open(os.path.join(t.folder, "Program.java"), "w") as file:
        file.write(java["PROGRAM"])
    code, out, err = t.run(["javac", "-d", t.folder, os.path.join(t.folder, "Program.java")], timeout=120)
    check(code == 0, f"javac: {out}{err}")
    argv = ["java", "-cp", t.folder, "-XX:+UseG1GC", "-XX:+UseLargePages", "-Xmx160m", "-XX:ReservedCodeCacheSize=32m", "Program"]
    program = t.launch(argv)
    t.wait_members(1)
    t.sleep(1.0)
    most = max(huge_kilobytes(member["pid"]) for member in t.members())
    program.expect(r"ended true", timeout=120)
    program.expect_exit(0)
    if most == 0:
        raise Skip("java could have no huge pages")
    t.say(f"java has {most} kB of huge pages")
    same_as_undisturbed(t, argv, rounds=t.rounds, seconds=1.5, at_once=True)


huge_pool.keep_pool(needed=150, wanted=160)
