"""xz -T2: the same bytes."""
# ci: exact
import os
import hashlib
from cairn_test import same_as_undisturbed


def test(t):
    def prepare(folder, size):
        with open(os.path.join(folder, "data"), "wb") as file:
            for block in range(size):
                words = hashlib.shake_256(str(block).encode()).hexdigest(1 << 19)
                file.write(" ".join(words[at:at + 31] for at in range(0, len(words), 31)).encode())
    same_as_undisturbed(t, lambda _: ["xz", "-k", "-T2", "--block-size=1MiB", "-4", "data"], prepare=prepare,
                        scale=200 if t.soak else 6, timeout=1200)
