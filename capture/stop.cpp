#include "capture/stop.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "capture/collect/filters.h"
#include "capture/settle.h"
#include "common/agent.h"
#include "common/human.h"
#include "common/region_ops.h"

namespace cairn::capture {
namespace {

constexpr unsigned long pf_user_worker = 0x4000, pf_io_worker = 0x10;  // linux/sched.h: io_uring's threads

// Sleeps until a child changes (SIGCHLD is blocked in the worker) or a millisecond has passed.
void await_event() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const timespec slice = {0, 1'000'000};
    ::sigtimedwait(&set, nullptr, &slice);
}

// A copy-on-write child of an earlier checkpoint, not the program's (hijack/agent/agent.cpp).
bool old_snapshot(const proc::Stat& stat) {
    return stat.exit_signal == 0 && stat.comm == snapshot_name;
}

bool dead(char state) {
    return state == 'Z' || state == 'X' || state == 'x';
}

bool traced_by_us(pid_t pid, pid_t tid) {
    auto status = proc::status(pid, tid);
    return status && std::atoi((*status)["TracerPid"].c_str()) == ::getpid();
}

bool share_memory(pid_t one, pid_t other) {
    return ::syscall(SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0;
}

}  // namespace

Stopper::Stopper(const SessionRegions& regions, Reporter& reporter, Outsiders& outsiders)
    : regions_(regions), reporter_(reporter), outsiders_(outsiders) {}

Stopper::~Stopper() {
    // Given up before the pause had begun, or in the middle of it: nobody may notice that he was stopped.
    for (auto& [pid, process] : processes_)
        if (!process.settled) settle_still(process);
    // Nobody has asked their filters, or they have said no.
    for (const auto& [tid, task] : tasks_)
        if (task.still) spare_restart(tid);
    let_go();
}

Stopper::Registration Stopper::registration_of(pid_t pid) const {
    const SessionRegion* region = regions_.of(pid);
    const auto index = region == nullptr ? no_slot : find_slot(*region->region, pid);
    if (index == no_slot) return {};
    Slot& slot = region->region->slots[index];
    const auto state = slot.state.load(std::memory_order_acquire);
    if (state != SlotState::running && state != SlotState::exec) return {};
    return {region, &slot};
}

// Whether it has said that it can't be saved.
bool Stopper::left_out(pid_t pid, const Slot& slot) {
    std::array<char, sizeof slot.foreign> why{};
    std::memcpy(why.data(), slot.foreign, why.size() - 1);
    if (why.front() == 0) return false;
    left_out_.insert(pid);
    reporter_.note(fmt::format("{} is left out: {}", proc::label(pid), printable(why.data())));
    return true;
}

Result<> Stopper::add(pid_t pid) {
    StoppedProcess process;
    process.pid = pid;
    processes_.emplace(pid, std::move(process));
    auto done = seize_new_threads(pid);
    return done ? Result<>() : std::unexpected(std::move(done.error()));
}

// A signal that is ignored is dropped by the kernel, but not if the thread that it is meant for is traced;
// and where that one stands still another thread is woken to take it (sig_ignored(), complete_signal() in
// kernel/signal.c), out of a call that answers EINTR and that nobody makes again unless that thread is
// traced, too. So all are seized before one is stopped, and the main thread, which a process's signals are
// meant for, is seized last, and let go first.
Result<bool> Stopper::seize_new_threads(pid_t pid) {
    std::vector<pid_t> seized;
    bool complete = true;
    for (const bool main_thread : {false, true}) {
        auto threads = proc::tasks(pid);
        if (!threads) {
            if (threads.error().number == ENOENT || threads.error().number == ESRCH) return true;
            return std::unexpected(std::move(threads.error()));
        }
        (void)std::ranges::partition(*threads, [pid](pid_t tid) { return tid != pid; });
        for (const pid_t tid : *threads) {
            if (tasks_.contains(tid) || (tid == pid && !main_thread)) continue;
            auto stat = proc::stat(pid, tid);
            if (!stat || dead(stat->state)) continue;
            if ((stat->flags & (pf_user_worker | pf_io_worker)) != 0 && tid != pid)
                return fail_code(ExitCode::refused,
                                 "{} uses io_uring (kernel thread {} \"{}\"), which can't be saved; run it "
                                 "with io_uring off",
                                 proc::label(pid), tid, stat->comm);
            complete = false;
            if (auto done = seize_waiting(tid, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD, events_); !done) {
                // The thread may have ended between the two looks; then it's no error.
                stat = proc::stat(pid, tid);
                if (!stat || dead(stat->state) || done.error().number == ESRCH) continue;
                // A sibling that was seized has execed and goes by this id now.
                // What it stands in we may have been told under its old one.
                if (traced_by_us(pid, tid)) {
                    tasks_[tid] = Task{pid, stat->state == 't', 0};
                    if (stat->state != 't') seized.push_back(tid);
                    continue;
                }
                CHECK_OK(refuse_tracing(pid, tid, done.error()));
                continue;
            }
            refused_since_.erase(tid);
            tasks_[tid] = Task{pid, false, 0};
            seized.push_back(tid);
        }
    }
    // Fails only if it has gone; the event loop notices.
    for (const pid_t tid : seized) (void)ptrace::interrupt(tid);
    return complete;
}

// A main thread that was dead when we asked, and is alive now because a sibling's exec has taken its place,
// gives EPERM as one does that we may not trace. The latter stays.
Result<> Stopper::refuse_tracing(pid_t pid, pid_t tid, const Error& why) {
    const auto [since, first] = refused_since_.try_emplace(tid, Clock::now());
    if (first || Clock::now() - since->second < std::chrono::milliseconds(500)) return {};
    auto status = proc::status(pid, tid);
    if (status && (*status)["TracerPid"] != "0")
        return fail_code(ExitCode::refused, "{} is being traced by {}: a debugged process can't be saved",
                         proc::label(pid), proc::label(std::atoi((*status)["TracerPid"].c_str())));
    return fail_code(ExitCode::refused,
                     "{} can't be stopped ({}): it runs as another user, gave up being dumpable "
                     "(prctl PR_SET_DUMPABLE), or the system forbids ptrace (kernel.yama.ptrace_scope)",
                     proc::label(pid), why.what);
}

void Stopper::drain_events() {
    for (const auto& event : std::exchange(events_, {})) look_at(event);
    for (;;) {
        WaitEvent event;
        event.tid = ::waitpid(-1, &event.status, __WALL | WNOHANG);
        if (event.tid <= 0) return;
        look_at(event);
    }
}

void Stopper::look_at(const WaitEvent& event) {
    const auto [tid, status] = event;
    const auto found = tasks_.find(tid);
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (found != tasks_.end()) tasks_.erase(found);
        return;
    }
    if (!WIFSTOPPED(status)) return;
    if (status >> 16 == PTRACE_EVENT_EXEC) return execed(tid);
    if (found == tasks_.end()) return;
    if (status >> 16 == ptrace::event_stop) {
        found->second.still = true;
        found->second.stop_signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        return;
    }
    // A signal on its way to the program: it is delivered, and the thread stops before it runs the
    // handler's first instruction. Any trap takes back a pending interrupt, so it is asked for again.
    found->second.still = false;
    (void)ptrace::interrupt(tid);
    (void)ptrace::resume(tid, WSTOPSIG(status));
}

