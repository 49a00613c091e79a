#include "restart/rebuild/filters.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/ptrace/remote_call.h"
#include "common/seccomp.h"
#include "restart/rebuild/tracee.h"

namespace cairn::restart {
namespace {

using seccomp::Code;
using seccomp::Way;

class Installer {
  public:
    Installer(const schema::Process& process, std::span<const ProgramAddress> programs,
              ProgramAddress call_at)
        : process_(process), programs_(programs), call_at_(call_at) {
        for (const auto& filter : process.filters) {
            auto& code = codes_.emplace_back(filter.code.size() / sizeof(sock_filter));
            std::memcpy(code.data(), filter.code.data(), code.size() * sizeof(sock_filter));
        }
    }

    // Number `index` of this thread's filters, for it and, if `together`, for its siblings.
    Result<Way> install(const schema::Thread& thread, KernelId tid, std::size_t index, bool together) {
        std::vector<Code> before;
        for (std::size_t i = 0; i < index; ++i)
            before.push_back(codes_[static_cast<std::size_t>(thread.filters[i])]);
        const auto number = static_cast<std::size_t>(thread.filters[index]);
        const auto step = seccomp::next_step(before, process_.filters[number].log, together);
        if (step.way == Way::none)
            return fail_code(ExitCode::refused,
                             "process {} ({}): a seccomp filter of thread {} can't be installed again: the "
                             "one before it forbids it",
                             process_.pid, process_.name, thread.tid);
        std::array<std::uint64_t, 6> arguments = {};
        std::ranges::transform(step.call.arguments, arguments.begin(), &seccomp::Argument::value);
        arguments[2] = programs_[number].value();
        auto result = TRY(ptrace::remote_call(tid.number(), call_at_, step.call.number, arguments));
        // TSYNC answers with a thread that has a filter of another kind
        if (result != 0)
            return fail(
                "process {} ({}): a seccomp filter of thread {} can't be installed again ({}): {}{}",
                process_.pid, process_.name, thread.tid, step.call.name,
                result > 0 ? fmt::format("thread {} has another", result)
                           : std::strerror(static_cast<int>(-result)),
                result == -EACCES ? "; it was installed by who had CAP_SYS_ADMIN: restart as root" : "");
        return step.way;
    }

