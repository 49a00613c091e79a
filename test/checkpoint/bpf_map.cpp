// BPF maps (bpf(2)), arrays and hashes: empty, with elements, full, held twice and by a child;
// by descriptions that may be read or written only.
// ci: exact
// rain: soak
// narrow: none
// root: BPF maps are root's
// heirs: none
#include <linux/bpf.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "support.h"

namespace {

int ask(int command, bpf_attr& asked) {
    return static_cast<int>(syscall(SYS_bpf, command, &asked, sizeof asked));
}
std::uint64_t address(const void* bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes);
}

int make(std::uint32_t type, std::uint32_t key, std::uint32_t value, std::uint32_t entries,
         std::uint32_t flags = 0, const char* name = "") {
    bpf_attr asked{};
    asked.map_type = type;
    asked.key_size = key;
    asked.value_size = value;
    asked.max_entries = entries;
    asked.map_flags = flags;
    std::strcpy(asked.map_name, name);
    const int fd = ask(BPF_MAP_CREATE, asked);
    if (fd < 0 && errno == EPERM) test::skip("BPF maps are not allowed");
    CHECK(fd >= 0);
    return fd;
}

bool on_element(int command, int fd, const void* key, void* value, std::uint64_t flags = BPF_ANY) {
    bpf_attr asked{};
    asked.map_fd = static_cast<std::uint32_t>(fd);
    asked.key = address(key);
    asked.value = address(value);
    asked.flags = flags;
    return ask(command, asked) == 0;
}
void put(int fd, std::uint32_t key, std::uint64_t value) {
    CHECK(on_element(BPF_MAP_UPDATE_ELEM, fd, &key, &value));
}
std::uint64_t get(int fd, std::uint32_t key) {
    std::uint64_t value = 0;
    CHECK(on_element(BPF_MAP_LOOKUP_ELEM, fd, &key, &value));
    return value;
}
bool remove(int fd, std::uint32_t key) {
    return on_element(BPF_MAP_DELETE_ELEM, fd, &key, nullptr, 0);
}

// Everything in a map of u32 and u64.
std::map<std::uint32_t, std::uint64_t> all(int fd) {
    std::map<std::uint32_t, std::uint64_t> found;
    std::uint32_t key = 0, next = 0;
    for (bool first = true;; first = false, key = next) {
        bpf_attr asked{};
        asked.map_fd = static_cast<std::uint32_t>(fd);
        asked.key = first ? 0 : address(&key);
        asked.next_key = address(&next);
        if (ask(BPF_MAP_GET_NEXT_KEY, asked) != 0) break;
        CHECK(found.emplace(next, get(fd, next)).second);
    }
    CHECK(errno == ENOENT);
    return found;
}

