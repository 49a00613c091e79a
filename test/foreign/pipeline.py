"""tar | gzip | sha256sum."""
# ci: user (whose ids are virtual; a user namespace adds ids, and other tests have those)
import os
import hashlib
from cairn_test import same_as_undisturbed


def test(t):
    def prepare(folder, size):
        data = os.path.join(folder, "data")
        os.mkdir(data)
        for number in range(size):
            with open(os.path.join(data, f"file{number:03}"), "w") as file:
                words = hashlib.shake_256(str(number).encode()).hexdigest(150000)
                file.write(" the quick brown fox ".join(words[at:at + 11] for at in range(0, len(words), 11)))
            os.utime(file.name, (1, 1))
        os.utime(data, (1, 1))
    same_as_undisturbed(t, lambda _: ["bash", "-c", "tar --sort=name -cf - data | gzip -9n | tee copy.gz | sha256sum > sum; "
                                          "echo ${PIPESTATUS[@]}"],
                        prepare=prepare, scale=400 if t.soak else 20, timeout=600)
