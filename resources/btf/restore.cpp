// Descriptions of types (BTF, bpf(2)): loaded again. CAP_BPF is asked for, and for a second open description
// of one of them CAP_SYS_ADMIN.
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "resources/restore/opening.h"

namespace cairn::restart {

namespace {

std::unexpected<Error> not_allowed() {
    return fail_code(
        ExitCode::refused,
        "a restored program has a description of types (BTF), which root alone can load: restart "
        "as root (CAP_BPF, CAP_SYS_ADMIN)");
}

Result<Fd> load_types(const schema::Btf& saved) {
    // Images aren't trusted: the kernel checks what it is given, but not where our 32 bits come from.
    if (saved.types.size() > std::numeric_limits<std::uint32_t>::max())
        return fail_code(ExitCode::damaged, "a BTF has the impossible length {}", saved.types.size());
    bpf_attr asked{};
    asked.btf = reinterpret_cast<std::uintptr_t>(saved.types.data());
    asked.btf_size = static_cast<std::uint32_t>(saved.types.size());
    Fd btf(static_cast<int>(::syscall(SYS_bpf, BPF_BTF_LOAD, &asked, sizeof asked)));
    if (btf) return btf;
    if (errno == EPERM) return not_allowed();
    // Later kernels know more kinds of types.
    if (errno == EINVAL || errno == E2BIG)
        return fail_code(ExitCode::refused,
                         "this kernel doesn't take a description of types (BTF) that a restored program has "
                         "loaded: restart under the checkpoint's kernel or a later one");
    return fail_errno("bpf: BPF_BTF_LOAD");
}

// Another open description of this one.
Result<Fd> open_types(int btf) {
    bpf_btf_info info{};
    bpf_attr asked{};
    asked.info.bpf_fd = static_cast<std::uint32_t>(btf);
    asked.info.info_len = sizeof info;
    asked.info.info = reinterpret_cast<std::uintptr_t>(&info);
    if (::syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &asked, sizeof asked) != 0)
        return fail_errno("bpf: BPF_OBJ_GET_INFO_BY_FD");
    bpf_attr wanted{};
    wanted.btf_id = info.id;
    Fd again(static_cast<int>(::syscall(SYS_bpf, BPF_BTF_GET_FD_BY_ID, &wanted, sizeof wanted)));
    if (!again && errno == EPERM) return not_allowed();
    if (!again) return fail_errno("bpf: BPF_BTF_GET_FD_BY_ID");
    return again;
}

}  // namespace

Result<Fd> open_btf(Opening& opening, const schema::Object& object, const schema::Btf& saved) {
    // Its first open description has the types.
    const auto first = std::ranges::find_if(opening.objects.objects, [&](const schema::Object& each) {
        const auto* other = each.get<schema::Btf>();
        return other != nullptr && other->btf == saved.btf;
    });
    if (first->id == object.id) return load_types(saved);
    const auto btf = TRY(opening.opened.lend(first->id));
    if (!btf) return fail("the first descriptor of this BTF isn't open");
    return open_types(btf.get());
}

}  // namespace cairn::restart
