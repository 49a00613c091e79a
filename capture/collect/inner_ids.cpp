#include "capture/collect/inner_ids.h"

#include <cerrno>
#include <charconv>

namespace cairn::capture {
namespace {

Result<std::string> pid_namespace(pid_t pid, const char* file) {
    return proc::read_link(fmt::format("/proc/{}/ns/{}", pid, file));
}

// "pid:[4026532190]"
std::uint64_t number_in(const std::string& link) {
    std::uint64_t number = 0;
    const auto digits = link.find('[');
    if (digits != std::string::npos)
        std::from_chars(link.data() + digits + 1, link.data() + link.size(), number);
    return number;
}

// Of its pid namespace, and of that which its children are born into (unshare(2)), which has a file when it
// has a first process; kernels before 4.12 have no such files. Two links for each of thousands of processes,
// and more only where they say so.
Result<> look_at(StoppedProcess& process, const std::string& ours, bool tells_of_children) {
    const auto its = pid_namespace(process.living, "pid");
    if (!its) return {};  // the kernel shows nobody but root those of who isn't dumpable
    if (tells_of_children) {
        const auto of_children = pid_namespace(process.living, "pid_for_children");
        process.bears_inside = !of_children || *of_children != *its;
        if (!of_children && of_children.error().number == ENOENT)
            process.empty_pids = schema::EmptyPids::unborn;
    }
    if (*its == ours) return {};
    process.inner = TRY(proc::inner_ids(process.pid, process.pid));
    return {};
}

// A namespace's first process is the child of a member in the one around it, and all others descend from it.
Result<> check_place(pid_t pid, const proc::InnerIds& ids, pid_t parent, StoppedGroup& stopped) {
    const auto words = [&](const char* what) {
        return fail_code(ExitCode::refused, "{} is in a pid namespace of its own {}", proc::label(pid), what);
    };
    const auto found = stopped.processes().find(parent);
    const bool known = found != stopped.processes().end();
    const int depth = known && found->second.inner ? found->second.inner->depth() : 0;
    if (ids.own().pid == 1) {
        if (known && depth == ids.depth() - 1) return {};
        return words("whose maker has ended, or is none of the computation's, which can't be saved yet");
    }
    if (known && depth == ids.depth()) return {};
    return words(
        "that it has come into from outside (setns, nsenter), which can't be saved yet; start it from "
        "inside");
}

}  // namespace

Result<> find_inner_ids(StoppedGroup& stopped) {
    const auto ours = TRY(proc::read_link("/proc/self/ns/pid"));
    const bool tells_of_children = ::access("/proc/self/ns/pid_for_children", F_OK) == 0;
    for (auto& [pid, process] : stopped.processes()) CHECK_OK(look_at(process, ours, tells_of_children));
    for (auto& zombie : stopped.zombies()) {
        // The first process of one is a zombie only when nobody is left in there: its parent's counts.
        const auto parent = stopped.processes().find(zombie.stat.ppid);
        if (parent == stopped.processes().end() || !parent->second.inner) continue;
        auto ids = TRY(proc::inner_ids(zombie.pid, zombie.pid));
        if (ids.depth() > parent->second.inner->depth()) ids.in.erase(ids.in.begin());
        zombie.inner = std::move(ids);
    }
    for (const auto& [pid, process] : stopped.processes())
        if (process.inner) {
            CHECK_OK(check_place(pid, *process.inner, process.stat.ppid, stopped));
            for (const auto& thread : process.threads)
                if (thread.traced_by != 0)
                    return fail_code(ExitCode::refused,
                                     "{} is traced in a pid namespace of its own, which can't be saved yet",
                                     proc::label(pid));
        }
    for (const auto& zombie : stopped.zombies())
        if (zombie.inner) CHECK_OK(check_place(zombie.pid, *zombie.inner, zombie.stat.ppid, stopped));
    return {};
}

Result<> add_inner_ids(pid_t in_it, const std::optional<proc::InnerIds>& inner, schema::Process& image) {
    if (!inner) return {};
    schema::OwnPids own;
    own.pid = inner->own().pid;
    own.pgid = inner->own().pgid;
    own.sid = inner->own().sid;
    for (std::size_t i = 1; i < inner->in.size(); ++i) {
        if (!own.around) own.around.emplace();
        own.around->push_back({inner->in[i].pid, inner->in[i].pgid, inner->in[i].sid});
    }
    own.space = number_in(TRY(pid_namespace(in_it, "pid")));
    image.own_pids = own;
    return {};
}

Result<> add_inner_ids_of_children(StoppedProcess& process, StoppedGroup& stopped,
                                   const ToProgram& to_program, schema::Process& image) {
    if (!process.bears_inside) return {};
    if (process.threads.size() > 1)
        return fail_code(ExitCode::refused,
                         "{} has threads, and another pid namespace for its children than for itself "
                         "(unshare, setns), which can't be saved",
                         proc::label(process.pid));
    const auto of_children = pid_namespace(process.living, "pid_for_children");
    for (const auto& [pid, other] : stopped.processes()) {
        if (!of_children || !other.inner || other.inner->own().pid != 1 || other.stat.ppid != process.pid)
            continue;
        if (const auto its = pid_namespace(pid, "pid"); !its || *its != *of_children) continue;
        image.children_pids = to_program(KernelId(pid));
        return {};
    }
    // That nobody is in there any more is to be shown yet: whoever has come into it by setns(2) has such one.
    if (of_children) process.empty_pids = schema::EmptyPids::ended;
    image.empty_pids = process.empty_pids;
    return {};
}

}  // namespace cairn::capture
