"""A threaded program under tcmalloc."""
# ci: exact
from cairn_test.allocator import under

LIBRARY = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"
NEEDS = [LIBRARY]


def test(t):
    under(t, LIBRARY, "tc_malloc")
