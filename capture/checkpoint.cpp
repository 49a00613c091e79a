#include "capture/checkpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "capture/agent_run.h"
#include "capture/await_pages.h"
#include "capture/collect/collect.h"
#include "capture/collect/keyrings.h"
#include "capture/host.h"
#include "capture/memory/areas.h"
#include "capture/memory/policies.h"
#include "capture/memory/store.h"
#include "capture/objects/objects.h"
#include "capture/parts.h"
#include "capture/restartable.h"
#include "capture/settle.h"
#include "capture/stop.h"
#include "capture/strangers.h"
#include "capture/translation.h"
#include "common/condense.h"
#include "common/image/demands.h"
#include "common/image/writer.h"
#include "common/region_ops.h"
#include "common/schema/json.h"
#include "common/uid.h"

namespace cairn::capture {
namespace {

// How long to wait for what passes, and how long the programs run in between.
constexpr auto passing_patience = std::chrono::seconds(3);
// The same for what can be left out, with a note.
constexpr auto short_patience = std::chrono::seconds(2);
constexpr auto longest_nap = std::chrono::milliseconds(50);

// A copy-on-write child: our ptrace relation makes the kernel kill it if we die.
class Snapshot {
  public:
    explicit Snapshot(SnapshotChild child) : child_(std::move(child)) {
        seized_ = ptrace::seize(child_.pid, PTRACE_O_EXITKILL).has_value();
        // should memory run out, this one goes first
        const std::string file = fmt::format("/proc/{}/oom_score_adj", child_.pid);
        if (const Fd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC)); fd) (void)!::write(fd.get(), "1000", 4);
        // If it still lives it is what we have seized, and the number is its own until we have waited for it.
        // There may be more of these than descriptors.
        if (seized_ && ::syscall(SYS_pidfd_send_signal, child_.pidfd.get(), 0, nullptr, 0) == 0)
            child_.pidfd.reset();
    }
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;
    ~Snapshot() {
        if (child_.pidfd)
            ::syscall(SYS_pidfd_send_signal, child_.pidfd.get(), SIGKILL, nullptr, 0);
        else if (seized_)
            ::kill(child_.pid, SIGKILL);
        if (seized_) ::waitpid(child_.pid, nullptr, __WALL);
    }
    [[nodiscard]] pid_t pid() const { return child_.pid; }

  private:
    SnapshotChild child_;
    bool seized_ = false;
};

// One process on its way from stopped to saved.
struct Member {
    StoppedProcess* process = nullptr;
    std::optional<AgentRun> agent;
    Holder holder;
    schema::Process image;
    std::chrono::steady_clock::time_point timers_asked;
    StillMap map;
    std::vector<Range> wiped;
    std::vector<proc::MapLine> child_lines;
    std::list<schema::Area> early;  // what had to be stored before the process went on
    Range scratch;
    std::unique_ptr<Snapshot> snapshot;
    std::unique_ptr<ImageWriter> writer;
    std::string file;
    std::uint64_t bytes = 0;
    std::int64_t forked = 0;  // what the agent's fork of the copy-on-write child gave
};

class Checkpoint {
  public:
    Checkpoint(const Request& request, SessionRegions& regions, Reporter& reporter)
        : request_(request),
          regions_(regions),
          reporter_(reporter),
          to_program_([&regions](pid_t real) { return regions.to_program(real); }),
          asked_for_(request.members.begin(), request.members.end()),
          strangers_(
              regions.owners().path, [this](pid_t pid) { return who_is(pid); },
              [&regions](const std::vector<pid_t>& pids) { return without_place(regions, pids); }) {}

    Result<> take(const std::function<void(const schema::Manifest&)>& finished) {
        CHECK_OK(await_pages(request_.pages, reporter_));
        CHECK_OK(look_ahead());
        auto begin = began_ = Clock::now();
        auto paused = pause();
        // What is there for a moment only, and can't be saved: the programs go on until it is over.
        const auto patience = begin + passing_patience;
        for (auto nap = std::chrono::milliseconds(1);
             !request_.joint && !paused && paused.error().passing && Clock::now() < patience;
             nap = std::min(2 * nap, longest_nap)) {
            if (auto done = begin_again(); !done) {
                paused = std::move(done);
                break;
            }
            std::this_thread::sleep_for(nap);
            begin = Clock::now();
            paused = pause();
        }
        if (!paused) {
            // A coordinator that has given up, or its root, has hung up by now.
            reporter_.begin_to_undo();
            for (auto& member : members_)
                if (member.agent) (void)member.agent->leave(reporter_);
            // Whoever still runs the agent sees another number and puts itself back once it is detached.
            regions_.set_capture(0);
            return paused;
        }
        manifest_.pause_ns = std::chrono::nanoseconds(Clock::now() - begin).count();
        CHECK_OK(write());
        manifest_.total_ns = std::chrono::nanoseconds(Clock::now() - begin).count();
        finished(manifest_);
        return {};
    }

