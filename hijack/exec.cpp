#include "hijack/exec.h"

#include "hijack/raw.h"

namespace cairn::hijack {

bool foreign_allowed(char* const* environment) {
    const auto allows = [](char* const* where) {
        const char* value = variable(where, "CAIRN_FOREIGN");
        return value != nullptr && std::strcmp(value, "allow") == 0;
    };
    return allows(environment) || allows(environ);
}

// access(2) tells what may be read without the capabilities that an exec takes away, and open(2) what
// Landlock says. The loader makes both calls itself, so that a filter under which programs are executed lets
// them through.
bool loader_finds_library() {
    if (resident.library_path[0] == '\0') return true;
    const auto denied = [](long answer) {
        return answer == -ENOENT || answer == -ENOTDIR || answer == -EACCES;
    };
    if (denied(raw::call(SYS_access, resident.library_path, R_OK))) return false;
    const long opened = raw::call(SYS_openat, AT_FDCWD, resident.library_path, O_RDONLY | O_CLOEXEC, 0);
    if (!raw::failed(opened)) raw::call(SYS_close, opened);
    return !denied(opened);
}

Membership membership_of(const ProgramCheck& check, char* const* environment) {
    if (!check.member() || (check.without_library() && foreign_allowed(environment)))
        return Membership::outside;
    return check.kind != ProgramKind::other_loader && loader_finds_library() ? Membership::member
                                                                             : Membership::without_preload;
}

void report_refusal(const ProgramCheck& check) {
    char line[sizeof check.file + 256];
    // A path may hold escape sequences, and half a letter at its end.
    char file[sizeof check.file] = {};
    for (std::size_t i = 0; i < sizeof check.file - 1 && check.file[i] != '\0'; ++i)
        file[i] = check.file[i] >= ' ' && check.file[i] < 0x7f ? check.file[i] : '?';
    std::size_t size = 0;
    for (const char* part : {"cairn: exec of ", static_cast<const char*>(file), " refused: ", check.reason,
                             " (CAIRN_FOREIGN=allow runs it outside the computation)\n"}) {
        const std::size_t length = std::strlen(part);
        if (size + length > sizeof line) break;
        std::memcpy(line + size, part, length);
        size += length;
    }
    raw::call(SYS_write, STDERR_FILENO, line, size);
}

ExecMark::ExecMark(const ProgramCheck* outside) : slot_(own_slot_or_new()) {
    if (slot_ == no_slot) return;
    Slot& slot = region()->slots[slot_];
    before_ = slot.state.load(std::memory_order_acquire);
    // Our own command, and what `cairn outside` becomes, is none of the session's processes.
    if (outside != nullptr && outside->kind == ProgramKind::own_tool) {
        release_slot(*region(), slot_);
        announce_change(*region());
        given_back_ = true;
        return;
    }
    if (outside != nullptr) {
        explain(slot, outside->reason);
        slot.state.store(SlotState::running, std::memory_order_release);
        return;
    }
    slot.state.store(SlotState::exec, std::memory_order_release);
}

void ExecMark::failed() const {
    if (slot_ == no_slot) return;
    if (given_back_) {
        (void)own_slot_or_new();
        return;
    }
    Slot& slot = region()->slots[slot_];
    slot.foreign[0] = '\0';
    slot.state.store(before_, std::memory_order_release);
}

}  // namespace cairn::hijack
