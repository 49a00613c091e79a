// BPF maps (bpf(2)): BPF_OBJ_GET_INFO_BY_FD (Linux 4.13) tells what they are, and /proc/PID/fdinfo/N whether
// they are frozen (`frozen`, since Linux 5.2, as BPF_MAP_FREEZE itself: where the line is missing, no map
// is). The id of a map tells whether two descriptions are of the same one; a restart gets another id.
// Programs in the kernel may go on changing a map while the group stands still: what they change meanwhile
// may be in the image or not, and an element that they remove may end the walk over a hash. No interface
// tells who else uses the map.
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "resources/capture/table.h"

namespace cairn::capture {

namespace {

// A checkpoint keeps the contents of all maps in its own memory until the images are written.
constexpr std::size_t most_bytes = 64UZ << 20;

struct MapsFound {
    std::map<std::uint32_t, std::int64_t> numbers;  // BpfMap::map by the kernel's id
};

int call_bpf(int command, bpf_attr& asked) {
    return static_cast<int>(::syscall(SYS_bpf, command, &asked, sizeof asked));
}

std::uint64_t address_of(const void* bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes);
}

Result<bpf_map_info> ask_info(int fd) {
    bpf_map_info info{};
    bpf_attr asked{};
    asked.info.bpf_fd = static_cast<std::uint32_t>(fd);
    asked.info.info_len = sizeof info;
    asked.info.info = address_of(&info);
    if (call_bpf(BPF_OBJ_GET_INFO_BY_FD, asked) != 0) return fail_errno("bpf: BPF_OBJ_GET_INFO_BY_FD");
    return info;
}

Result<> add_element(int fd, const schema::Bytes& key, schema::Bytes& value, schema::BpfMap& saved) {
    bpf_attr asked{};
    asked.map_fd = static_cast<std::uint32_t>(fd);
    asked.key = address_of(key.data());
    asked.value = address_of(value.data());
    if (call_bpf(BPF_MAP_LOOKUP_ELEM, asked) != 0) {
        if (errno == ENOENT && saved.type == schema::BpfMapType::hash) return {};  // removed by a program
        return fail_errno("bpf: BPF_MAP_LOOKUP_ELEM");
    }
    // An array has all of its elements from the start.
    if (saved.type == schema::BpfMapType::array && std::ranges::all_of(value, [](auto b) { return b == 0; }))
        return {};
    if (saved.elements.size() + key.size() + value.size() > most_bytes)
        return fail_code(ExitCode::refused,
                         "is a BPF map with more than {} MiB in it, which can't be saved; close it before a "
                         "checkpoint",
                         most_bytes >> 20);
    saved.elements.insert(saved.elements.end(), key.begin(), key.end());
    saved.elements.insert(saved.elements.end(), value.begin(), value.end());
    return {};
}

Result<> read_elements(int fd, schema::BpfMap& saved) {
    schema::Bytes key(saved.key_size), next(saved.key_size), value(saved.value_size);
    // A hash begins again if a program removes the key that is asked by: the number of steps is bounded.
    for (std::uint32_t i = 0; i < saved.max_entries; ++i) {
        bpf_attr asked{};
        asked.map_fd = static_cast<std::uint32_t>(fd);
        asked.key = i == 0 ? 0 : address_of(key.data());
        asked.next_key = address_of(next.data());
        if (call_bpf(BPF_MAP_GET_NEXT_KEY, asked) != 0) {
            if (errno == ENOENT) return {};
            return fail_errno("bpf: BPF_MAP_GET_NEXT_KEY");
        }
        std::swap(key, next);
        CHECK_OK(add_element(fd, key, value, saved));
    }
    return {};
}

// Why a map can't be saved; "" if it can.
std::string obstacle(const Description& found, const bpf_map_info& info) {
    // The node of BPF_F_NUMA_NODE is told nowhere. A map with BPF_F_MMAPABLE may be mapped.
    constexpr std::uint32_t known = BPF_F_NO_PREALLOC | BPF_F_RDONLY | BPF_F_WRONLY | BPF_F_ZERO_SEED |
                                    BPF_F_RDONLY_PROG | BPF_F_WRONLY_PROG | BPF_F_INNER_MAP;
    if (info.type != BPF_MAP_TYPE_ARRAY && info.type != BPF_MAP_TYPE_HASH)
        return fmt::format("of type {} (only arrays and hashes can be saved)", info.type);
    if (info_number(found.info, "frozen") != 0) return "that is frozen (BPF_MAP_FREEZE)";
    if (info.btf_id != 0) return "with a description of its types (BTF)";
    if (info.ifindex != 0) return "of a network device";
    if ((info.map_flags & ~known) != 0) return fmt::format("with the flags {:#x}", info.map_flags & ~known);
    return {};
}

}  // namespace

Result<> describe_bpf_map(Table& table, const Description& found, schema::Object& object) {
    const auto info = TRY(ask_info(found.fd()));
    if (const std::string why = obstacle(found, info); !why.empty())
        return fail_code(ExitCode::refused,
                         "is a BPF map {}, which can't be saved; close it before a checkpoint", why);
    auto& numbers = table.of<MapsFound>().numbers;
    const auto [number, is_new] = numbers.try_emplace(info.id, static_cast<std::int64_t>(numbers.size()));
    schema::BpfMap saved;
    saved.map = number->second;
    saved.type = info.type == BPF_MAP_TYPE_HASH ? schema::BpfMapType::hash : schema::BpfMapType::array;
    saved.key_size = info.key_size;
    saved.value_size = info.value_size;
    saved.max_entries = info.max_entries;
    constexpr std::uint32_t of_description = BPF_F_RDONLY | BPF_F_WRONLY;
    saved.map_flags = info.map_flags & ~of_description;  // older kernels show them
    saved.name.assign(info.name, ::strnlen(info.name, sizeof info.name));
    if (is_new) {
        // A description that is for writing only can't read the map. And whoever may not do this could make
        // no map at a restart.
        bpf_attr asked{};
        asked.map_id = info.id;
        const Fd readable(call_bpf(BPF_MAP_GET_FD_BY_ID, asked));
        if (!readable && errno == EPERM)
            return fail_code(
                ExitCode::refused,
                "is a BPF map, which root alone can save (CAP_BPF, CAP_SYS_ADMIN); close it before "
                "a checkpoint");
        if (!readable) return fail_errno("bpf: BPF_MAP_GET_FD_BY_ID");
        CHECK_OK(read_elements(readable.get(), saved));
    }
    object.what = std::move(saved);
    return {};
}

}  // namespace cairn::capture
