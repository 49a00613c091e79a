#include "capture/agent_run.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "capture/agent_frame.h"
#include "common/landlock_room.h"
#include "common/ptrace/restart_code.h"

namespace cairn::capture {
namespace {

void wait_word(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
    const timespec slice = {0, 1'000'000};
    ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &slice, nullptr, 0);
}

}  // namespace

AgentRun::AgentRun(StoppedProcess& process, std::uint32_t index, std::uint64_t capture, bool ask_keys,
                   pid_t leader)
    : process_(&process),
      talk_(&process.region->region->talks[index]),
      index_(index),
      capture_(capture),
      ask_keys_(ask_keys),
      inside_(process.threads.size(), false),
      called_(process.threads.size(), false) {
    const auto leads = [&](const StoppedThread& thread) {
        return leader == 0 ? !thread.leader_dead : thread.tid == leader;
    };
    while (leader_ < process.threads.size() && !leads(process.threads[leader_])) ++leader_;
}

std::uint64_t AgentRun::scratch_size() const {
    const auto siblings = static_cast<std::uint64_t>(
        std::ranges::count_if(process_->threads, [](const auto& thread) { return !thread.leader_dead; }) - 1);
    return (siblings * sizeof(AgentSiblingRoom) + 4095) / 4096 * 4096;
}

AgentThread AgentRun::make_thread(const StoppedThread& thread, bool leader) const {
    AgentThread agent = {};
    auto registers = thread.registers;
    if (static_cast<std::int64_t>(registers.orig_rax) >= 0 && to_be_made_again(registers)) {
        const bool by_block = says(registers, RestartCode::by_block);
        registers.rax = by_block ? SYS_restart_syscall : registers.orig_rax;
        registers.rip -= 2;
    }
    agent.frame = agent_frame(registers, thread.mask);
    agent.talk = (process_->region_at + offsetof(Region, talks) + index_ * sizeof(Talk)).value();
    agent.header_capture = (process_->region_at + offsetof(Region, capture)).value();
    agent.capture = capture_;
    agent.door = process_->door.value();
    agent.leader = leader ? 1 : 0;
    agent.ask_keys = ask_keys_ ? 1 : 0;
    agent.ask_landlock = thread.ask_landlock;
    agent.landlock_room = landlock_not_asked;
    // Where we have no id, anybody may trace the copy (PR_SET_PTRACER_ANY).
    agent.tracer = process_->has_inner_children() ? -1 : ::getpid();
    agent.traced_by = thread.traced_by;
    agent.no_variables = process_->simulates ? 1 : 0;
    // Who takes commands wakes the others, which kills whoever is under a filter that is heeded again.
    const bool suspended = leader ? process_->has_suspended_filters() : thread.filters_suspended;
    agent.filters_suspended = suspended ? 1 : 0;
    if (const auto& dispatch = thread.dispatch)
        agent.dispatch = {1, dispatch->start.value(), dispatch->length, dispatch->selector.value()};
    return agent;
}

template <class Room>
Result<> AgentRun::enter(const StoppedThread& thread, ProgramAddress at) {
    static_assert(offsetof(Room, thread) == 0);
    auto registers = thread.registers;
    registers.rip = entry_;
    registers.rdi = at.value();
    registers.rsp = (at + offsetof(Room, stack) + sizeof(Room::stack) - 8).value();
    registers.eflags = 0x202;
    registers.orig_rax = static_cast<std::uint64_t>(-1);  // no call is to be restarted on the way in
    // None of the agent's calls could be made, and the thread be killed for the first.
    if (thread.dispatch) CHECK_OK(ptrace::set_call_dispatch(thread.tid, std::nullopt));
    // Registers first: should we die between the two, the agent puts everything back.
    CHECK_OK(ptrace::set_registers(thread.tid, registers));
    CHECK_OK(ptrace::set_mask(thread.tid, ~0ULL));
    return ptrace::resume(thread.tid, 0);
}