// The thread that execed goes by its process's id now, the others have gone without a word. The new image is
// let go until it has registered.
void Stopper::execed(pid_t pid) {
    std::erase_if(tasks_, [&](const auto& task) { return task.second.pid == pid; });
    (void)ptrace::detach(pid, 0);
    processes_.erase(pid);
    looked_at_.erase(pid);
    candidates_.insert(pid);
}

// Threads that don't answer because they are no longer what we have seized. Of a main thread's end the kernel
// tells only when the last of its siblings has ended. And a seize waits for an exec that is under way
// (cred_guard_mutex): if the thread that it was meant for is the one that execs, it goes by its process's id
// afterwards, seized, and was never interrupted.
void Stopper::look_after_silent() {
    if (Clock::now() - looked_after_silent_ < std::chrono::milliseconds(5)) return;
    looked_after_silent_ = Clock::now();
    drain_events();  // who has ended while a seize waited is known, and no sign of an exec
    std::set<pid_t> execed;
    for (auto entry = tasks_.begin(); entry != tasks_.end();) {
        const auto [tid, task] = *entry;
        const auto stat = task.still ? Result<proc::Stat>() : proc::stat(task.pid, tid);
        if (!stat && tid != task.pid) execed.insert(task.pid);
        if (!task.still && stat && tid == task.pid && dead(stat->state))
            entry = tasks_.erase(entry);
        else
            ++entry;
    }
    for (const pid_t pid : execed) {
        // The new image may have threads already that are seized.
        std::erase_if(tasks_, [&](const auto& task) {
            return task.second.pid == pid && task.first != pid && !proc::stat(pid, task.first);
        });
        const auto stat = proc::stat(pid, pid);
        if (stat && stat->state == 't' && tasks_.contains(pid)) continue;
        tasks_.erase(pid);
        if (ptrace::interrupt(pid)) tasks_[pid] = Task{pid, false, 0};
    }
}

