#include "cli/stacks/living.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/inspect_text.h"
#include "cli/own_region.h"
#include "cli/stacks/capture.h"
#include "cli/stacks/python.h"
#include "cli/stacks/unwind.h"
#include "common/proc.h"
#include "common/region_mapping.h"
#include "common/wire/glance.h"

namespace cairn::stacks {
namespace {

constexpr std::chrono::seconds patience{10};
constexpr std::size_t head_size = 4096;

// Regions of other users' members, which the coordinator names (docs/protocol.md, region).
std::map<uid_t, std::string> other_regions(CoordinatorClient& coordinator,
                                           const std::vector<wire::Process>& members) {
    std::map<uid_t, std::string> regions;
    if (::geteuid() != 0) return regions;
    for (const auto& member : members) {
        const auto user = user_ids(member.real.number());
        if (!user || user->region_of(0) == 0 || !regions.try_emplace(user->region_of(0)).second) continue;
        const wire::AskRegion request{.user = user->region_of(0)};
        if (const auto done = coordinator.ask(pack(request), {}, patience))
            regions[request.user] = done->value("path", "");
    }
    std::erase_if(regions, [](const auto& each) { return each.second.empty(); });
    return regions;
}

// The file that a process has mapped, as we can open it; "" if it is there no more.
std::string path_to_open(pid_t pid, const proc::MapLine& line) {
    for (const std::string& path :
         {line.name, fmt::format("/proc/{}/root{}", pid, line.name),
          fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, line.start.value(), line.end.value())}) {
        struct stat status {};
        if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == line.inode)
            return path;
    }
    return {};
}

std::string head_of(const std::string& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    std::string head(head_size, '\0');
    const ssize_t got = file ? ::pread(file.get(), head.data(), head.size(), 0) : -1;
    head.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return head;
}

std::vector<Module> files_of(pid_t pid, bool (*wanted)(const std::string&)) {
    std::vector<Module> modules;
    for (const auto& line : proc::maps(pid, false).value_or(std::vector<proc::MapLine>())) {
        if (line.offset != 0 || line.inode == 0 || !line.name.starts_with('/') || !wanted(line.name))
            continue;
        const std::string path = path_to_open(pid, line);
        if (path.empty()) continue;
        modules.push_back({.start = line.start, .name = line.name, .path = path, .head = head_of(path)});
    }
    return modules;
}

std::vector<Module> modules_of(const wire::Glance& glance) {
    auto modules = files_of(glance.pid.number(), [](const auto&) { return true; });
    if (!glance.vdso.empty())
        modules.push_back({.start = glance.vdso_at,
                           .name = "[vdso]",
                           .bytes = std::string(glance.vdso.begin(), glance.vdso.end())});
    return modules;
}

class Copies {
  public:
    explicit Copies(const wire::Glance& glance) : glance_(glance) {}

    std::string read(ProgramAddress at, std::size_t length) {
        for (const auto& thread : glance_.threads) {
            const auto& stack = thread.stack;
            if (at < thread.stack_at || at >= thread.stack_at + stack.size()) continue;
            const std::size_t from = at - thread.stack_at;
            const auto* begin = stack.data() + from;
            return {begin, begin + std::min(length, stack.size() - from)};
        }
        missed_ = true;
        return {};
    }
    [[nodiscard]] bool missed() const { return missed_; }

  private:
    const wire::Glance& glance_;
    bool missed_ = false;
};

std::string state_words(const std::string& state) {
    if (state == "T") return "stopped";
    if (state == "t") return "stopped by its tracer";
    if (state == "Z" || state == "X") return "has ended";
    return {};
}

std::optional<user_regs_struct> registers_of(const wire::GlancedThread& glanced) {
    user_regs_struct registers{};
    if (glanced.registers.size() != sizeof registers) return std::nullopt;
    std::memcpy(&registers, glanced.registers.data(), sizeof registers);
    return registers;
}

// The call is that in which it was met by the stop, where there was one; else that before.
LivingThread thread_of(const wire::GlancedThread& glanced) {
    LivingThread thread;
    thread.stack.tid = glanced.tid;
    thread.stack.name = glanced.name;
    thread.real = glanced.real;
    thread.state = glanced.state;
    thread.wait_channel = glanced.wait_channel;
    const auto registers = registers_of(glanced);
    const std::int64_t call = registers ? static_cast<std::int64_t>(registers->orig_rax) : glanced.call;
    if (call >= 0) thread.call = inspect::call_name(call);
    if (call == glanced.call && !glanced.object.empty()) {
        thread.object = glanced.object;
        thread.descriptor = static_cast<std::int32_t>(glanced.arguments.front());
    }
    thread.stack.doing = waits_for(thread);
    return thread;
}

