#include "coordinator/programs.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <set>

#include "common/human.h"
#include "common/region_ops.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto starting_limit = 20s;  // between the answer to hello and the registration of the program

const char* name_of(SlotState state) {
    switch (state) {
        case SlotState::free:
            return "free";
        case SlotState::birth:
            return "birth";
        case SlotState::running:
            return "running";
        case SlotState::exec:
            return "exec";
    }
    return "?";
}

}  // namespace

Programs::Programs(asio::io_context& io, const Session& session, Regions& regions, Listener listener)
    : io_(io),
      session_(session),
      regions_(regions),
      listener_(std::move(listener)),
      registry_(io, regions,
                {.joined =
                     [this](const Member& member) {
                         expected(member.pid);
                         listener_.joined(member);
                     },
                 .left = [this](const Member& member) { listener_.left(member); },
                 .asks = [this](const Member& member) { listener_.asks(member); },
                 .warning = [this](const std::string& text) { listener_.warning(text); }}) {}

void Programs::expect(pid_t pid) {
    Fd pidfd = open_pidfd(pid);
    if (!pidfd) return;
    Starting starting{std::make_unique<asio::posix::stream_descriptor>(io_, pidfd.release()),
                      std::make_unique<asio::steady_timer>(io_)};
    starting.process->async_wait(asio::posix::stream_descriptor::wait_read,
                                 [this, pid](const boost::system::error_code& error) {
                                     if (!error) expected(pid);
                                 });
    starting.deadline->expires_after(starting_limit);
    starting.deadline->async_wait([this, pid](const boost::system::error_code& error) {
        if (!error) expected(pid);
    });
    starting_[pid] = std::move(starting);
    registry_.handed(pid, 0);
    listener_.starting();
}

void Programs::expected(pid_t pid) {
    if (starting_.erase(pid) != 0) listener_.starting();
}

std::vector<wire::Process> Programs::list() {
    std::vector<wire::Process> list;
    const std::uint64_t now = boottime_ns();
    const auto age = [now](std::uint64_t since) {
        return since < now ? static_cast<double>(now - since) / 1e9 : 0.0;
    };
    const auto add = [&list](pid_t pid, const ProcessInfo& info) -> wire::Process& {
        return list.emplace_back(wire::Process{.real = KernelId(pid),
                                               .parent = KernelId(info.parent),
                                               .comm = info.name,
                                               .command = command_line(pid),
                                               .terminal = terminal_path(info.terminal)});
    };
    for (const auto& [place, member] : registry_.members()) {
        const Slot& slot = regions_.slot(place);
        const auto info = process_info(member.pid);
        if (!info) continue;
        wire::Process& process = add(member.pid, *info);
        process.pid = member.program_pid;
        process.uid = member.uid;
        process.state = name_of(slot.state.load());
        if (info->state == 'T' && process.state == "running") process.state = "stopped";  // by job control
        process.foreign = registry_.foreign(member);
        process.restored = (slot.flags.load() & slot_restored) != 0;
        // Their own time stamps are of their first life, or of another clock (a time namespace).
        process.started_s = age(info->started_ns);
    }
    for (const Registry::Unplaced& each : registry_.unplaced()) {
        const auto info = process_info(each.pid);
        if (!info) continue;
        wire::Process& process = add(each.pid, *info);
        process.pid = program_id(regions_.owners().ids, KernelId(each.pid));
        process.state = "unregistered";
        process.foreign =
            fmt::format("no place in the session's table of {} processes", slots_of(regions_[each.number]));
        process.started_s = age(info->started_ns);
    }
    return list;
}

asio::awaitable<std::size_t> Programs::kill_all(Besides besides) {
    const auto until = std::chrono::steady_clock::now() + 5s;
    std::set<std::string> ended;
    asio::steady_timer timer(io_);
    constexpr int looks_for_children = 20;  // of 10 ms: a parent may have been killed before it had one
    int looks = 0;
    // Again and again: what was being born meanwhile is a member by the next turn.
    while (std::chrono::steady_clock::now() < until) {
        registry_.scan();
        if (registry_.members().empty()) {
            if (registry_.births() == 0 && (besides == Besides::births || looks > 0)) break;
            // In the middle of its exec a child can't be told from others.
            looks = registry_.kill_unregistered(session_.region()) == 0 ? looks + 1 : 0;
            if (looks == looks_for_children) break;
        }
        for (const auto& [slot, member] : registry_.members()) ended.insert(member.uid);
        registry_.kill_all();
        timer.expires_after(10ms);
        boost::system::error_code error;
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
    co_return ended.size();
}

void Programs::kill(const Reply& reply) {
    asio::co_spawn(
        io_,
        [](Programs& self, Reply answer) -> asio::awaitable<void> {
            const std::size_t killed = co_await self.kill_all(Besides::everybody);
            const std::size_t left = self.registry_.members().size();
            if (left == 0)
                answer(pack(wire::Killed{.killed = killed}));
            else
                answer(failed(ExitCode::timed_out,
                              fmt::format("{} still there after 5 s, {} for one (stuck in the kernel?)",
                                          human_count(left, "process is", "processes are"),
                                          describe(self.registry_.members().begin()->second.pid))));
        }(*this, reply),
        asio::detached);
}

}  // namespace cairn::coordinator