bool Stopper::all_still(pid_t pid) const {
    bool any = false;
    for (const auto& [tid, task] : tasks_) {
        if (task.pid != pid) continue;
        if (!task.still) return false;
        any = true;
    }
    return any;
}

void Stopper::release(pid_t pid) {
    for (auto task = tasks_.begin(); task != tasks_.end();) {
        if (task->second.pid == pid) {
            if (task->second.still) spare_restart(task->first);
            (void)ptrace::detach(task->first, 0);
            task = tasks_.erase(task);
        } else {
            ++task;
        }
    }
    processes_.erase(pid);
    looked_at_.erase(pid);
}

// Where the region and the agent's door are in a process. False: it has not (yet) registered in this image.
bool Stopper::find_doors(StoppedProcess& process) {
    process.living = proc::living_thread(process.pid);
    auto known = registration_of(process.pid);
    process.registered = static_cast<bool>(known);
    std::uint64_t door = known ? known.slot->door.load() : 0;
    // Given its slot by the coordinator, which knows nothing of doors.
    if (known && door == 0) door = regions_.door_in(process.living);
    for (pid_t ancestor = process.pid; door == 0;) {
        // a child of a raw clone has its parent's memory and so its parent's door: its own copy of it. One
        // that shares it is let go on, to its exec as a rule.
        const auto parent = parent_of_.find(ancestor);
        if (parent == parent_of_.end() || share_memory(ancestor, parent->second)) return false;
        ancestor = parent->second;
        known = registration_of(ancestor);
        door = known ? known.slot->door.load() : 0;
    }
    const std::uint64_t region_at = known.slot->region_at.load();
    if (region_at == 0 || door == 0) return false;
    const auto magic =
        ptrace::read_object<std::uint64_t>(process.living, region_at + offsetof(Region, magic));
    process.unreadable = !magic && magic.error().number == EPERM;
    if (!magic || *magic != region_magic) return false;
    using Name = decltype(Region::session);
    const auto name = ptrace::read_object<std::array<char, sizeof(Name)>>(
        process.living, region_at + offsetof(Region, session));
    if (!name || std::memcmp(name->data(), regions_.owners().session, sizeof(Name)) != 0) return false;
    const auto opened = ptrace::read_object<std::uint64_t>(process.living, door + offsetof(Door, magic));
    if (!opened || *opened != door_magic) return false;
    const auto timing = ptrace::read_object<std::int64_t>(process.living, door + offsetof(Door, timing_tls));
    if (!timing || !regions_.confirms(*known.region, process.living, region_at, door)) return false;
    process.region = known.region;
    process.region_at = region_at;
    process.door = door;
    process.timing_tls = *timing;
    process.born_ns = regions_.born_ns(*known.region, process.pid).value_or(known.slot->born_ns.load());
    return true;
}

// Adds the children of a process that stands still to those who have to be stopped. True: that was all.
bool Stopper::look_for_children(StoppedProcess& process) {
    auto list = proc::children(process.pid);
    if (!list) return true;
    bool ended = false;
    for (const pid_t child : *list) {
        if (candidates_.contains(child)) parent_of_.try_emplace(child, process.pid);
        if (processes_.contains(child) || candidates_.contains(child) || left_out_.contains(child)) continue;
        if (std::ranges::find(zombies_, child, &Zombie::pid) != zombies_.end()) continue;
        auto stat = proc::stat(child);
        if (!stat) continue;
        if (stat->state == 'Z' || stat->state == 'X') {
            auto threads = proc::tasks(child);
            if (!threads || threads->size() <= 1) {
                if (!old_snapshot(*stat))
                    zombies_.push_back(Zombie{child, *stat, 0});
                else if (std::ranges::find(process.old_snapshots, child) == process.old_snapshots.end())
                    process.old_snapshots.push_back(child);
                else
                    continue;
                ended = true;
                continue;
            }
        }
        if (old_snapshot(*stat)) continue;  // sees that its checkpoint is over, and goes
        parent_of_[child] = process.pid;
        candidates_.insert(child);
    }
    if (!ended) return true;
    // If they ended after the list was read, their children came to this process, or to an ancestor, behind
    // our back.
    for (auto above = processes_.find(process.pid); above != processes_.end();) {
        looked_at_.erase(above->first);
        const auto stat = proc::stat(above->first);
        if (!stat) break;
        above = processes_.find(stat->ppid);
    }
    return false;
}