  private:
    const schema::Process& process_;
    std::span<const ProgramAddress> programs_;
    ProgramAddress call_at_;
    std::vector<Code> codes_;
};

Result<> check_indexes(const schema::Process& process) {
    for (const auto& thread : process.threads)
        for (const auto number : thread.filters)
            if (number < 0 || static_cast<std::size_t>(number) >= process.filters.size())
                return fail_code(ExitCode::damaged, "process {}: thread {} has seccomp filter {} of {}",
                                 process.pid, thread.tid, number, process.filters.size());
    return {};
}

// How many of the first filters all threads have.
std::size_t common_filters(const schema::Process& process, const schema::Thread& first) {
    std::size_t count = first.filters.size();
    for (const auto& thread : process.threads) {
        if (thread.leader_dead) continue;
        const auto differs = std::ranges::mismatch(first.filters, thread.filters).in1;
        count = std::min(count, static_cast<std::size_t>(differs - first.filters.begin()));
    }
    return count;
}

bool is_filtered(const schema::Thread& thread) {
    return !thread.leader_dead && (!thread.filters.empty() || thread.seccomp_strict.value_or(false));
}

// Nobody is asked about what the restart calls from here on until it lets the thread go. Where that can't be
// had the checkpoint has asked the filters about these calls, unless it could suspend them itself.
Result<> suspend(const schema::Process& process, const schema::Thread& thread, KernelId tid) {
    const auto done = ptrace::suspend_filters(tid.number(), tracee_options);
    if (done) return {};
    using seccomp::any;
    const std::array<seccomp::Call, 2> calls = {
        seccomp::Call{"munmap", SYS_munmap, {any, any}},
        seccomp::Call{"exit", SYS_exit, {0, any, any, any, any, any}}};
    bool allowed = !thread.seccomp_strict.value_or(false);
    for (const auto number : thread.filters) {
        const auto& bytes = process.filters[static_cast<std::size_t>(number)].code;
        Code code(bytes.size() / sizeof(sock_filter));
        std::memcpy(code.data(), bytes.data(), code.size() * sizeof(sock_filter));
        for (const auto& call : calls) allowed = allowed && seccomp::allows(code, call);
    }
    if (allowed) return {};
    return fail_code(
        ExitCode::refused,
        "process {} ({}): thread {} is in seccomp's strict mode or has a filter that forbids what "
        "a restart calls in it, and can't be freed of it for that: {}; restart it as root, and "
        "outside of any filter",
        process.pid, process.name, thread.tid, done.error().what);
}

Result<> give_right_back(const schema::Process& process, const schema::Thread& thread, KernelId tid,
                         ProgramAddress call_at, ProgramAddress scratch) {
    struct {
        __user_cap_header_struct header;
        __user_cap_data_struct data[2];
    } wanted = {{_LINUX_CAPABILITY_VERSION_3, 0}, {}};
    for (int word = 0; word < 2; ++word)
        wanted.data[word] = {static_cast<std::uint32_t>(thread.cap_effective >> (32 * word)),
                             static_cast<std::uint32_t>(thread.cap_permitted >> (32 * word)),
                             static_cast<std::uint32_t>(thread.cap_inheritable >> (32 * word))};
    CHECK_OK(ptrace::write_object(tid.number(), scratch, wanted));
    const std::array<std::uint64_t, 2> arguments = {scratch.value(),
                                                    (scratch + offsetof(decltype(wanted), data)).value()};
    const auto result = TRY(ptrace::remote_call(tid.number(), call_at, SYS_capset, arguments));
    if (result == 0) return {};
    return fail("process {} ({}): thread {} can't give up CAP_SYS_ADMIN again: {}", process.pid, process.name,
                thread.tid, std::strerror(static_cast<int>(-result)));
}

// The last that such a thread is made to call by itself.
Result<> make_strict(const schema::Process& process, const schema::Thread& thread, KernelId tid,
                     ProgramAddress call_at) {
    const std::array<std::uint64_t, 2> arguments = {PR_SET_SECCOMP, SECCOMP_MODE_STRICT};
    const auto result = TRY(ptrace::remote_call(tid.number(), call_at, SYS_prctl, arguments));
    if (result == 0) return {};
    return fail("process {} ({}): thread {} can't be in seccomp's strict mode again: {}", process.pid,
                process.name, thread.tid, std::strerror(static_cast<int>(-result)));
}

}  // namespace

bool borrows_right(const schema::Thread& thread) {
    return !thread.filters.empty() && !thread.no_new_privs &&
           (thread.cap_effective >> CAP_SYS_ADMIN & 1) == 0;
}

Result<> install_filters(const schema::Process& process, std::span<const ThreadIds> threads,
                         std::span<const ProgramAddress> programs, ProgramAddress call_at,
                         ProgramAddress scratch) {
    if (std::ranges::none_of(process.threads, is_filtered)) return {};
    CHECK_OK(check_indexes(process));
    for (std::size_t i = 0; i < process.threads.size(); ++i)
        if (is_filtered(process.threads[i])) CHECK_OK(suspend(process, process.threads[i], threads[i].now));
    Installer installer(process, programs, call_at);
    // Who synchronizes gives its no_new_privs to the others: one that has none, if there is one.
    const auto living = [](const schema::Thread& thread) { return !thread.leader_dead; };
    auto first = std::ranges::find_if(process.threads, [&](const schema::Thread& thread) {
        return living(thread) && !thread.no_new_privs;
    });
    if (first == process.threads.end()) first = std::ranges::find_if(process.threads, living);
    if (first == process.threads.end()) return {};
    const auto first_index = static_cast<std::size_t>(first - process.threads.begin());
    const std::size_t common = common_filters(process, *first);
    // What they have in common is one chain of the kernel's, as it most likely was: who synchronizes its
    // threads later (SECCOMP_FILTER_FLAG_TSYNC) may do so only if theirs are ancestors of its own.
    std::size_t together = 0;
    bool alone = false;  // the first thread has one more than are synchronized
    while (together < common && !alone) {
        auto way = TRY(installer.install(*first, threads[first_index].now, together, true));
        alone = way != Way::synchronized;
        if (!alone) ++together;
    }
    for (std::size_t i = 0; i < process.threads.size(); ++i) {
        const auto& thread = process.threads[i];
        if (thread.leader_dead) continue;
        for (std::size_t n = together + (alone && i == first_index ? 1 : 0); n < thread.filters.size(); ++n)
            CHECK_OK(installer.install(thread, threads[i].now, n, false));
        if (borrows_right(thread))
            CHECK_OK(give_right_back(process, thread, threads[i].now, call_at, scratch));
        if (thread.seccomp_strict.value_or(false))
            CHECK_OK(make_strict(process, thread, threads[i].now, call_at));
    }
    return {};
}

}  // namespace cairn::restart