Result<> AgentRun::start() {
    auto head = TRY(ptrace::read_object<std::array<std::uint32_t, 4>>(process_->living, process_->door));
    if (head[2] != agent_version || head[3] != sizeof(Door))
        return fail_code(ExitCode::refused,
                         "{} runs with the hijack library of another cairn version; start it again",
                         proc::label(process_->pid));
    entry_ =
        TRY(ptrace::read_object<std::uint64_t>(process_->living, process_->door + offsetof(Door, entry)));
    talk_->command.store(agent_idle);
    talk_->reply.store(agent_idle);
    talk_->snapshot.store(0);
    const auto& thread = process_->threads[leader_];
    const auto room = process_->door + offsetof(Door, leader);
    inside_[leader_] = true;
    CHECK_OK(ptrace::write_object(process_->living, room, make_thread(thread, true)));
    return enter<AgentRoom>(thread, room);
}

Result<> AgentRun::start_siblings(ProgramAddress scratch) {
    scratch_ = scratch;
    std::vector<std::size_t> siblings;
    std::vector<AgentThread> contents;
    for (std::size_t i = 0; i < process_->threads.size(); ++i) {
        const auto& thread = process_->threads[i];
        if (thread.leader_dead || i == leader_) continue;
        siblings.push_back(i);
        contents.push_back(make_thread(thread, false));
    }
    ptrace::MemoryPieces heads{.at = {}, .ours = {}, .size = sizeof(AgentThread)};
    for (std::size_t k = 0; k < siblings.size(); ++k) {
        heads.at.push_back(scratch + k * sizeof(AgentSiblingRoom));
        heads.ours.push_back(&contents[k]);
    }
    CHECK_OK(ptrace::write_memory(process_->living, heads));
    for (std::size_t k = 0; k < siblings.size(); ++k) {
        inside_[siblings[k]] = true;
        CHECK_OK(enter<AgentSiblingRoom>(process_->threads[siblings[k]], heads.at[k]));
    }
    return {};
}

// Threads that run the agent may be stopped by job control or killed; the one goes on, the other is an error.
Result<> AgentRun::keep_running(std::size_t index) const {
    int status = 0;
    const pid_t tid = process_->threads[index].tid;
    const pid_t got = ::waitpid(tid, &status, __WALL | WNOHANG);
    if (got == tid && WIFSTOPPED(status)) {
        (void)ptrace::resume(tid, status >> 16 == ptrace::event_stop ? 0 : WSTOPSIG(status));
    } else if (got == tid || (got < 0 && errno == ECHILD)) {
        return fail("process {} was killed while it was being saved", process_->pid);
    }
    return {};
}

// Who is waited for is looked at each time; everybody else, of whom there may be thousands, now and then.
Result<> AgentRun::keep_running(std::size_t awaited, Clock::time_point& looked_at_all,
                                const Reporter& reporter) const {
    constexpr auto seldom = std::chrono::milliseconds(100);
    CHECK_OK(keep_running(awaited));
    if (Clock::now() - looked_at_all > seldom) {
        for (std::size_t i = 0; i < process_->threads.size(); ++i)
            if (inside_[i] && !called_[i]) CHECK_OK(keep_running(i));
        looked_at_all = Clock::now();
    }
    return reporter.may_go_on([this] { return fmt::format("the agent in {}", proc::label(process_->pid)); });
}

Result<> AgentRun::ask(AgentCommand command, std::uint64_t argument, std::uint64_t argument2) {
    const std::array<std::uint64_t, 2> arguments = {argument, argument2};
    if (auto done = ptrace::write_memory(process_->living, process_->door + offsetof(Door, argument),
                                         std::as_bytes(std::span(arguments)));
        !done)
        return done;
    sequence_ += 256;
    asked_ = sequence_ | command;
    talk_->command.store(asked_, std::memory_order_release);
    ::syscall(SYS_futex, &talk_->command, FUTEX_WAKE, 1);
    return {};
}

Result<> AgentRun::collect() {
    return ask(agent_collect, static_cast<std::uint64_t>(process_->threads[leader_].ask_landlock));
}

Result<std::int64_t> AgentRun::wait(const Reporter& reporter) {
    for (auto looked_at_all = Clock::now();;) {
        const std::uint32_t reply = talk_->reply.load(std::memory_order_acquire);
        if (reply == asked_) return talk_->result.load();
        CHECK_OK(keep_running(leader_, looked_at_all, reporter));
        wait_word(talk_->reply, reply);
    }
}