// A parent that has gone has announced a birth. Either its child is about to register, or there is none: the
// parent was killed between the two. The child has our region mapped, and is in no slot.
bool Stopper::orphan_on_its_way() {
    if (!orphans_since_) orphans_since_ = Clock::now();
    if (Clock::now() - *orphans_since_ < std::chrono::milliseconds(20)) return true;
    for (const pid_t pid : proc::processes()) {
        if (processes_.contains(pid) || left_out_.contains(pid) || registration_of(pid)) continue;
        const SessionRegion* region = regions_.of(pid);
        const MappedAt at = region == nullptr ? MappedAt{} : find_mapping(pid, region->key);
        const auto stat = proc::stat(pid);
        if (at.mapped == Mapped::yes && at.library && stat && !dead(stat->state) &&
            stat->comm != snapshot_name)
            return true;
    }
    return false;
}

// Births that were announced and whose parent has gone: the child has no parent that would lead to it.
Result<bool> Stopper::look_for_births() {
    bool pending = false, orphans = false;
    for (const SessionRegion& each : regions_.all()) {
        Region& region = *each.region;
        for (Slot& slot : std::span(region.slots).first(std::min(region.slots_end.load(), slot_count))) {
            const auto state = slot.state.load(std::memory_order_acquire);
            const pid_t pid = slot.pid.load();
            if (state == SlotState::running || state == SlotState::exec) {
                if (pid <= 0 || processes_.contains(pid) || candidates_.contains(pid) ||
                    left_out_.contains(pid))
                    continue;
                if (!each.owners && !is_claimed_rightly(each, pid)) continue;
                if (left_out(pid, slot)) continue;
                auto stat = proc::stat(pid);
                if (!stat ||
                    (dead(stat->state) && proc::tasks(pid).value_or(std::vector<pid_t>{}).size() <= 1))
                    continue;
                candidates_.insert(pid);
                pending = true;
            } else if (state == SlotState::birth) {
                const pid_t parent = slot.parent_pid.load();
                // A parent that stands still has not forked yet, or its child is in its list of children.
                if (parent != 0 && !processes_.contains(parent) && !proc::stat(parent)) orphans = true;
            }
        }
    }
    return pending || (orphans && orphan_on_its_way());
}

// Whether the kernel says as well that a process of another user's belongs to the session.
bool Stopper::is_claimed_rightly(const SessionRegion& region, pid_t pid) const {
    if (regions_.of(pid) != &region) return false;
    const MappedAt at = find_mapping(pid, region.key);
    return at.mapped == Mapped::yes && at.library;
}

std::string Stopper::waiting_for() const {
    std::vector<std::string> names;
    std::set<pid_t> moving;
    for (const auto& [tid, task] : tasks_)
        if (!task.still) moving.insert(task.pid);
    for (const pid_t pid : moving) {
        std::string where;
        for (const auto& [tid, task] : tasks_) {
            if (task.pid != pid || task.still) continue;
            auto stat = proc::stat(pid, tid);
            auto channel = proc::read_file(fmt::format("/proc/{}/task/{}/wchan", pid, tid));
            where += fmt::format("{}thread {} in state {}{}", where.empty() ? "" : ", ", tid,
                                 stat ? std::string(1, stat->state) : "?",
                                 channel && *channel != "0" && !channel->empty() ? " in " + *channel : "");
            if (stat && stat->state == 'D')
                if (auto list = proc::children(pid); list && !list->empty())
                    where += fmt::format(" (vfork? its child {} has not execed)", proc::label(list->back()));
        }
        names.push_back(fmt::format("{}: {}", proc::label(pid), where));
    }
    for (const pid_t pid : candidates_) {
        const auto parent = parent_of_.find(pid);
        if (parent != parent_of_.end() && share_memory(pid, parent->second))
            names.push_back(
                fmt::format("{}: shares the memory of {} (clone with CLONE_VM), and can't be saved "
                            "until it execs",
                            proc::label(pid), proc::label(parent->second)));
        else if (const auto ids = user_ids(pid); ids && regions_.of(pid) == nullptr)
            names.push_back(
                fmt::format("{}: has become user {} by a system call past libc (or while no coordinator "
                            "lived), and what is "
                            "said of it can't be believed; start it again",
                            proc::label(pid), ids->effective));
        else
            names.push_back(fmt::format(
                "{}: has not registered (no libcairn in it: a static program, or LD_PRELOAD was dropped)",
                proc::label(pid)));
    }
    if (names.empty()) return "a process whose parent died while it was born";
    std::string text = "waiting for ";
    for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : "; ") + names[i];
    return text;
}

