#include "restart/rebuild/environment.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "common/agent.h"
#include "common/ptrace/remote_call.h"
#include "common/ptrace/thread.h"
#include "common/region.h"
#include "restart/rebuild/hand.h"
#include "restart/rebuild/tracee.h"

namespace cairn::restart {
namespace {

constexpr std::uint64_t string_page = 4096;
// execve(2) allows 6 MiB of strings at the usual stack limit; a program may have put in more.
constexpr std::size_t most_variables = 1 << 20, longest_variable = 8 << 20;

std::string_view name_of(std::string_view entry) {
    return entry.substr(0, entry.find('='));
}

// Up to the end of a page at a time: the next one may not be mapped.
Result<std::string> read_string(pid_t pid, ProgramAddress at) {
    std::string text;
    while (text.size() < longest_variable) {
        std::array<char, string_page> piece{};
        const auto bytes =
            std::as_writable_bytes(std::span(piece)).first(string_page - at.value() % string_page);
        CHECK_OK(ptrace::read_memory(pid, at, bytes));
        const std::string_view read(piece.data(), bytes.size());
        const auto end = read.find('\0');
        text += read.substr(0, end);
        if (end != std::string_view::npos) return text;
        at = at + bytes.size();
    }
    return fail("a variable is longer than {} bytes", longest_variable);
}

Result<std::vector<std::uint64_t>> read_pointers(pid_t pid, std::uint64_t list) {
    std::vector<std::uint64_t> pointers;
    // environ is null after clearenv(3).
    for (ProgramAddress at(list); list != 0; at = at + sizeof(std::uint64_t)) {
        const auto pointer = TRY(ptrace::read_object<std::uint64_t>(pid, at));
        if (pointer == 0) break;
        if (pointers.size() == most_variables)
            return fail("there are more than {} variables", most_variables);
        pointers.push_back(pointer);
    }
    return pointers;
}

// New memory, as if the program had mapped it: nothing that it has is written over. Who has asked getenv(3)
// before has a pointer into the old strings, and a thread may stand in the middle of a walk through the old
// list.
Result<ProgramAddress> map_memory(const Rebuilding& rebuilding, std::uint64_t size) {
    const auto call_at = TRY(call_instruction(rebuilding));
    const std::array<std::uint64_t, 6> map = {
        0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~std::uint64_t{0}, 0};
    const auto mapped = TRY(ptrace::remote_call(rebuilding.pid, call_at, SYS_mmap, map));
    if (mapped < 0 && mapped > -4096)
        return fail("no memory for {} bytes of variables: {}", size,
                    std::strerror(static_cast<int>(-mapped)));
    return ProgramAddress(static_cast<std::uint64_t>(mapped));
}

Result<> change_in(const Rebuilding& rebuilding, std::span<const EnvironmentChange> changes) {
    const pid_t pid = rebuilding.pid;
    const ProgramAddress door = rebuilding.process->door;
    auto head = TRY(ptrace::read_object<std::array<std::uint32_t, 4>>(pid, door));
    if (head[2] != agent_version || head[3] != sizeof(Door))
        return fail_code(ExitCode::refused, "it has the hijack library of another version of cairn");
    const auto at = TRY(ptrace::read_object<std::uint64_t>(pid, door + offsetof(Door, environment)));
    if (at == 0) return fail_code(ExitCode::refused, "its libc has no `environ`");
    const ProgramAddress variable(at);
    const auto first = TRY(ptrace::read_object<std::uint64_t>(pid, variable));
    const auto pointers = TRY(read_pointers(pid, first));
    std::vector<std::string> entries;
    for (const std::uint64_t pointer : pointers)
        if (auto text = read_string(pid, ProgramAddress(pointer)); text)
            entries.push_back(std::move(*text));
        else
            return std::unexpected(std::move(text.error()));
    const ChangedEnvironment changed = change(entries, changes);

    // The list with its null, then the new strings. setenv(3) makes itself another list as soon as it meets
    // one that it hasn't made, and never frees a string: strings may be putenv(3)'s, which are the program's.
    const std::size_t count = changed.stay.size() + changed.put.size() + 1;
    std::size_t size = count * sizeof(std::uint64_t);
    for (const std::string& text : changed.put) size += text.size() + 1;
    size = (size + string_page - 1) / string_page * string_page;
    const ProgramAddress base = TRY(map_memory(rebuilding, size));
    std::vector<std::uint64_t> list;
    for (const std::size_t index : changed.stay) list.push_back(pointers[index]);
    std::string strings;
    for (const std::string& text : changed.put) {
        list.push_back((base + count * sizeof(std::uint64_t) + strings.size()).value());
        strings += text;
        strings += '\0';
    }
    list.push_back(0);
    CHECK_OK(ptrace::write_memory(pid, base, std::as_bytes(std::span(list))));
    CHECK_OK(
        ptrace::write_memory(pid, base + count * sizeof(std::uint64_t), std::as_bytes(std::span(strings))));
    return ptrace::write_object(pid, variable, base.value());
}

}  // namespace

Result<EnvironmentChange> read_change(std::string_view text, bool unset) {
    const std::string_view option = unset ? "--unset" : "--env";
    const std::string name(name_of(text));
    if (name.empty() || unset == text.contains('='))
        return fail_code(ExitCode::usage, "{} {}: {}", option, text, unset ? "NAME" : "NAME=VALUE");
    for (const std::string_view own : {env_region, env_gate, env_library})
        if (name == own)
            return fail_code(ExitCode::usage, "{} {}: this variable keeps a program in its session", option,
                             name);
    return EnvironmentChange{name, unset ? std::string() : std::string(text)};
}

ChangedEnvironment change(std::span<const std::string> entries, std::span<const EnvironmentChange> changes) {
    ChangedEnvironment result;
    for (std::size_t i = 0; i < entries.size(); ++i)
        if (std::ranges::none_of(changes, [&](const auto& each) { return each.name == name_of(entries[i]); }))
            result.stay.push_back(i);
    for (auto each = changes.begin(); each != changes.end(); ++each) {
        const bool later =
            std::any_of(each + 1, changes.end(), [&](const auto& other) { return other.name == each->name; });
        if (!later && !each->text.empty()) result.put.push_back(each->text);
    }
    return result;
}

Result<> may_change_environment(const schema::Process& process) {
    if (process.door.value() != 0) return {};
    return fail_code(
        ExitCode::refused,
        "process {} ({}) has no libcairn.so, so where its environment is isn't known: restart without "
        "--env and --unset",
        process.pid, process.name);
}

Result<> change_environment(const Rebuilding& rebuilding, std::span<const EnvironmentChange> changes) {
    if (changes.empty()) return {};
    auto done = change_in(rebuilding, changes);
    if (!done)
        return std::unexpected(std::move(done.error())
                                   .in(fmt::format("process {} ({}): its environment can't be changed",
                                                   rebuilding.process->pid, rebuilding.process->name)));
    return {};
}

}  // namespace cairn::restart