// Of thousands all are asked at once who aren't done yet.
Result<> AgentRun::wait_siblings(const Reporter& reporter) {
    std::vector<std::pair<std::size_t, ProgramAddress>> waiting;  // which thread, and its word
    ProgramAddress at = scratch_;
    for (std::size_t i = 0; i < process_->threads.size(); ++i) {
        if (process_->threads[i].leader_dead || i == leader_) continue;
        waiting.emplace_back(i, at + offsetof(AgentThread, done));
        at += sizeof(AgentSiblingRoom);
    }
    for (auto looked_at_all = Clock::now(); !waiting.empty();) {
        std::vector<std::uint32_t> done(waiting.size());
        ptrace::MemoryPieces words{.at = {}, .ours = {}, .size = sizeof done[0]};
        for (std::size_t k = 0; k < waiting.size(); ++k) {
            words.at.push_back(waiting[k].second);
            words.ours.push_back(&done[k]);
        }
        CHECK_OK(ptrace::read_memory(process_->living, words));
        std::size_t left = 0;
        for (std::size_t k = 0; k < waiting.size(); ++k)
            if (done[k] != 1) waiting[left++] = waiting[k];
        waiting.resize(left);
        if (waiting.empty()) break;
        CHECK_OK(keep_running(waiting.front().first, looked_at_all, reporter));
        ::sched_yield();
    }
    return {};
}

Result<> AgentRun::write_timer_ids(const std::vector<std::int32_t>& ids) {
    if (ids.size() > max_posix_timers)
        return fail_code(ExitCode::refused, "{} has {} POSIX timers; at most {} can be saved",
                         proc::label(process_->pid), ids.size(), max_posix_timers);
    std::vector<AgentTimer> timers;
    for (const auto id : ids) timers.push_back(AgentTimer{id, 0, 0, 0});
    const auto base = process_->door + offsetof(Door, process);
    if (!timers.empty())
        if (auto done = ptrace::write_memory(process_->living, base + offsetof(AgentProcess, timers),
                                             std::as_bytes(std::span(timers)));
            !done)
            return done;
    return ptrace::write_object(process_->living, base + offsetof(AgentProcess, timer_count),
                                static_cast<std::uint32_t>(ids.size()));
}

Result<> AgentRun::write_detached(const std::vector<AgentSpan>& spans) {
    if (!spans.empty())
        if (auto done = ptrace::write_memory(process_->living, process_->door + offsetof(Door, detach),
                                             std::as_bytes(std::span(spans)));
            !done)
            return done;
    return ptrace::write_object(process_->living, process_->door + offsetof(Door, detach_count),
                                static_cast<std::uint32_t>(spans.size()));
}

Result<AgentProcess> AgentRun::process_answers() const {
    return ptrace::read_object<AgentProcess>(process_->living, process_->door + offsetof(Door, process));
}

Result<std::vector<std::uint8_t>> AgentRun::resident(ProgramAddress start, std::uint64_t length,
                                                     const Reporter& reporter) {
    constexpr std::uint64_t page = 4096;
    std::vector<std::uint8_t> result(length / page);
    for (std::uint64_t done = 0; done < result.size();) {
        const auto pages = std::min<std::uint64_t>(resident_pages, result.size() - done);
        CHECK_OK(ask(agent_resident, (start + done * page).value(), pages * page));
        auto answer = TRY(wait(reporter));
        if (answer != 0)
            return fail("mincore: memory at {:#x}: {}", start + done * page,
                        std::strerror(static_cast<int>(-answer)));
        const auto to = std::as_writable_bytes(std::span(result).subspan(done, pages));
        if (auto read = ptrace::read_memory(process_->living, process_->door + offsetof(Door, resident), to);
            !read)
            return std::unexpected(std::move(read.error()));
        done += pages;
    }
    return result;
}