// False: a thread is there that isn't seized.
Result<bool> Stopper::read_registers(StoppedProcess& process) {
    auto stat = proc::stat(process.pid);
    if (!stat) return std::unexpected(std::move(stat.error()).in(proc::label(process.pid)));
    process.stat = *stat;
    process.clock_shift =
        proc::clock_offsets(std::to_string(process.living)).monotonic - proc::clock_offsets("self").monotonic;
    // A dead main thread has no descriptors to be duplicated.
    if (process.living != process.pid && !process.open_pidfd())
        return fail_code(ExitCode::refused,
                         "{}: its main thread has exited, and this kernel can't name the others",
                         proc::label(process.pid));
    auto threads = TRY(proc::tasks(process.pid));
    process.threads.clear();
    for (const pid_t tid : threads) {
        StoppedThread thread;
        thread.tid = tid;
        const auto task = tasks_.find(tid);
        if (task == tasks_.end()) {
            const auto now = proc::stat(process.pid, tid);
            if (now && !dead(now->state)) return false;
            // Only a main thread stays dead as long as the others live. Who has ended else is listed until
            // the kernel has taken it off the list (release_task()), which may take long on a busy machine:
            // it isn't there any more.
            if (tid != process.pid) continue;
            thread.leader_dead = true;
            process.threads.push_back(thread);
            continue;
        }
        if (task->second.stop_signal != 0) {
            process.job_stopped = true;
            process.stop_signal = task->second.stop_signal;
        }
        auto registers = TRY(ptrace::registers(tid));
        thread.registers = registers;
        auto mask = TRY(ptrace::mask(tid));
        thread.mask = mask;
        process.threads.push_back(thread);
    }
    return true;
}

// False: some have to be stopped anew. A main thread that stood still is gone without a word when a sibling
// execs that wasn't seized yet: who goes by its id now isn't ours (ESRCH).
Result<bool> Stopper::read_all_registers() {
    std::vector<pid_t> anew;
    for (auto& [pid, process] : processes_) {
        auto done = read_registers(process);
        if (!done && done.error().number != ESRCH) return std::unexpected(std::move(done.error()));
        if (!done || !*done) anew.push_back(pid);
    }
    for (const pid_t pid : anew) {
        release(pid);
        candidates_.insert(pid);
    }
    return anew.empty();
}

// Two processes with one memory have one door between them.
Result<> Stopper::check_shared_memory() const {
    for (const auto& [pid, process] : processes_)
        if (processes_.contains(process.stat.ppid) && share_memory(pid, process.stat.ppid))
            return fail_code(ExitCode::refused,
                             "{} shares its memory with {} (clone with CLONE_VM), which can't be saved",
                             proc::label(pid), proc::label(process.stat.ppid));
    return {};
}

// With everybody standing still, every list of children is read once more: a list that is read while some of
// it end or come to it from others may miss some (proc_pid_task(5), children).
bool Stopper::no_more_children() {
    bool complete = true;
    for (auto& [pid, process] : processes_) complete = look_for_children(process) && complete;
    return complete && candidates_.empty();
}

// Orphans who were never registered: neither a slot nor a parent leads to them.
bool Stopper::nobody_has_come() {
    for (const pid_t pid : outsiders_.come_since())
        if (!processes_.contains(pid) && !left_out_.contains(pid)) candidates_.insert(pid);
    return candidates_.empty();
}

