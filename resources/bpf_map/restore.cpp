// BPF maps (bpf(2)): made empty, and given their elements. CAP_BPF and CAP_SYS_ADMIN are asked for. What is
// asked of the kernel is there since Linux 4.15. Before 5.11 the map counts in the tool's RLIMIT_MEMLOCK.
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "resources/restore/opening.h"

namespace cairn::restart {

namespace {

int ask_bpf(int command, bpf_attr& asked) {
    return static_cast<int>(::syscall(SYS_bpf, command, &asked, sizeof asked));
}

std::uint64_t bytes_at(const void* bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes);
}

Result<Fd> make_map(const schema::BpfMap& saved) {
    bpf_attr asked{};
    // Images aren't trusted, and the kernel is given addresses.
    const std::size_t element = std::size_t{saved.key_size} + saved.value_size;
    if (saved.elements.size() % element != 0 || saved.name.size() >= sizeof asked.map_name)
        return fail_code(ExitCode::damaged, "elements or name of a BPF map have an impossible length");
    asked.map_type = saved.type == schema::BpfMapType::hash ? BPF_MAP_TYPE_HASH : BPF_MAP_TYPE_ARRAY;
    asked.key_size = saved.key_size;
    asked.value_size = saved.value_size;
    asked.max_entries = saved.max_entries;
    asked.map_flags = saved.map_flags;
    std::ranges::copy(saved.name, asked.map_name);
    Fd map(ask_bpf(BPF_MAP_CREATE, asked));
    if (!map) return fail_errno("bpf: BPF_MAP_CREATE");
    for (std::size_t at = 0; at < saved.elements.size(); at += element) {
        bpf_attr put{};
        put.map_fd = static_cast<std::uint32_t>(map.get());
        put.key = bytes_at(saved.elements.data() + at);
        put.value = bytes_at(saved.elements.data() + at + saved.key_size);
        put.flags = BPF_ANY;
        if (ask_bpf(BPF_MAP_UPDATE_ELEM, put) != 0) return fail_errno("bpf: BPF_MAP_UPDATE_ELEM");
    }
    return map;
}

// Another description of this map, which may be used as `flags` (O_*) say.
Result<Fd> open_again(int map, std::int32_t flags) {
    bpf_map_info info{};
    bpf_attr asked{};
    asked.info.bpf_fd = static_cast<std::uint32_t>(map);
    asked.info.info_len = sizeof info;
    asked.info.info = bytes_at(&info);
    if (ask_bpf(BPF_OBJ_GET_INFO_BY_FD, asked) != 0) return fail_errno("bpf: BPF_OBJ_GET_INFO_BY_FD");
    const int access = flags & O_ACCMODE;
    bpf_attr wanted{};
    wanted.map_id = info.id;
    wanted.open_flags = access == O_RDONLY ? BPF_F_RDONLY : access == O_WRONLY ? BPF_F_WRONLY : 0;
    Fd again(ask_bpf(BPF_MAP_GET_FD_BY_ID, wanted));
    if (!again) return fail_errno("bpf: BPF_MAP_GET_FD_BY_ID");
    return again;
}

}  // namespace

Result<Fd> open_bpf_map(Opening& opening, const schema::Object& object, const schema::BpfMap& saved) {
    // Its first description has the elements.
    const auto first = std::ranges::find_if(opening.objects.objects, [&](const schema::Object& each) {
        const auto* other = each.get<schema::BpfMap>();
        return other != nullptr && other->map == saved.map;
    });
    if (first->id != object.id) {
        const auto map = TRY(opening.opened.lend(first->id));
        if (!map) return fail("the first descriptor of this BPF map isn't open");
        return open_again(map.get(), object.flags);
    }
    auto map = TRY(make_map(saved));
    if ((object.flags & O_ACCMODE) == O_RDWR) return map;
    return open_again(map.get(), object.flags);
}

}  // namespace cairn::restart
