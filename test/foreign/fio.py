"""fio with io_uring: what it has written, with eight requests under way at a time, is what it reads again."""
# ci: none (its package is heavy: where it is installed)
import shutil
from cairn_test import Skip, check

SCRIPT = r"""
echo READY
fio --name=job --filename=$PWD/data --size=64m --bs=4k --rw=randrw --ioengine=io_uring --iodepth=8 --numjobs=1 --thread=0 \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_backlog=64 --time_based --runtime=$SECONDS_OF_LOAD --randrepeat=0 $OPTIONS \
    --output=$PWD/log
echo "FIO $?"
"""


def test(t):
    if not shutil.which("fio"):
        raise Skip("fio isn't installed")
    program = t.launch(["bash", "-c", SCRIPT], env={
        "SECONDS_OF_LOAD": "60" if t.soak else "12",
        "OPTIONS": " ".join("--" + name for name in t.arguments.names)})
    program.expect("READY")
    t.sleep(2)
    for number in range(t.rounds):
        program, _ = t.cycle(program, number, at_once=True)
        t.sleep(0.5 + t.random.random())
    found = program.expect(r"FIO (\d+)\r?\n", timeout=180)
    with open(t.work + "/log") as file:
        check(found[1] in ("0", b"0"), f"fio ended with {found[1]}: {file.read()}")
    program.expect_exit(0)