Result<> Stopper::stop(const std::vector<pid_t>& members) {
    for (const pid_t pid : members) candidates_.insert(pid);
    auto last_report = Clock::now();
    for (;;) {
        drain_events();
        bool settled = true;

        for (auto candidate = candidates_.begin(); candidate != candidates_.end();) {
            const pid_t pid = *candidate;
            auto stat = proc::stat(pid);
            if (!stat || (dead(stat->state) && proc::tasks(pid).value_or(std::vector<pid_t>{}).size() <= 1)) {
                // gone; if it is a zombie, its parent's list of children tells, and so it does of its own
                // children, who may have gone to anybody
                looked_at_.clear();
                candidate = candidates_.erase(candidate);
                settled = false;
                continue;
            }
            if (const auto known = registration_of(pid); known && left_out(pid, *known.slot)) {
                candidate = candidates_.erase(candidate);
                continue;
            }
            if (outsiders_.left_out(pid)) {
                left_out_.insert(pid);
                candidate = candidates_.erase(candidate);
                continue;
            }
            StoppedProcess probe;
            probe.pid = pid;
            if (!find_doors(probe)) {  // between exec and the library's constructor: let it get there
                if (probe.unreadable) CHECK_OK(refuse_tracing(pid, pid, Error{std::strerror(EPERM), EPERM}));
                auto leave = TRY(outsiders_.leave_out(pid));
                if (leave) {
                    left_out_.insert(pid);
                    candidate = candidates_.erase(candidate);
                    continue;
                }
                settled = false;
                ++candidate;
                continue;
            }
            CHECK_OK(add(pid));
            candidate = candidates_.erase(candidate);
            settled = false;
        }

        std::vector<pid_t> unready;
        for (auto& [pid, process] : processes_) {
            if (!all_still(pid)) {
                settled = false;
                if (std::ranges::none_of(tasks_, [&](const auto& task) { return task.second.pid == pid; })) {
                    unready.push_back(pid);  // every thread has ended
                }
                continue;
            }
            if (looked_at_.contains(pid)) continue;
            settled = false;
            auto complete = TRY(seize_new_threads(pid));
            if (!complete) continue;
            if (!find_doors(process)) {  // it has execed while we stopped it
                unready.push_back(pid);
                continue;
            }
            if (look_for_children(process)) looked_at_.insert(pid);
        }
        for (const pid_t pid : unready) {
            release(pid);
            candidates_.insert(pid);
        }

        if (settled && candidates_.empty()) {
            auto births = look_for_births();
            if (!births) return std::unexpected(std::move(births.error()));
            if (!*births && no_more_children() && nobody_has_come()) {
                auto done = TRY(read_all_registers());
                if (done) break;
                continue;
            }
        }
        auto fine = reporter_.may_go_on([this] { return waiting_for(); });
        if (!fine) return fine;
        if (Clock::now() - last_report > std::chrono::milliseconds(200)) {
            last_report = Clock::now();
            reporter_.phase("stop", {waiting_for()});
        }
        if (!settled || !candidates_.empty()) {
            await_event();
            look_after_silent();
        }
    }
    // A parent that was killed while it stood still leaves its zombies to others.
    std::erase_if(zombies_, [](Zombie& zombie) {
        auto stat = proc::stat(zombie.pid);
        if (!stat || stat->start_time != zombie.stat.start_time) return true;
        zombie.stat = *stat;
        return false;
    });
    return check_shared_memory();
}

// What the kernel would go on with by restart_syscall(2) where a seccomp filter may kill for that: the call
// is made anew, which it was allowed. (How long it was to sleep is known of most, and said by
// capture/settle.cpp by now: the others sleep as long again. Any stop and continuation by job control is as
// dangerous to them.)
void Stopper::spare_restart(pid_t tid) {
    constexpr std::int64_t restart_no_hand = -514, restart_block = -516;  // linux/errno.h
    auto registers = ptrace::registers(tid);
    if (!registers || static_cast<std::int64_t>(registers->rax) != restart_block ||
        static_cast<std::int64_t>(registers->orig_rax) < 0 || !may_not_restart(tid))
        return;
    registers->rax = static_cast<std::uint64_t>(restart_no_hand);
    (void)ptrace::set_registers(tid, *registers);
}

void Stopper::settle_still(StoppedProcess& process) {
    if (!find_doors(process)) return;
    process.threads.clear();
    for (const auto& [tid, task] : tasks_) {
        if (task.pid != process.pid || !task.still) continue;
        auto registers = ptrace::registers(tid);
        auto mask = ptrace::mask(tid);
        if (!registers || !mask) continue;
        StoppedThread thread;
        thread.tid = tid;
        thread.registers = *registers;
        thread.mask = *mask;
        process.threads.push_back(thread);
    }
    settle(process);
}

// Main threads first: see seize_new_threads().
void Stopper::let_go() {
    for (const bool main_thread : {true, false})
        for (const auto& [tid, task] : tasks_)
            if (task.still && (tid == task.pid) == main_thread) (void)ptrace::detach(tid, 0);
    // A thread that never stopped can't be detached; the kernel does it when the tracer ends.
    std::erase_if(tasks_, [](const auto& task) { return task.second.still; });
}

}  // namespace cairn::capture