  private:
    Result<> pause() {
        stopper_.emplace(regions_, reporter_);
        stopper_->set_outsiders({.come_since = [this] { return come_since(); },
                                 .leave_out = [this](pid_t pid) { return leave_out(pid); },
                                 .left_out = [this](pid_t pid) { return strangers_.left_out(pid); }});
        CHECK_OK(stop());
        CHECK_OK(collect());
        CHECK_OK(collect_objects());
        CHECK_OK(fork_snapshots());
        return resume();
    }

    // The programs go on; nothing is left of what was found.
    Result<> begin_again() {
        for (auto& member : members_)
            if (member.agent) CHECK_OK(member.agent->leave(reporter_));
        members_.clear();
        zombies_.clear();
        objects_.reset();
        stopper_.reset();
        has_init_ = false;
        unregistered_.clear();
        // What was left out stays so, and is said.
        std::erase_if(reporter_.notes(), [](const std::string& note) {
            return note.find("(--without-strangers)") == std::string::npos;
        });
        return {};
    }

    // What takes long to find out and hardly ever changes is looked at while the programs run.
    Result<> look_ahead() {
        directory_ = Fd(::open(request_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!directory_) return fail_errno("{}", request_.directory);
        describe_host(manifest_);
        if (!request_.host.empty()) manifest_.host = request_.host;
        manifest_.cid = request_.cid;
        manifest_.session = request_.session;
        manifest_.generation = request_.generation;
        for (const pid_t pid : request_.members)
            if (auto wiped = ranges_with_flag(pid, "wf"); wiped && !wiped->empty()) wipes_.insert(pid);
        return judge_strangers(strangers_.look());
    }

    Strangers::Known who_is(pid_t pid) const {
        const SessionRegion* region = regions_.of(pid);
        const auto index = region == nullptr ? no_slot : find_slot(*region->region, pid);
        if (index != no_slot)
            return region->region->slots[index].foreign[0] != 0 ? Strangers::Known::outside
                                                                : Strangers::Known::member;
        return asked_for_.contains(pid) ? Strangers::Known::member : Strangers::Known::no;
    }

    Result<> judge_strangers(const std::vector<Strangers::Stranger>& strangers) {
        if (strangers.empty()) return {};
        if (!request_.without_strangers) return refuse(strangers);
        for (const auto& each : strangers)
            reporter_.note(
                fmt::format("{} is left out (--without-strangers): {}", proc::label(each.pid), each.why));
        strangers_.leave_out(strangers);
        return {};
    }

    // Born since we have looked, without a slot: saved for that they have their parents' memory, but a
    // restart would have no place for them.
    Result<> judge_crowd() {
        std::vector<pid_t> unregistered;
        for (const auto& [pid, process] : stopper_->processes())
            if (!process.registered) unregistered.push_back(pid);
        std::vector<Strangers::Stranger> crowd;
        for (const pid_t pid : without_place(regions_, unregistered))
            crowd.push_back({pid, 0, std::string(no_place)});
        return crowd.empty() ? Result<>() : refuse(crowd);
    }

    static Result<> refuse(const std::vector<Strangers::Stranger>& strangers) {
        return fail_code(
            ExitCode::refused,
            "this would not be the whole computation: not registered, and so not to be saved: {}; end "
            "them, start them so that they load libcairn.so, or leave them out by --without-strangers",
            describe_strangers(strangers));
    }

    std::vector<pid_t> come_since() {
        std::vector<pid_t> pids;
        for (const auto& each : strangers_.look_at_new()) {
            come_.insert_or_assign(each.pid, each);
            pids.push_back(each.pid);
        }
        return pids;
    }

    // Born while we began, it may be about to register; who isn't, isn't for good. A machine that is busy may
    // leave it for seconds where it is: forked, in an execve, in its exit.
    Result<bool> leave_out(pid_t pid) {
        if (strangers_.left_out(pid)) return true;
        auto& since = unregistered_.try_emplace(pid, Clock::now()).first->second;
        if (Clock::now() - since < std::chrono::milliseconds(500)) return false;
        // Who has not execed has its parent's memory, the library included: where that comes from an image
        // page by page, or the machine is busy, it takes its time.
        constexpr unsigned long forked_only = 0x40;  // PF_FORKNOEXEC, linux/sched.h
        const auto stat = proc::stat(pid);
        if (!stat || (stat->flags & forked_only) != 0 || expects_library(pid) != LibraryExpected::no) {
            since = Clock::now();
            return false;
        }
        const auto found = come_.find(pid);
        Strangers::Stranger stranger = {pid, 0, "a child of a member that doesn't load libcairn.so"};
        if (found != come_.end()) stranger = found->second;
        CHECK_OK(judge_strangers({stranger}));
        return true;
    }

    Result<> stop() {
        reporter_.phase("stop");
        CHECK_OK(stopper_->stop(request_.members));
        if (stopper_->processes().empty()) return fail("no process is left to save");
        CHECK_OK(judge_crowd());
        manifest_.np = static_cast<std::int32_t>(stopper_->processes().size());
        if (!request_.joint) return {};
        auto all = reporter_.meet("stopped", {{"processes", manifest_.np}});
        if (!all) return std::unexpected(std::move(all.error()));
        manifest_.np = all->value("np", manifest_.np);
        return {};
    }

    // Last of all, with everybody still: what was left of a timer when it was read is added to this clock by
    // a restart that lets it go on, and no timer may fire early.
    void note_clocks() {
        timespec now = {};
        ::clock_gettime(CLOCK_REALTIME, &now);
        manifest_.taken_at_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        manifest_.monotonic_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
        // the clock as the programs see it
        const auto theirs = proc::clock_offsets(std::to_string(stopper_->processes().begin()->second.living));
        const auto ours = proc::clock_offsets("self");
        manifest_.monotonic_ns += theirs.monotonic - ours.monotonic;
        ::clock_gettime(CLOCK_BOOTTIME, &now);
        manifest_.boottime_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec + theirs.boottime - ours.boottime;
    }

    Result<> collect() {
        reporter_.phase("collect");
        std::uint32_t index = 0;
        for (auto& [pid, process] : stopper_->processes()) {
            CHECK_OK(refuse_unsupported(process));
            leave_translations(process);
            settle(process);
            auto& member = members_.emplace_back();
            member.process = &process;
            member.holder = {pid, -1, process.first_living().tid};
            auto& ipc = process.region->region->ipc;
            CHECK_OK(collect_threads(process, to_program_, ipc, member.image));
            const bool filtered = !member.image.filters.empty() || member.image.io_uring_off;
            member.agent.emplace(process, index++, request_.capture, !filtered);
            if (auto done = start_agent(member); !done)
                return std::unexpected(std::move(done.error()).in(proc::label(pid)));
        }
        for (auto& member : members_) {
            CHECK_OK(wait_agent(member));
        }
        std::set<pid_t> ours;
        for (const auto& [pid, process] : stopper_->processes()) ours.insert(pid);
        for (const auto& zombie : stopper_->zombies()) ours.insert(zombie.pid);
        for (auto& member : members_) note_outer_leaders(member.process->stat, ours, member.image);
        for (auto zombie : stopper_->zombies()) {
            if (zombie.stat.exit_code == 0) {  // so it ended, or /proc hides how it did
                const auto parent = std::ranges::find_if(
                    members_, [&](const Member& member) { return member.process->pid == zombie.stat.ppid; });
                if (parent != members_.end()) {
                    if (auto done = parent->agent->ask(agent_peek, static_cast<std::uint64_t>(zombie.pid));
                        !done)
                        return done;
                    auto status = TRY(parent->agent->wait(reporter_));
                    if (status > 0) zombie.stat.exit_code = static_cast<std::int32_t>(status);
                }
            }
            auto image = collect_zombie(zombie, to_program_);
            note_outer_leaders(zombie.stat, ours, image);
            image.uid = make_uid(manifest_.host, image.pid, 0);
            zombies_.push_back(std::move(image));
        }
        return {};
    }

    Result<> start_agent(Member& member) {
        auto timers = TRY(list_timers(member.process->living));
        std::vector<std::int32_t> ids;
        for (const auto& timer : timers) ids.push_back(timer.id);
        CHECK_OK(member.agent->start());
        CHECK_OK(member.agent->write_timer_ids(ids));
        member.timers_asked = std::chrono::steady_clock::now();
        return member.agent->ask(agent_collect);
    }

    Result<> wait_agent(Member& member) {
        auto& agent = *member.agent;
        CHECK_OK(agent.wait(reporter_));
        for (const pid_t pid : member.process->old_snapshots) {
            CHECK_OK(agent.ask(agent_reap, static_cast<std::uint64_t>(pid)));
            CHECK_OK(agent.wait(reporter_));
        }
        if (const auto size = agent.scratch_size(); size != 0) {
            CHECK_OK(agent.ask(agent_map, size));
            auto address = TRY(agent.wait(reporter_));
            if (address < 0)
                return fail("{}: no memory for the agent: {}", proc::label(member.process->pid),
                            std::strerror(static_cast<int>(-address)));
            const auto at = static_cast<std::uint64_t>(address);
            member.scratch = {at, at + size};
            CHECK_OK(agent.start_siblings(at));
            CHECK_OK(agent.wait_siblings(reporter_));
        }
        auto process = TRY(agent.process_answers());
        auto threads = TRY(agent.thread_answers());
        auto& image = member.image;
        CHECK_OK(collect_identity(*member.process, process, to_program_, image));
        add_thread_answers(threads, image);
        CHECK_OK(collect_signals(*member.process, process, to_program_, image));
        note_keyrings(*member.process, process, threads,
                      [this](std::string note) { reporter_.note(std::move(note)); });
        image.uid = make_uid(manifest_.host, image.pid, member.process->born_ns);
        image.cid = request_.cid;
        image.np = manifest_.np;
        if (member.process->pid == 1) has_init_ = true;
        return {};
    }

    Result<> collect_objects() {
        reporter_.phase("objects");
        ObjectOptions options;
        options.to_program = to_program_;
        options.cid = request_.cid;
        options.np = manifest_.np;
        options.self_contained = request_.self_contained;
        options.may_wait = !request_.joint && Clock::now() - began_ < short_patience;
        options.external = request_.external;
        if (request_.joint)
            options.meet = [this](const std::string& name, const nlohmann::json& data) {
                return reporter_.meet(name, data);
            };
        options.region = &regions_.owners();
        options.mincore = [this](const Holder& holder, std::uint64_t start, std::uint64_t length) {
            const auto member =
                std::ranges::find(members_, holder.pid, [](const Member& each) { return each.process->pid; });
            return member == members_.end() ? Result<std::vector<std::uint8_t>>()
                                            : member->agent->resident(start, length, reporter_);
        };
        objects_.emplace(std::move(options));
        for (const auto& zombie : stopper_->zombies()) objects_->add_member(zombie.pid);
        for (const auto& member : members_) objects_->add_member(member.process->pid);
        for (auto& member : members_) {
            const auto& process = *member.process;
            auto& image = member.image;
            const Fd pidfd = process.open_pidfd();
            if (!pidfd) return fail_errno("pidfd of {}", proc::label(process.pid));
            Holder holder = member.holder;
            holder.pidfd = pidfd.get();
            auto descriptors = TRY(objects_->descriptors(holder));
            image.descriptors = std::move(descriptors);
            CHECK_OK(find_notifications(member));
            image.locks = objects_->take_locks(member.holder);
            for (auto [link, id] :
                 {std::pair{"exe", &image.executable}, {"cwd", &image.cwd}, {"root", &image.root}}) {
                auto object = TRY(objects_->file(member.holder, link));
                *id = object;
            }
            auto terminal = TRY(objects_->terminal_of(member.holder, process.stat.tty_nr,
                                                      process.stat.session, process.stat.tpgid));
            image.terminal = terminal;
            auto map = TRY(still_map(process, member.holder, *objects_));
            member.map = std::move(map);
        }
        IpcMap& ipc = regions_.ipc();
        CHECK_OK(objects_->system_v(ipc));
        const auto undo = promised_undo(ipc);
        for (auto& member : members_) {
            const auto [begin, end] = undo.equal_range(member.process->pid);
            for (auto each = begin; each != end; ++each) member.image.undo.push_back(each->second);
        }
        if (!objects_writer_) {
            auto writer = TRY(ImageWriter::create(directory_.get(), "objects.image", ImageKind::objects));
            objects_writer_ = std::make_unique<ImageWriter>(std::move(writer));
        }
        return objects_->capture_contents(*objects_writer_);
    }

    Result<> find_notifications(const Member& member) {
        const auto& descriptors = member.image.descriptors;
        if (std::ranges::none_of(descriptors, [&](const schema::Descriptor& descriptor) {
                return objects_->object(descriptor.object).type == "mqueue";
            }))
            return {};
        auto known = TRY(ptrace::read_object<std::array<AgentNotification, max_notifications>>(
            member.process->living, member.process->door + offsetof(Door, notifications)));
        for (const auto& each : known)
            for (const auto& descriptor : descriptors)
                if (each.notify >= 0 && descriptor.fd == each.queue && each.used != 0)
                    objects_->notification(member.holder, descriptor.object, each.value);
        return {};
    }

    // The program's pause is a fork: what the copy-on-write children show is written after the programs go
    // on.
    Result<> fork_snapshots() {
        reporter_.phase("fork");
        CHECK_OK(step_back(true));
        for (auto& member : members_) {
            member.file = fmt::format("p{}.image", member.image.pid);
            auto writer = TRY(ImageWriter::create(directory_.get(), member.file, ImageKind::process));
            member.writer = std::make_unique<ImageWriter>(std::move(writer));
            member.writer->park();
            CHECK_OK(member.agent->write_detached(attached_segments(member.map, *objects_)));
            CHECK_OK(member.agent->ask(agent_snapshot, has_init_ ? 1 : 0));
        }
        for (auto& member : members_) {
            auto child = TRY(member.agent->wait(reporter_));
            member.forked = child;
        }
        CHECK_OK(step_back(false));
        for (auto& member : members_) {
            const auto forked = member.forked;
            if (forked < 0) {
                reporter_.note(fmt::format("{} was written while it stood still: fork failed ({})",
                                           proc::label(member.process->pid),
                                           std::strerror(static_cast<int>(-forked))));
            } else {
                auto child = TRY(member.agent->wait_snapshot(reporter_));
                member.snapshot = std::make_unique<Snapshot>(std::move(child));
            }
            CHECK_OK(store_early(member));
        }
        return {};
    }

    static std::vector<AgentSpan> attached_segments(const StillMap& map, const ObjectTable& objects) {
        std::vector<AgentSpan> spans;
        for (const auto& line : map.lines)
            if (const auto object = map.objects.at(line.start);
                object >= 0 && objects.object(object).type == "sysv" && spans.size() < max_detached)
                spans.push_back({line.start, line.end - line.start});
        return spans;
    }

    // Child subreapers of the group would inherit the copy-on-write children of others.
    Result<> step_back(bool back) {
        for (auto& member : members_)
            if (member.image.subreaper) CHECK_OK(member.agent->step_back(back, reporter_));
        return {};
    }

    Result<> store_early(Member& member) {
        std::vector<Range> ranges;
        if (member.snapshot == nullptr) {
            return store_all(member, member.process->living);
        }
        auto lines = TRY(proc::maps(member.snapshot->pid(), false));
        // Who marks memory at all may have marked other memory since; now it stands still.
        if (wipes_.contains(member.process->pid) ||
            std::ranges::find(request_.members, member.process->pid) == request_.members.end()) {
            auto wiped = TRY(ranges_with_flag(member.process->living, "wf"));
            member.wiped = std::move(wiped);
        }
        std::vector<StoreJob> jobs;
        for (const auto& range : not_copied(member.map, lines, member.wiped)) {
            auto& area = member.early.emplace_back();
            area.start = range.start;
            area.end = range.end;
            const auto line = std::ranges::find_if(member.map.lines, [&](const auto& other) {
                return other.start <= range.start && range.start < other.end;
            });
            if (line == member.map.lines.end()) continue;
            area.prot = line->prot;
            area.kind = line->inode != 0 ? schema::AreaKind::file_private : schema::AreaKind::anonymous;
            CHECK_OK(add_jobs(member, member.process->living, area, jobs));
        }
        return jobs.empty() ? Result<>() : store_with(member, std::move(jobs));
    }

    Result<> store_with(Member& member, std::vector<StoreJob> jobs) {
        CHECK_OK(member.writer->unpark());
        auto done = store_pages(std::move(jobs), reporter_, 0, 0);
        member.writer->park();
        return done;
    }

    Result<> add_jobs(Member& member, pid_t source, schema::Area& area, std::vector<StoreJob>& jobs) {
        auto ranges = stored_pages(source, area, std::uint64_t{1} << 20, area.guards);
        if (!ranges) return std::unexpected(std::move(ranges.error()).in(proc::label(member.process->pid)));
        for (const auto& range : *ranges)
            jobs.push_back({source, member.writer.get(), &area, range,
                            fmt::format("{} ({})", member.image.pid, member.image.name)});
        return {};
    }

    static Result<> add_memory_policies(Member& member, pid_t source) {
        auto any =
            ptrace::read_object<std::uint32_t>(source, member.image.door + offsetof(Door, memory_policies));
        if (!any) return std::unexpected(std::move(any.error()));
        if (*any == 0) return {};
        const auto living = std::ranges::find(member.image.threads, false, &schema::Thread::leader_dead);
        auto policies = memory_policies(source, {living->memory_policy, living->memory_nodes});
        if (!policies) return std::unexpected(std::move(policies.error()));
        for (auto& area : member.image.areas) {
            const auto found = policies->find(area.start);
            if (found == policies->end()) continue;
            area.memory_policy = found->second.mode;
            area.memory_nodes = found->second.nodes;
        }
        return {};
    }

    Result<> make_member_areas(Member& member, pid_t source) {
        auto flags = TRY(proc::maps(source, true));
        auto areas = TRY(make_areas(*member.process, member.map, flags, member.scratch, *objects_));
        member.image.areas = std::move(areas);
        CHECK_OK(add_memory_policies(member, source));
        for (auto& area : member.image.areas) {
            if (area.wipe_on_fork && member.snapshot != nullptr &&
                std::ranges::none_of(member.wiped, [&](const Range& range) {
                    return range.start <= area.start && area.end <= range.end;
                }))
                return fail(
                    "{}: memory at {:#x} was marked MADV_WIPEONFORK while the checkpoint began; try again",
                    proc::label(member.process->pid), area.start);
            for (const auto& early : member.early)
                for (const auto& run : early.pages)
                    if (area.start <= run.address && run.address < area.end) area.pages.push_back(run);
        }
        return {};
    }

    static bool stored_in_image(const schema::Area& area) {
        return area.kind == schema::AreaKind::anonymous || area.kind == schema::AreaKind::file_private;
    }

    Result<> store_all(Member& member, pid_t source) {
        CHECK_OK(make_member_areas(member, source));
        std::vector<StoreJob> jobs;
        for (auto& area : member.image.areas) {
            if (!stored_in_image(area)) continue;
            CHECK_OK(add_jobs(member, source, area, jobs));
        }
        return store_with(member, std::move(jobs));
    }

    Result<> resume() {
        for (auto& member : members_) CHECK_OK(member.agent->leave(reporter_));
        for (auto& member : members_) {
            const auto asked_for = std::chrono::steady_clock::now() - member.timers_asked;
            CHECK_OK(collect_firings(*member.process, asked_for, to_program_, member.image));
        }
        note_clocks();
        // What one sends from here on must not be found by another who is still looking.
        if (request_.joint) CHECK_OK(error_of(reporter_.meet("captured", nlohmann::json::object())));
        reporter_.phase("resume");
        if (!request_.hold) stopper_->let_go();
        reporter_.end_deadline();
        return {};
    }

    Result<> write() {
        reporter_.phase("write");
        std::vector<StoreJob> jobs;
        for (auto& member : members_) {
            if (member.snapshot == nullptr) continue;  // written already
            CHECK_OK(make_member_areas(member, member.snapshot->pid()));
            for (auto& area : member.image.areas) {
                const bool early = std::ranges::any_of(member.early, [&](const auto& other) {
                    return other.start <= area.start && area.end <= other.end;
                });
                if (early || !stored_in_image(area)) continue;
                CHECK_OK(add_jobs(member, member.snapshot->pid(), area, jobs));
            }
        }
        std::uint64_t total = 0;
        for (const auto& job : jobs) total += job.range.end - job.range.start;
        CHECK_OK(store_in_batches(jobs, total));
        for (auto& member : members_) member.snapshot.reset();
        CHECK_OK(objects_->finish());
        return finish_images();
    }

    // So many images at a time are open as descriptors can be spared for. The jobs of an image stand
    // together.
    Result<> store_in_batches(const std::vector<StoreJob>& jobs, std::uint64_t total) {
        constexpr std::size_t most = 128;
        std::uint64_t already = 0;
        for (std::size_t begin = 0, end = 0; begin < jobs.size(); begin = end) {
            std::set<ImageWriter*> open;
            std::uint64_t bytes = 0;
            for (; end < jobs.size() && (open.size() < most || open.contains(jobs[end].writer)); ++end) {
                open.insert(jobs[end].writer);
                bytes += jobs[end].range.end - jobs[end].range.start;
            }
            for (auto* writer : open) CHECK_OK(writer->unpark());
            const auto first = jobs.begin() + static_cast<std::ptrdiff_t>(begin);
            auto done = store_pages({first, jobs.begin() + static_cast<std::ptrdiff_t>(end)}, reporter_,
                                    already, total);
            if (!done) return done;
            for (auto* writer : open) writer->park();
            already += bytes;
        }
        return {};
    }

    Result<> finish_images() {
        reporter_.phase("sync");
        auto notes = objects_->notes();
        const auto objects = objects_->take();
        std::vector<schema::Process> processes;
        for (auto& member : members_) {
            member.writer->add_section(SectionType::meta, schema::encode(member.image));
            CHECK_OK(member.writer->unpark());
            auto bytes = member.writer->finish(Durable::yes);
            member.writer.reset();
            if (!bytes) return std::unexpected(std::move(bytes.error()));
            add_to_manifest(member.image, member.file, *bytes);
            processes.push_back(std::move(member.image));
        }
        for (auto& zombie : zombies_) {
            zombie.cid = request_.cid;
            zombie.np = manifest_.np;
            const auto file = fmt::format("z{}.image", zombie.pid);
            auto writer = TRY(ImageWriter::create(directory_.get(), file, ImageKind::process));
            writer.add_section(SectionType::meta, schema::encode(zombie));
            auto bytes = TRY(writer.finish(Durable::yes));
            add_to_manifest(zombie, file, bytes);
            processes.push_back(std::move(zombie));
        }
        objects_writer_->add_section(SectionType::objects, schema::encode(objects));
        std::vector<const schema::Process*> all;
        for (const auto& process : processes) all.push_back(&process);
        if (auto good = check_demands(all, objects); !good)
            return std::unexpected(
                std::move(good.error())
                    .in("a restart would refuse this checkpoint, which is given up; try again"));
        auto bytes = TRY(objects_writer_->finish(Durable::yes));
        manifest_.images.push_back({"objects.image", "", 0, "", bytes, 0});
        manifest_.bytes += bytes;
        make_parts(processes, objects, manifest_);
        auto too_many = too_many_to_restart(processes, objects);
        if (!too_many) return std::unexpected(std::move(too_many.error()));
        if (!too_many->empty()) reporter_.note(std::move(*too_many));
        notes.insert(notes.begin(), reporter_.notes().begin(), reporter_.notes().end());
        manifest_.notes = condense(notes);
        return {};
    }

    void add_to_manifest(const schema::Process& process, const std::string& file, std::uint64_t bytes) {
        manifest_.images.push_back({file, process.uid, process.pid, process.name, bytes, 0});
        manifest_.bytes += bytes;
    }

    const Request& request_;
    Clock::time_point began_;  // the first look
    SessionRegions& regions_;
    Reporter& reporter_;
    Fd directory_;
    std::optional<Stopper> stopper_;
    ToProgram to_program_;
    std::set<pid_t> asked_for_;  // Request::members
    Strangers strangers_;
    std::map<pid_t, Strangers::Stranger> come_;        // since the look ahead
    std::map<pid_t, Clock::time_point> unregistered_;  // candidates, when they were looked at
    std::set<pid_t> wipes_;                            // whose memory is marked MADV_WIPEONFORK
    std::list<Member> members_;
    std::vector<schema::Process> zombies_;
    std::optional<ObjectTable> objects_;
    std::unique_ptr<ImageWriter> objects_writer_;
    bool has_init_ = false;  // pid 1 of the pid namespace is in the group
    schema::Manifest manifest_;
};

}  // namespace

Result<> checkpoint(const Request& request, SessionRegions& regions, Reporter& reporter,
                    const std::function<void(const schema::Manifest&)>& finished) {
    return Checkpoint(request, regions, reporter).take(finished);
}

}  // namespace cairn::capture
