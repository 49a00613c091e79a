// Descriptions of types (BTF, bpf(2)): small and large, held twice and by a child, two open descriptions of
// one, two of the same types; a BPF map is made by one.
// ci: exact
// rain: soak
// narrow: none
// root: BTF is root's to load
// heirs: none
#include <linux/bpf.h>
#include <linux/btf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <string>

#include "support.h"

namespace {

int ask(int command, bpf_attr& asked) {
    return static_cast<int>(syscall(SYS_bpf, command, &asked, sizeof asked));
}
std::uint64_t address(const void* bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes);
}

template <class Value>
void append(std::string& bytes, const Value& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// What BPF_BTF_LOAD wants for so many types, each an int with a name of its own.
std::string types(int count) {
    std::string numbered, names(1, '\0');
    for (int i = 0; i < count; ++i) {
        btf_type type{};
        type.name_off = static_cast<std::uint32_t>(names.size());
        type.info = BTF_KIND_INT << 24;
        type.size = 4;
        append(numbered, type);
        append(numbered, std::uint32_t{BTF_INT_SIGNED << 24 | 32});
        names += "int_" + std::to_string(i) + '\0';
    }
    btf_header head{};
    head.magic = BTF_MAGIC;
    head.version = BTF_VERSION;
    head.hdr_len = sizeof head;
    head.type_len = static_cast<std::uint32_t>(numbered.size());
    head.str_off = head.type_len;
    head.str_len = static_cast<std::uint32_t>(names.size());
    std::string bytes;
    append(bytes, head);
    return bytes + numbered + names;
}

int load(const std::string& bytes) {
    bpf_attr asked{};
    asked.btf = address(bytes.data());
    asked.btf_size = static_cast<std::uint32_t>(bytes.size());
    const int fd = ask(BPF_BTF_LOAD, asked);
    if (fd < 0 && errno == EPERM) test::skip("BTF may not be loaded");
    CHECK(fd >= 0);
    return fd;
}

bpf_btf_info info_of(int fd, std::string& bytes) {
    bpf_btf_info info{};
    info.btf = address(bytes.data());
    info.btf_size = static_cast<std::uint32_t>(bytes.size());
    bpf_attr asked{};
    asked.info.bpf_fd = static_cast<std::uint32_t>(fd);
    asked.info.info_len = sizeof info;
    asked.info.info = address(&info);
    CHECK(ask(BPF_OBJ_GET_INFO_BY_FD, asked) == 0);
    return info;
}
std::uint32_t id_of(int fd) {
    std::string none;
    return info_of(fd, none).id;
}
void check_types(int fd, const std::string& expected) {
    std::string bytes(expected.size() + 10, '\0');
    const bpf_btf_info info = info_of(fd, bytes);
    CHECK(info.btf_size == expected.size() && info.kernel_btf == 0 && info.name_len == 0);
    CHECK(bytes.compare(0, expected.size(), expected) == 0);
}

// Another open description of the same one.
int again(int fd) {
    bpf_attr asked{};
    asked.btf_id = id_of(fd);
    const int other = ask(BPF_BTF_GET_FD_BY_ID, asked);
    CHECK(other >= 0);
    return other;
}

test::Check alone(int count) {
    const std::string expected = types(count);
    const int fd = load(expected);
    return [=](bool) {
        check_types(fd, expected);
        CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
    };
}

// A map whose keys and values are of the last of its types.
test::Check used() {
    const int count = 7, fd = load(types(count));
    return [=](bool) {
        bpf_attr asked{};
        asked.map_type = BPF_MAP_TYPE_ARRAY;
        asked.key_size = 4;
        asked.value_size = 4;
        asked.max_entries = 1;
        asked.btf_fd = static_cast<std::uint32_t>(fd);
        asked.btf_key_type_id = count;
        asked.btf_value_type_id = count;
        const int map = ask(BPF_MAP_CREATE, asked);
        CHECK(map >= 0);
        close(map);
        asked.btf_value_type_id = count + 1;
        CHECK(ask(BPF_MAP_CREATE, asked) < 0 && errno == EINVAL);
    };
}

test::Check twice() {
    const std::string expected = types(3);
    const int fd = load(expected), copy = dup(fd), other = again(fd), same_types = load(expected);
    CHECK(copy >= 0);
    return [=](bool) {
        for (const int each : {fd, copy, other, same_types}) check_types(each, expected);
        CHECK(id_of(copy) == id_of(fd) && id_of(other) == id_of(fd) && id_of(same_types) != id_of(fd));
        CHECK(fcntl(copy, F_GETFD) == 0);
        // O_NONBLOCK is the open description's.
        for (const int flags : {O_NONBLOCK, 0}) {
            CHECK(fcntl(fd, F_SETFL, flags) == 0);
            CHECK((fcntl(copy, F_GETFL) & O_NONBLOCK) == flags);
            CHECK((fcntl(other, F_GETFL) & O_NONBLOCK) == 0);
        }
    };
}

// A child looks again and again, and has one to itself.
test::Check shared() {
    struct Seen {
        std::atomic<std::uint32_t> id{0}, times{0};
    };
    void* const memory =
        mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    Seen* const seen = new (memory) Seen;
    const std::string expected = types(10), own = types(11);
    const int fd = load(expected), childs = load(own);
    const pid_t child = fork();
    if (child == 0)
        for (;; test::nap_between_looks()) {
            check_types(fd, expected);
            check_types(childs, own);
            seen->id = id_of(fd);
            ++seen->times;
        }
    CHECK(child > 0);
    close(childs);
    return [=](bool last) {
        check_types(fd, expected);
        // The second look from now on has begun after now.
        const std::uint32_t before = seen->times;
        for (int i = 0; i < 2000 && seen->times < before + 2; ++i) test::nap(5);
        CHECK(seen->times >= before + 2 && seen->id == id_of(fd));
        if (last) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

}  // namespace

int main() {
    test::serve({{"one type", [] { return alone(1); }},
                 {"many types", [] { return alone(20000); }},
                 {"used by a map", used},
                 {"twice", twice},
                 {"shared", shared}});
}
