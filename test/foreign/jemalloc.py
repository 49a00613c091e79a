"""A threaded program under jemalloc."""
# ci: exact (whose ids are virtual; a user namespace adds ids, and other tests have those)
from cairn_test.allocator import under

LIBRARY = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
NEEDS = [LIBRARY]


def test(t):
    under(t, LIBRARY, "mallctl")