Result<AgentRenewal> AgentRun::renew(ProgramFd queue, std::span<const ProgramFd> sockets,
                                     const Reporter& reporter) {
    AgentRenewal wanted{};
    if (sockets.size() > std::size(wanted.sockets)) return fail("one of {} sockets", sockets.size());
    wanted.queue = queue.number();
    wanted.count = static_cast<std::uint32_t>(sockets.size());
    for (std::size_t i = 0; i < sockets.size(); ++i) wanted.sockets[i] = sockets[i].number();
    const auto at = process_->door + offsetof(Door, resident);
    CHECK_OK(ptrace::write_object(process_->living, at, wanted));
    CHECK_OK(ask(agent_renew));
    const auto answer = TRY(wait(reporter));
    if (answer != 0) return fail("{}", std::strerror(static_cast<int>(-answer)));
    return ptrace::read_object<AgentRenewal>(process_->living, at);
}

Result<> AgentRun::lend(std::span<const ProgramFd> numbers, std::span<const std::byte> address,
                        const Reporter& reporter) {
    AgentLoan loan{};
    if (numbers.size() > std::size(loan.numbers) || address.size() > sizeof loan.address)
        return fail("a loan of {} descriptors", numbers.size());
    loan.count = static_cast<std::uint32_t>(numbers.size());
    loan.address_length = static_cast<std::uint32_t>(address.size());
    std::memcpy(loan.address, address.data(), address.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) loan.numbers[i] = numbers[i].number();
    CHECK_OK(ptrace::write_object(process_->living, process_->door + offsetof(Door, resident), loan));
    CHECK_OK(ask(agent_lend));
    const auto answer = TRY(wait(reporter));
    if (answer >= 0) return {};
    errno = static_cast<int>(-answer);
    return fail_errno("in the process");
}

Result<std::vector<AgentThread>> AgentRun::thread_answers() const {
    std::vector<AgentThread> result(process_->threads.size());
    ptrace::MemoryPieces heads{.at = {}, .ours = {}, .size = sizeof(AgentThread)};
    ProgramAddress at = scratch_;
    for (std::size_t i = 0; i < process_->threads.size(); ++i) {
        if (process_->threads[i].leader_dead) continue;
        heads.at.push_back(i == leader_ ? process_->door + offsetof(Door, leader) : at);
        heads.ours.push_back(&result[i]);
        if (i != leader_) at += sizeof(AgentSiblingRoom);
    }
    CHECK_OK(ptrace::read_memory(process_->living, heads));
    return result;
}

Result<SnapshotChild> AgentRun::wait_snapshot(const Reporter& reporter) const {
    for (;;) {
        const pid_t pid = talk_->snapshot.load(std::memory_order_acquire);
        if (pid != 0 && !process_->has_inner_children()) return confirm_snapshot(pid);
        if (pid != 0)
            if (const auto called = proc::child_called(process_->pid, pid, snapshot_name))
                return confirm_snapshot(*called);
        if (auto fine = reporter.may_go_on(
                [this] { return fmt::format("the copy-on-write child of {}", proc::label(process_->pid)); });
            !fine)
            return std::unexpected(std::move(fine.error()));
        const timespec slice = {0, 1'000'000};
        ::syscall(SYS_futex, &talk_->snapshot, FUTEX_WAIT, 0, &slice, nullptr, 0);
    }
}

// The number stands in memory that others of the user's can write into: it may name anybody. What is asked
// behind the pidfd is said of the process that it holds.
Result<SnapshotChild> AgentRun::confirm_snapshot(pid_t pid) const {
    SnapshotChild child{pid, Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))};
    if (process_->region->owners) return child;
    const auto stat = proc::stat(pid);
    const auto ids = user_ids(pid), parents = user_ids(process_->living);
    const bool is_ours = child.pidfd && stat && stat->comm == snapshot_name && stat->session == pid && ids &&
                         parents && *ids == *parents;
    if (!is_ours)
        return fail("{} names {} as its copy-on-write child, which is none", proc::label(process_->pid),
                    proc::label(pid));
    return child;
}

Result<> AgentRun::call(std::size_t index) {
    if (called_[index]) return {};
    CHECK_OK(ptrace::interrupt(process_->threads[index].tid));
    called_[index] = true;
    return {};
}

