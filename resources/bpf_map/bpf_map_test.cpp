// BPF maps are captured and restored, or refused, without a checkpoint.
// root: BPF maps are root's
#include <linux/bpf.h>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

int make_bpf_map(std::uint32_t type, std::uint32_t key_size, std::uint32_t value_size, std::uint32_t flags) {
    bpf_attr asked{};
    asked.map_type = type;
    asked.key_size = key_size;
    asked.value_size = value_size;
    asked.max_entries = 4;
    asked.map_flags = flags;
    return static_cast<int>(::syscall(SYS_bpf, BPF_MAP_CREATE, &asked, sizeof asked));
}

// BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM
bool at_key(int command, int fd, std::uint32_t key, std::uint64_t& value) {
    bpf_attr asked{};
    asked.map_fd = static_cast<std::uint32_t>(fd);
    asked.key = reinterpret_cast<std::uintptr_t>(&key);
    asked.value = reinterpret_cast<std::uintptr_t>(&value);
    return ::syscall(SYS_bpf, command, &asked, sizeof asked) == 0;
}

// Another description of the same map.
int again(int fd, std::uint32_t flags) {
    bpf_map_info info{};
    bpf_attr asked{};
    asked.info.bpf_fd = static_cast<std::uint32_t>(fd);
    asked.info.info_len = sizeof info;
    asked.info.info = reinterpret_cast<std::uintptr_t>(&info);
    if (::syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &asked, sizeof asked) != 0) return -1;
    bpf_attr wanted{};
    wanted.map_id = info.id;
    wanted.open_flags = flags;
    return static_cast<int>(::syscall(SYS_bpf, BPF_MAP_GET_FD_BY_ID, &wanted, sizeof wanted));
}

class ObjectsBpfMap : public ::testing::Test {
    void SetUp() override {
        if (!Fd(make_bpf_map(BPF_MAP_TYPE_HASH, 4, 8, 0))) GTEST_SKIP() << "BPF maps are not allowed";
    }
};

TEST_F(ObjectsBpfMap, WithItsElements) {
    Stopped process([] {
        std::uint64_t value = 7;
        at(120, make_bpf_map(BPF_MAP_TYPE_ARRAY, 4, 8, 0));
        CHILD_CHECK(at_key(BPF_MAP_UPDATE_ELEM, 120, 2, value));
        const int hash = make_bpf_map(BPF_MAP_TYPE_HASH, 4, 8, BPF_F_NO_PREALLOC);
        CHILD_CHECK(at_key(BPF_MAP_UPDATE_ELEM, hash, 1000, value));
        at(121, again(hash, BPF_F_WRONLY));
        at(122, again(hash, BPF_F_RDONLY));
        at(123, hash);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([](std::size_t) {
        std::uint64_t value = 0;
        CHILD_CHECK(at_key(BPF_MAP_LOOKUP_ELEM, 120, 2, value) && value == 7);
        CHILD_CHECK(at_key(BPF_MAP_LOOKUP_ELEM, 120, 3, value) && value == 0);
        CHILD_CHECK(at_key(BPF_MAP_LOOKUP_ELEM, 122, 1000, value) && value == 7);
        CHILD_CHECK(!at_key(BPF_MAP_UPDATE_ELEM, 122, 1, value) && errno == EPERM);
        value = 8;
        CHILD_CHECK(at_key(BPF_MAP_UPDATE_ELEM, 121, 1, value));
        CHILD_CHECK(!at_key(BPF_MAP_LOOKUP_ELEM, 121, 1, value) && errno == EPERM);
        value = 0;
        CHILD_CHECK(at_key(BPF_MAP_LOOKUP_ELEM, 123, 1, value) && value == 8);
        CHILD_CHECK(!at_key(BPF_MAP_LOOKUP_ELEM, 123, 2, value) && errno == ENOENT);
    });
}

TEST_F(ObjectsBpfMap, OthersAreRefused) {
    const auto frozen = [] {
        at(120, make_bpf_map(BPF_MAP_TYPE_ARRAY, 4, 8, 0));
        bpf_attr asked{};
        asked.map_fd = 120;
        CHILD_CHECK(::syscall(SYS_bpf, BPF_MAP_FREEZE, &asked, sizeof asked) == 0);
    };
    expect_refused(frozen,
                   "is a BPF map that is frozen (BPF_MAP_FREEZE), which can't be saved; close it before a "
                   "checkpoint");
    expect_refused([] { at(120, make_bpf_map(BPF_MAP_TYPE_QUEUE, 0, 8, 0)); },
                   "is a BPF map of type 22 (only arrays and hashes can be saved), which can't be saved; "
                   "close it before a checkpoint");
    expect_refused([] { at(120, make_bpf_map(BPF_MAP_TYPE_ARRAY, 4, 8, BPF_F_MMAPABLE)); },
                   "is a BPF map with the flags 0x400, which can't be saved; close it before a checkpoint");
}

}  // namespace
}  // namespace cairn::test
