// `cairn inspect PID`: one process of an image, with its threads, areas and descriptors.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/user.h>

#include <csignal>
#include <cstring>
#include <map>

#include "cli/inspect_show.h"
#include "cli/inspect_text.h"
#include "common/schema/fields.h"

namespace cairn::inspect {
namespace {

using Side = Table::Side;

std::string permissions(const schema::Area& area) {
    const bool shared = area.kind == schema::AreaKind::file_shared ||
                        area.kind == schema::AreaKind::shared_memory || area.kind == schema::AreaKind::region;
    return fmt::format("{}{}{}{}", (area.prot & PROT_READ) != 0 ? 'r' : '-',
                       (area.prot & PROT_WRITE) != 0 ? 'w' : '-', (area.prot & PROT_EXEC) != 0 ? 'x' : '-',
                       shared ? 's' : 'p');
}

std::string area_words(const schema::Area& area) {
    std::string words;
    const auto add = [&](bool is, std::string_view word) {
        if (is) words += fmt::format("{}{}", words.empty() ? "" : ",", word);
    };
    add(area.grows_down, "grows down");
    add(area.no_reserve, "no reserve");
    add(area.locked, "locked");
    add(area.dont_fork, "not forked");
    add(area.wipe_on_fork, "wiped on fork");
    add(area.dont_dump, "not dumped");
    add(area.huge, "huge");
    add(area.no_huge, "no huge");
    add(area.mergeable, "mergeable");
    add(area.sealed.value_or(false), "sealed");
    if (area.protection_key) add(true, fmt::format("key {}", *area.protection_key));
    add(area.droppable, "droppable");
    for (const auto& part : area.borrowed.value_or(std::vector<schema::Borrowed>())) {
        std::uint64_t bytes = 0;
        for (const auto& run : part.pages) bytes += run.length;
        add(true, part.file ? fmt::format("{} as in {}", human_size(bytes), *part.file)
                            : fmt::format("{} of {}'s", human_size(bytes), part.from));
    }
    add(!area.guards.empty(), fmt::format("{} guards", area.guards.size()));
    return words;
}

std::string path_of(const Checkpoint& checkpoint, const LoadedProcess& process, std::int64_t id) {
    const schema::Object* object = checkpoint.object(process.part, id);
    if (object == nullptr) return id < 0 ? "-" : fmt::format("object {}", id);
    return printable(object->path);
}

// si_pid is the same for kill(2), tgkill(2), sigqueue(3) and SIGCHLD.
std::string pending_text(const std::vector<schema::Bytes>& list) {
    std::string text;
    for (const schema::Bytes& bytes : list) {
        siginfo_t info{};
        if (!bytes.empty()) std::memcpy(&info, bytes.data(), std::min(bytes.size(), sizeof info));
        text += fmt::format("{}{}", text.empty() ? "" : " ", signal_name(info.si_signo));
        if (info.si_code <= 0 && info.si_code != SI_TIMER && info.si_pid > 0)
            text += fmt::format(" (from {})", info.si_pid);
    }
    return text.empty() ? "-" : text;
}

std::string policy_name(std::int32_t policy) {
    switch (policy) {
        case 0:
            return "other";
        case 1:
            return "fifo";
        case 2:
            return "rr";
        case 3:
            return "batch";
        case 5:
            return "idle";
        case 6:
            return "deadline";
        default:
            return fmt::format("{}", policy);
    }
}

std::string microseconds(std::int64_t us) {
    std::int64_t ns = 0;
    return __builtin_mul_overflow(us, 1000, &ns) ? fmt::format("{} us", us) : human_time(ns);
}

}  // namespace

std::string maps_text(const Checkpoint& checkpoint, const LoadedProcess& process) {
    Table table("  ", {Side::left, Side::left, Side::left, Side::right, Side::right, Side::left, Side::left});
    table.row({"ADDRESS", "PERM", "KIND", "MAPPED", "STORED", "NAME", "FLAGS"});
    for (const schema::Area& area : process.process.areas) {
        std::uint64_t stored = 0;
        for (const auto& run : area.pages) stored += run.length;
        std::string name = printable(area.name);
        if (name.empty() && area.object >= 0) name = path_of(checkpoint, process, area.object);
        table.row({fmt::format("{:012x}-{:012x}", area.start, area.end), permissions(area),
                   std::string(schema::name_of(area.kind)), human_size(area.end - area.start),
                   stored == 0 ? "-" : human_size(stored), name, area_words(area)});
    }
    table.row({"", "", "sum", human_size(process.mapped()), human_size(process.stored()), "", ""});
    return table.text();
}

std::string descriptors_text(const Checkpoint& checkpoint, const LoadedProcess& process) {
    std::map<std::int64_t, int> uses;  // in the whole part: who shares an open file description
    for (const LoadedProcess& each : checkpoint.processes)
        if (each.part == process.part)
            for (const auto& descriptor : each.process.descriptors) ++uses[descriptor.object];
    Table table("  ", {Side::right, Side::left, Side::right, Side::left});
    table.row({"FD", "EXEC", "OBJECT", "WHAT"});
    for (const schema::Descriptor& descriptor : process.process.descriptors) {
        const schema::Object* object = checkpoint.object(process.part, descriptor.object);
        std::string what = object == nullptr ? "(its objects image was not read)" : describe(*object);
        if (uses[descriptor.object] > 1)
            what += fmt::format(", shared by {} descriptors", uses[descriptor.object]);
        table.row({fmt::format("{}", descriptor.fd), descriptor.close_on_exec ? "close" : "keep",
                   fmt::format("{}", descriptor.object), what});
    }
    return table.text();
}

std::string signals_text(const schema::Process& process) {
    std::uint64_t handled = 0, ignored = 0;
    for (std::size_t i = 0; i < process.actions.size() && i < 64; ++i) {
        const std::uint64_t handler = process.actions[i].handler.value();
        if (handler == 1)
            ignored |= std::uint64_t{1} << i;
        else if (handler != 0)
            handled |= std::uint64_t{1} << i;
    }
    Table table("  ", {Side::left, Side::left});
    table.row({"handled", signal_set(handled)});
    table.row({"ignored", signal_set(ignored)});
    table.row({"pending", pending_text(process.pending)});
    for (const schema::Thread& thread : process.threads) {
        if (thread.blocked != 0)
            table.row({fmt::format("blocked by {}", thread.tid), signal_set(thread.blocked)});
        if (!thread.pending.empty())
            table.row({fmt::format("pending for {}", thread.tid), pending_text(thread.pending)});
    }
    static constexpr const char* clocks[] = {"real", "virtual", "prof"};
    for (std::size_t i = 0; i < process.itimers.size() && i < std::size(clocks); ++i)
        if (process.itimers[i].left_us != 0)
            table.row({fmt::format("itimer {}", clocks[i]),
                       fmt::format("{} left, every {}", microseconds(process.itimers[i].left_us),
                                   microseconds(process.itimers[i].interval_us))});
    for (const schema::PosixTimer& timer : process.timers)
        table.row({fmt::format("timer {}", timer.id),
                   fmt::format("clock {}, {}, {} left, every {}", timer.clock, signal_name(timer.signal),
                               human_time(timer.left), human_time(timer.interval))});
    return table.text();
}

// The system call that the thread was in, and how long it would still have slept.
std::string doing(const schema::Thread& thread) {
    if (thread.leader_dead) return "has exited";
    user_regs_struct registers{};
    if (thread.registers.size() != sizeof registers) return "?";
    std::memcpy(&registers, thread.registers.data(), sizeof registers);
    const auto call = static_cast<std::int64_t>(registers.orig_rax);
    std::string text = call < 0 ? fmt::format("runs at {:#x}", registers.rip) : call_name(call);
    if (thread.timeout_left >= 0) text += fmt::format(", {} left", human_time(thread.timeout_left));
    return text;
}

std::string threads_text(const schema::Process& process) {
    Table table("  ", {Side::right, Side::left, Side::left, Side::right, Side::left});
    table.row({"TID", "NAME", "POLICY", "NICE", "SYSTEM CALL"});
    for (const schema::Thread& thread : process.threads)
        table.row({fmt::format("{}", thread.tid), printable(thread.name), policy_name(thread.policy),
                   fmt::format("{}", thread.nice), doing(thread)});
    return table.text();
}

std::string process_details(const Checkpoint& checkpoint, const LoadedProcess& each, Show show) {
    const schema::Process& process = each.process;
    std::string text =
        fmt::format("process {} ({}): {}\n", process.pid, printable(process.name), printable(each.command()));
    Table facts("  ", {Side::left, Side::left});
    facts.row({"image", fmt::format("{}, {}", printable(each.path), human_size(each.reader.file_size()))});
    if (process.run == schema::Run::zombie) {
        facts.row({"status", fmt::format("{:#x}, not yet waited for", process.exit_status)});
        return text + facts.text();
    }
    if (process.run == schema::Run::stopped) facts.row({"stopped", "by " + signal_name(process.stop_signal)});
    facts.row({"executable", path_of(checkpoint, each, process.executable)});
    if (process.mounts)
        facts.row({"cwd", printable(process.mounts->cwd) + " (in a mount namespace of its own)"});
    else
        facts.row({"cwd", path_of(checkpoint, each, process.cwd)});
    if (process.root >= 0) facts.row({"root", path_of(checkpoint, each, process.root)});
    facts.row({"ids", fmt::format("uid {} {} {} {}, gid {} {} {} {}, umask {:03o}", process.uids[0],
                                  process.uids[1], process.uids[2], process.uids[3], process.gids[0],
                                  process.gids[1], process.gids[2], process.gids[3], process.umask)});
    text += facts.text();
    if (show.maps) text += " memory\n" + maps_text(checkpoint, each);
    if (show.fds) text += " descriptors\n" + descriptors_text(checkpoint, each);
    if (show.signals) text += " signals and timers\n" + signals_text(process);
    if (show.threads) text += " threads\n" + threads_text(process);
    return text;
}

}  // namespace cairn::inspect
