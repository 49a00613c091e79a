// The notes of a core file, in the order in which the kernel writes them (fs/binfmt_elf.c,
// write_note_info()): the first thread is who a debugger begins with, and what is said of the process stands
// behind its registers.
#include <elf.h>
#include <signal.h>
#include <sys/procfs.h>
#include <sys/user.h>

#include <algorithm>
#include <cstring>

#include "cli/inspect_core.h"

namespace cairn::inspect {
namespace {

constexpr std::size_t note_alignment = 4;

template <class T>
void append(std::string& text, const T& value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void pad(std::string& text) {
    text.append((note_alignment - text.size() % note_alignment) % note_alignment, '\0');
}

void add_note(std::string& notes, const char* owner, std::uint32_t type, std::string_view content) {
    append(notes, Elf64_Nhdr{static_cast<Elf64_Word>(std::strlen(owner) + 1),
                             static_cast<Elf64_Word>(content.size()), type});
    notes.append(owner, std::strlen(owner) + 1);
    pad(notes);
    notes += content;
    pad(notes);
}

template <class T>
void add_struct(std::string& notes, std::uint32_t type, const T& content) {
    add_note(notes, "CORE", type, {reinterpret_cast<const char*>(&content), sizeof content});
}

std::string_view view(const schema::Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t mask_of(const std::vector<schema::Bytes>& pending) {
    std::uint64_t mask = 0;
    for (const auto& each : pending) {
        siginfo_t info{};
        std::memcpy(&info, each.data(), std::min(each.size(), sizeof info));
        if (info.si_signo >= 1 && info.si_signo <= 64) mask |= std::uint64_t{1} << (info.si_signo - 1);
    }
    return mask;
}

int signal_of(const schema::Process& process) {
    return process.run == schema::Run::stopped ? process.stop_signal : 0;
}

prstatus_t status_of(const schema::Process& process, const schema::Thread& thread) {
    prstatus_t status{};
    status.pr_info.si_signo = signal_of(process);
    status.pr_cursig = static_cast<short>(signal_of(process));
    status.pr_sigpend = mask_of(thread.pending);
    status.pr_sighold = thread.blocked;
    status.pr_pid = thread.tid.number();
    status.pr_ppid = process.ppid.number();
    status.pr_pgrp = process.pgid.number();
    status.pr_sid = process.sid.number();
    constexpr std::int64_t second = 1'000'000;
    status.pr_utime = {process.cpu_user_us / second, process.cpu_user_us % second};
    status.pr_stime = {process.cpu_system_us / second, process.cpu_system_us % second};
    status.pr_cutime = {process.cpu_children_user_us / second, process.cpu_children_user_us % second};
    status.pr_cstime = {process.cpu_children_system_us / second, process.cpu_children_system_us % second};
    std::memcpy(&status.pr_reg, thread.registers.data(),
                std::min(thread.registers.size(), sizeof status.pr_reg));
    status.pr_fpvalid = thread.xstate.size() >= sizeof(user_fpregs_struct) ? 1 : 0;
    return status;
}

prpsinfo_t process_info(const LoadedProcess& loaded) {
    const auto& process = loaded.process;
    prpsinfo_t info{};
    const bool stopped = process.run == schema::Run::stopped;
    info.pr_state = static_cast<char>(stopped ? 3 : 1);  // index in "RSDTZW"
    info.pr_sname = stopped ? 'T' : 'S';
    info.pr_nice = static_cast<char>(process.threads.empty() ? 0 : process.threads.front().nice);
    info.pr_uid = process.uids[0];
    info.pr_gid = process.gids[0];
    info.pr_pid = process.pid.number();
    info.pr_ppid = process.ppid.number();
    info.pr_pgrp = process.pgid.number();
    info.pr_sid = process.sid.number();
    process.name.copy(info.pr_fname, sizeof info.pr_fname - 1);
    loaded.command().copy(info.pr_psargs, sizeof info.pr_psargs - 1);
    return info;
}

// NT_FILE: how many, of what page size, start, end and offset in pages of each, and then their names.
std::string mapped_files(const Checkpoint& checkpoint, const LoadedProcess& loaded) {
    constexpr std::uint64_t page_size = 4096;
    std::string places, names;
    std::uint64_t count = 0;
    for (const auto& area : loaded.process.areas) {
        const bool of_file =
            area.kind == schema::AreaKind::file_private || area.kind == schema::AreaKind::file_shared;
        const auto* object = of_file ? checkpoint.object(loaded.part, area.object) : nullptr;
        if (object == nullptr) continue;
        ++count;
        append(places, area.start.value());
        append(places, area.end.value());
        append(places, area.file_offset / page_size);
        names += object->path;
        names += '\0';
    }
    std::string all;
    append(all, count);
    append(all, page_size);
    return all + places + names;
}

// Debuggers expect the whole area, of which an image leaves out zeros at the end.
void add_floating_point(std::string& notes, const schema::Thread& thread) {
    if (thread.xstate.size() < sizeof(user_fpregs_struct)) return;
    add_note(notes, "CORE", NT_FPREGSET, view(thread.xstate).substr(0, sizeof(user_fpregs_struct)));
    auto area = thread.xstate;
    if (thread.xstate_size) area.resize(*thread.xstate_size);
    add_note(notes, "LINUX", NT_X86_XSTATE, view(area));
}

}  // namespace

std::string core_notes(const Checkpoint& checkpoint, const LoadedProcess& loaded) {
    const auto& process = loaded.process;
    std::string notes;
    bool first = true;
    for (const auto& thread : process.threads) {
        if (thread.leader_dead) continue;
        add_struct(notes, NT_PRSTATUS, status_of(process, thread));
        if (std::exchange(first, false)) {
            add_struct(notes, NT_PRPSINFO, process_info(loaded));
            siginfo_t info{};
            info.si_signo = signal_of(process);
            add_struct(notes, NT_SIGINFO, info);
            add_note(notes, "CORE", NT_AUXV, view(process.layout.auxv));
            add_note(notes, "CORE", NT_FILE, mapped_files(checkpoint, loaded));
        }
        add_floating_point(notes, thread);
    }
    return notes;
}

}  // namespace cairn::inspect