bpf_map_info info_of(int fd) {
    bpf_map_info info{};
    bpf_attr asked{};
    asked.info.bpf_fd = static_cast<std::uint32_t>(fd);
    asked.info.info_len = sizeof info;
    asked.info.info = address(&info);
    CHECK(ask(BPF_OBJ_GET_INFO_BY_FD, asked) == 0);
    return info;
}
void check_info(int fd, const bpf_map_info& before) {
    const bpf_map_info now = info_of(fd);
    CHECK(now.type == before.type && now.key_size == before.key_size && now.value_size == before.value_size);
    CHECK(now.max_entries == before.max_entries && now.map_flags == before.map_flags);
    CHECK(std::strcmp(now.name, before.name) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
}
// Another description of the same map.
int again(int fd, std::uint32_t flags) {
    bpf_attr asked{};
    asked.map_id = info_of(fd).id;
    asked.open_flags = flags;
    const int other = ask(BPF_MAP_GET_FD_BY_ID, asked);
    CHECK(other >= 0);
    return other;
}

test::Check array() {
    const int empty = make(BPF_MAP_TYPE_ARRAY, 4, 8, 3),
              fd = make(BPF_MAP_TYPE_ARRAY, 4, 8, 100, 0, "numbers");
    put(fd, 0, 1);
    put(fd, 99, ~std::uint64_t{0});
    return [=, before = info_of(fd), before_empty = info_of(empty)](bool) {
        check_info(fd, before);
        check_info(empty, before_empty);
        CHECK((all(empty) == std::map<std::uint32_t, std::uint64_t>{{0, 0}, {1, 0}, {2, 0}}));
        const auto found = all(fd);
        CHECK(found.size() == 100 && found.at(0) == 1 && found.at(1) == 0 &&
              found.at(99) == ~std::uint64_t{0});
        put(fd, 5, 5);
        CHECK(get(fd, 5) == 5);
        put(fd, 5, 0);
    };
}

test::Check hash(std::uint32_t flags) {
    const int empty = make(BPF_MAP_TYPE_HASH, 4, 8, 3, flags), fd = make(BPF_MAP_TYPE_HASH, 4, 8, 3, flags);
    const std::map<std::uint32_t, std::uint64_t> full{{7, 70}, {0, 0}, {0xffffffff, 1}};
    for (const auto& [key, value] : full) put(fd, key, value);
    return [=, before = info_of(fd), before_empty = info_of(empty)](bool) {
        check_info(fd, before);
        check_info(empty, before_empty);
        CHECK(all(empty).empty() && all(fd) == full);
        std::uint32_t key = 8;
        std::uint64_t value = 1;
        CHECK(!on_element(BPF_MAP_UPDATE_ELEM, fd, &key, &value) && errno == E2BIG);
        CHECK(remove(fd, 7) && !remove(fd, 7));
        put(fd, 7, 70);
    };
}

// Keys and values of a size that is no word's.
test::Check odd_sizes() {
    struct Key {
        char bytes[13];
    };
    struct Value {
        char bytes[3001];
    };
    const int fd =
        make(BPF_MAP_TYPE_HASH, sizeof(Key), sizeof(Value), 1000, BPF_F_NO_PREALLOC, "a_name_of_15_ch");
    const auto key_of = [](int i) {
        Key key{};
        std::snprintf(key.bytes, sizeof key.bytes, "key %d", i);
        return key;
    };
    const auto value_of = [](int i) {
        Value value;
        std::fill(std::begin(value.bytes), std::end(value.bytes), static_cast<char>(i));
        return value;
    };
    for (int i = 0; i < 500; ++i) {
        const Key key = key_of(i);
        Value value = value_of(i);
        CHECK(on_element(BPF_MAP_UPDATE_ELEM, fd, &key, &value));
    }
    return [=, before = info_of(fd)](bool) {
        check_info(fd, before);
        for (int i = 0; i < 501; ++i) {
            const Key key = key_of(i);
            Value value;
            const bool found = on_element(BPF_MAP_LOOKUP_ELEM, fd, &key, &value);
            CHECK(found == (i < 500));
            if (!found) continue;
            const Value expected = value_of(i);
            CHECK(std::memcmp(&value, &expected, sizeof value) == 0);
        }
    };
}

// Held twice, and by a child that counts in it.
test::Check shared() {
    const int fd = make(BPF_MAP_TYPE_HASH, 4, 8, 10), twice = dup(fd);
    CHECK(twice >= 0);
    put(fd, 1, 0);
    put(fd, 2, 0);
    const pid_t child = fork();
    if (child == 0)
        for (;; test::nap_between_looks())
            if (get(fd, 1) != get(fd, 2)) put(fd, 2, get(fd, 1));
    CHECK(child > 0);
    return [=, before = info_of(fd), round = std::uint64_t{0}](bool last) mutable {
        check_info(fd, before);
        CHECK(fcntl(twice, F_GETFD) == 0 && info_of(twice).id == info_of(fd).id);
        CHECK(get(twice, 1) == round && get(fd, 2) == round);
        put(twice, 1, ++round);
        for (int i = 0; i < 2000 && get(fd, 2) != round; ++i) test::nap(5);
        CHECK(get(fd, 2) == round);
        if (last) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

// The first description that a checkpoint finds may be written only.
test::Check restricted() {
    const int made = make(BPF_MAP_TYPE_ARRAY, 4, 8, 2), writes = again(made, BPF_F_WRONLY),
              reads = again(made, BPF_F_RDONLY), both = again(made, 0);
    put(made, 1, 10);
    close(made);
    return [=](bool) {
        std::uint32_t key = 1;
        std::uint64_t value = 11;
        CHECK(!on_element(BPF_MAP_UPDATE_ELEM, reads, &key, &value) && errno == EPERM);
        CHECK(!on_element(BPF_MAP_LOOKUP_ELEM, writes, &key, &value) && errno == EPERM);
        CHECK(get(reads, 1) == 10 && get(both, 1) == 10);
        put(writes, 1, 12);
        CHECK(get(reads, 1) == 12 && get(both, 1) == 12);
        put(both, 1, 10);
    };
}

}  // namespace

int main() {
    test::serve({{"an array", array},
                 {"a hash", [] { return hash(0); }},
                 {"a hash that isn't allocated before", [] { return hash(BPF_F_NO_PREALLOC); }},
                 {"odd sizes", odd_sizes},
                 {"shared", shared},
                 {"for reading or writing only", restricted}});
}