void unwind_all(const wire::Glance& glance, LivingProcess& process) {
    Copies copies(glance);
    Subject subject{.pid = glance.pid.number()};
    for (const auto& thread : glance.threads)
        if (const auto registers = registers_of(thread))
            subject.threads.push_back({thread.real.number(), *registers});
    if (subject.threads.empty()) return;
    subject.modules = modules_of(glance);
    for (const auto& thread : glance.threads) {
        const auto registers = registers_of(thread);
        if (!registers || thread.python.empty()) continue;
        auto& python = subject.python.emplace_back();
        python.fs_base = registers->fs_base;
        python.cut = thread.python_cut;
        for (const auto& each : thread.python)
            python.frames.push_back({each.function, each.file, each.line, each.entry});
    }
    subject.read = [&copies](ProgramAddress at, std::size_t length) { return copies.read(at, length); };
    auto unwound = unwind(subject);
    if (!unwound) {
        process.problem += (process.problem.empty() ? "" : "; ") + unwound.error().what;
        return;
    }
    for (auto& each : *unwound) {
        const auto thread = std::ranges::find(process.threads, KernelId(each.tid), &LivingThread::real);
        if (thread == process.threads.end()) continue;
        const auto glanced = std::ranges::find(glance.threads, thread->real, &wire::GlancedThread::real);
        thread->stack.frames = std::move(each.frames);
        thread->stack.broken = std::move(each.broken);
        if (!thread->stack.broken.empty() && glanced->cut && copies.missed())
            thread->stack.broken = fmt::format("only the innermost {} of the stack are copied",
                                               inspect::human_size(glanced->stack.size()));
    }
}

LivingProcess unwound(wire::Process member, const wire::Glance& glance) {
    LivingProcess process{
        .member = std::move(member), .problem = glance.problem, .pause_ns = glance.pause_ns};
    for (const auto& thread : glance.threads) process.threads.push_back(thread_of(thread));
    unwind_all(glance, process);
    return process;
}

}  // namespace

Result<std::vector<wire::Process>> members_of(CoordinatorClient& coordinator,
                                              const std::vector<std::int32_t>& wanted) {
    std::vector<wire::Process> members;
    const auto keep = [&](const nlohmann::json& event) {
        if (event.value("event", "") == wire::Process::name.value)
            members.push_back(wire::glean<wire::Process>(event));
    };
    CHECK_OK(error_of(coordinator.ask({{"verb", "list"}}, keep, patience)));
    for (const std::int32_t pid : wanted)
        if (std::ranges::find(members, ProgramId(pid), &wire::Process::pid) == members.end())
            return fail("no process of the session is called {} (`cairn list` shows them)", pid);
    if (!wanted.empty())
        std::erase_if(members, [&](const auto& each) {
            return std::ranges::find(wanted, each.pid.number()) == wanted.end();
        });
    return members;
}

Result<> look_at(CoordinatorClient& coordinator, const Session& session, std::vector<wire::Process> members,
                 const std::function<void(LivingProcess)>& seen) {
    const OwnRegion own(session);
    std::vector<wire::Process> here;
    for (auto& member : members) {
        if (own.has(member))
            here.push_back(std::move(member));
        else
            seen({.member = member, .problem = fmt::format("it is on host {}: ask there", *member.host)});
    }
    if (here.empty()) return {};
    std::vector<Wanted> wanted;
    for (const auto& member : here) {
        const auto files = files_of(member.real.number(), is_python);
        wanted.push_back({member.real, find_python(files).value_or(python::Interpreter())});
    }
    auto capture = TRY(Capture::start(session, other_regions(coordinator, here), wanted));
    for (auto& member : here) {
        const auto glance = TRY(capture.next());
        seen(unwound(std::move(member), glance));
    }
    return {};
}

std::string waits_for(const LivingThread& thread) {
    const std::string stopped = state_words(thread.state);
    std::string text = thread.call.empty() ? (stopped.empty() ? "runs" : stopped) : thread.call;
    if (thread.descriptor >= 0)
        text += fmt::format(" of {} ({})", thread.descriptor, printable(thread.object));
    if (!thread.call.empty() && !stopped.empty()) text += ", " + stopped;
    return text;
}

}  // namespace cairn::stacks
