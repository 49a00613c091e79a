"""sort --parallel: the same lines, with temporary files."""
# ci: exact
import os
import hashlib
from cairn_test import same_as_undisturbed


def test(t):
    def prepare(folder, size):
        with open(os.path.join(folder, "data"), "wb") as file:
            for block in range(size):
                words = hashlib.shake_256(str(block).encode()).hexdigest(1 << 19)
                file.write("".join(f"{words[at:at + 33]}\n" for at in range(0, len(words), 33)).encode())
        os.mkdir(os.path.join(folder, "tmp"))
    # A quarter of it in memory: the rest goes through temporary files.
    same_as_undisturbed(t, lambda size: ["sort", "--parallel=2", "-S", f"{size // 4}M", "-T", "tmp", "-o", "sorted", "data"],
                        prepare=prepare, scale=200 if t.soak else 40, at_once=True, timeout=1200,
                        env={"LC_ALL": "en_US.UTF-8"})
