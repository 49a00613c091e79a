// Descriptions of types (BTF), which bpf(2) knows since Linux 4.18: BPF_OBJ_GET_INFO_BY_FD gives back what a
// program has loaded, byte by byte, and nothing changes it. /proc/PID/fdinfo/N has the kernel's id
// (`btf_id`), which tells whether two open descriptions are of the same one; a restart gets another id. The
// kernel's own, of itself and its modules, have ids since Linux 5.11: before that no descriptor leads to one.
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "resources/capture/table.h"

namespace cairn::capture {

namespace {

struct BtfsFound {
    std::map<std::uint32_t, std::int64_t> numbers;  // Btf::btf by the kernel's id
};

// `info` says where bytes and name shall be put. A kernel before 5.11 refuses one that asks for a name.
Result<> ask_btf(int fd, bpf_btf_info& info) {
    bpf_attr asked{};
    asked.info.bpf_fd = static_cast<std::uint32_t>(fd);
    asked.info.info_len = sizeof info;
    asked.info.info = reinterpret_cast<std::uintptr_t>(&info);
    if (::syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &asked, sizeof asked) != 0)
        return fail_errno("bpf: BPF_OBJ_GET_INFO_BY_FD");
    return {};
}

// A restart wants CAP_BPF to load it, and CAP_SYS_ADMIN, as this does, for a second open description of it.
// Older kernels refuse an ordinary user the question above as well (kernel.unprivileged_bpf_disabled).
Result<> check_rights(std::uint32_t id) {
    bpf_attr wanted{};
    wanted.btf_id = id;
    const Fd again(static_cast<int>(::syscall(SYS_bpf, BPF_BTF_GET_FD_BY_ID, &wanted, sizeof wanted)));
    if (!again && errno == EPERM)
        return fail_code(ExitCode::refused,
                         "is a description of types (BTF), which root alone can save (CAP_BPF, "
                         "CAP_SYS_ADMIN); close it before a checkpoint");
    if (!again) return fail_errno("bpf: BPF_BTF_GET_FD_BY_ID");
    return {};
}

// The types of another kernel have other numbers, by which the program may have chosen already.
Result<> refuse_kernels(int fd) {
    char name[64] = "";  // MODULE_NAME_LEN, with its NUL
    bpf_btf_info info{};
    info.name = reinterpret_cast<std::uintptr_t>(name);
    info.name_len = sizeof name;
    CHECK_OK(ask_btf(fd, info));
    return fail_code(
        ExitCode::refused,
        "is the description of the kernel's own types (BTF of {}), which can't be saved, because "
        "another kernel has others; close it before a checkpoint",
        name);
}

}  // namespace

Result<> describe_btf(Table& table, const Description& found, schema::Object& object) {
    const auto id = static_cast<std::uint32_t>(info_number(found.info, "btf_id"));
    CHECK_OK(check_rights(id));
    bpf_btf_info info{};
    CHECK_OK(ask_btf(found.fd(), info));
    if (info.kernel_btf != 0) return refuse_kernels(found.fd());
    auto& numbers = table.of<BtfsFound>().numbers;
    const auto [number, is_new] = numbers.try_emplace(id, static_cast<std::int64_t>(numbers.size()));
    schema::Btf saved;
    saved.btf = number->second;
    if (is_new) {
        saved.types.resize(info.btf_size);  // 16 MiB at most (BTF_MAX_SIZE)
        info = {};
        info.btf = reinterpret_cast<std::uintptr_t>(saved.types.data());
        info.btf_size = static_cast<std::uint32_t>(saved.types.size());
        CHECK_OK(ask_btf(found.fd(), info));
    }
    object.what = std::move(saved);
    return {};
}

}  // namespace cairn::capture