Result<> AgentRun::await_stop(const StoppedThread& thread, const Reporter& reporter) const {
    for (;;) {
        int status = 0;
        const pid_t got = ::waitpid(thread.tid, &status, __WALL | WNOHANG);
        if (got == thread.tid && WIFSTOPPED(status)) {
            if (status >> 16 == ptrace::event_stop) return {};
            (void)ptrace::interrupt(thread.tid);
            (void)ptrace::resume(thread.tid, WSTOPSIG(status));
        } else if (got == thread.tid || (got < 0 && errno == ECHILD)) {
            return fail("process {} was killed while it was being saved", process_->pid);
        } else {
            if (auto fine = reporter.may_go_on(
                    [&] { return fmt::format("thread {} of {}", thread.tid, proc::label(process_->pid)); });
                !fine)
                return fine;
            ::sched_yield();
        }
    }
}

Result<> AgentRun::bring_back(std::size_t index, const Reporter& reporter) {
    const auto& thread = process_->threads[index];
    CHECK_OK(call(index));
    CHECK_OK(await_stop(thread, reporter));
    called_[index] = false;
    if (thread.parked) return ptrace::set_registers(thread.tid, *thread.parked);  // its mask stays full
    // Mask first: should we die between the two, the agent puts both back.
    CHECK_OK(ptrace::set_mask(thread.tid, thread.mask));
    CHECK_OK(ptrace::set_registers(thread.tid, thread.registers));
    return thread.dispatch ? ptrace::set_call_dispatch(thread.tid, thread.dispatch) : Result<>();
}

Result<> AgentRun::hold(const Reporter& reporter) {
    if (held_) return {};
    CHECK_OK(call(leader_));
    CHECK_OK(await_stop(process_->threads[leader_], reporter));
    called_[leader_] = false;
    held_ = true;
    return {};
}

Result<> AgentRun::go_on() {
    if (!held_) return {};
    held_ = false;
    return ptrace::resume(process_->threads[leader_].tid, 0);
}

Result<> AgentRun::step_back(bool back, const Reporter& reporter) {
    stepped_back_ = true;  // until we know better
    CHECK_OK(ask(agent_step_back, back ? 1 : 0));
    CHECK_OK(wait(reporter));
    stepped_back_ = back;
    return {};
}

// Their way out of what they wait in, and into their stop, is another processor's work while the leader is
// asked for other things. Should we die, whoever is called by then makes the call anew that he waited in: not
// those whose filter, which is heeded again, kills for it.
Result<> AgentRun::call_siblings() {
    for (std::size_t i = 0; i < process_->threads.size(); ++i)
        if (inside_[i] && i != leader_ && !process_->threads[i].filters_suspended) CHECK_OK(call(i));
    return {};
}

// The leader is still to be asked where there is something to be put back by the process itself.
Result<> AgentRun::begin_to_leave() {
    const bool leader_too = !scratch_.known() && !stepped_back_ && !held_;
    for (std::size_t i = 0; i < process_->threads.size(); ++i)
        if (inside_[i] && (i != leader_ || leader_too)) CHECK_OK(call(i));
    return {};
}

Result<> AgentRun::leave_siblings(const Reporter& reporter) {
    CHECK_OK(go_on());
    // If this fails, the leader stays inside, and the agent does it itself once we have let go of it.
    if (stepped_back_) CHECK_OK(step_back(false, reporter));
    for (std::size_t i = 0; i < process_->threads.size(); ++i) {
        if (!inside_[i] || i == leader_) continue;
        CHECK_OK(bring_back(i, reporter));
        inside_[i] = false;
    }
    if (scratch_.known()) {
        CHECK_OK(ask(agent_unmap, scratch_.value(), scratch_size()));
        CHECK_OK(wait(reporter));
        scratch_ = {};
    }
    return {};
}

Result<> AgentRun::leave(const Reporter& reporter) {
    CHECK_OK(leave_siblings(reporter));
    if (inside_[leader_]) {
        CHECK_OK(bring_back(leader_, reporter));
        inside_[leader_] = false;
    }
    return {};
}

}  // namespace cairn::capture
