#include "restart/restart.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "common/client.h"
#include "common/descriptor_room.h"
#include "common/human.h"
#include "common/io_uring_filter.h"
#include "common/region.h"
#include "common/region_ops.h"
#include "common/session.h"
#include "restart/computation.h"
#include "restart/forest/execute.h"
#include "restart/launched.h"
#include "restart/moved_hosts.h"
#include "restart/notes.h"
#include "restart/objects/addresses.h"
#include "restart/objects/locks.h"
#include "restart/objects/system_v.h"
#include "restart/old_ids.h"
#include "restart/pages/choice.h"
#include "restart/pages/service.h"
#include "restart/pmi/launcher.h"
#include "restart/privileges.h"
#include "restart/rebuild.h"
#include "restart/regions.h"
#include "restart/stage.h"
#include "restart/tell.h"
#include "restart/terminal/outer.h"

namespace cairn::restart {
namespace {

using Clock = std::chrono::steady_clock;

class Restart {
  public:
    explicit Restart(const Options& options) : options_(options) {}

    Result<int> run() {
        // The restored foreground group has the terminal before its settings are put back.
        ::signal(SIGPIPE, SIG_IGN);  // that nobody reads what we say is no reason to end
        sigset_t stop;
        sigemptyset(&stop);
        sigaddset(&stop, SIGTTOU);
        ::sigprocmask(SIG_BLOCK, &stop, nullptr);
        for (const auto pass : {&Restart::read, &Restart::plan, &Restart::join, &Restart::choose_ids,
                                &Restart::choose_clocks, &Restart::choose_terminal, &Restart::open_objects,
                                &Restart::choose_memory, &Restart::make_forest, &Restart::enter,
                                &Restart::rebuild, &Restart::await_release, &Restart::go}) {
            auto done = (this->*pass)();
            notes_.print(options_.quiet);
            if (!done) {
                give_up();
                return std::unexpected(std::move(done.error()));
            }
            if (finished_) return 0;
        }
        return stay();
    }

  private:
    Result<> read() {
        auto directory = TRY(find_part(options_.directory, options_.host, options_.trust_folder));
        auto computation = TRY(read_computation(directory, options_.parts));
        computation_.emplace(std::move(computation));
        for (auto& image : computation_->processes) {
            if (image.process.run != schema::Run::zombie) living_.push_back(&image);
            processes_.push_back(image.process);
        }
        name_objects();
        keep_own_objects();
        return check_machine(*computation_);
    }

    // Another part's files are none of our business.
    void keep_own_objects() {
        if (options_.parts.empty()) return;
        std::set<std::int64_t> used;
        for (const auto* image : living_) {
            const auto& process = image->process;
            used.insert({process.executable, process.cwd, process.root, process.terminal});
            for (const auto& descriptor : process.descriptors) used.insert(descriptor.object);
            for (const auto& area : process.areas) used.insert(area.object);
        }
        auto& list = computation_->objects.front().objects.objects;
        for (const auto& object : list)
            if (used.contains(object.id) && object.backing >= 0) used.insert(object.backing);
        std::erase_if(list, [&](const schema::Object& object) {
            return !used.contains(object.id) && !is_system_v(object);
        });
        name_objects();
    }

    void name_objects() {
        object_by_id_.clear();
        for (const auto& object : objects().objects) object_by_id_[object.id] = &object;
    }

    Result<> plan() {
        nodes_ = forest::nodes_of(processes_);
        auto plan = forest::make_plan(nodes_);
        if (!plan) return std::unexpected(std::move(plan.error()).in("forest"));
        plan_ = std::move(*plan);
        tie_to_tool(living_, nodes_, ignored_);
        return {};
    }

    // The restart barrier: CID and np (spec, section 3). Returns when all parts are here.
    Result<> join() {
        object_options_.files = options_.files;
        object_options_.path_map = options_.path_map;
        object_options_.directory = computation_->directory;
        object_options_.access = Access(objects(), processes_, object_options_.directory);
        // for tests of what is done where the descriptors don't fit
        const bool few = std::getenv("CAIRN_FEW_DESCRIPTORS") != nullptr;
        auto room = TRY(find_descriptor_room(processes_, objects(), raise_descriptor_limit(), few));
        object_options_.floor = room.floor;
        object_options_.width = room.width;
        ObjectSet::prefer_files(objects(), object_options_, notes_.list);
        name_objects();
        CHECK_OK(check_files(objects(), object_options_, notes_.list));
        for (const auto* member : living_) {
            const auto& process = member->process;
            if (own_privileges().bounding_of(process) == process.cap_bounding) continue;
            notes_.list.push_back(
                fmt::format("process {} ({}) had a smaller capability bounding set, which only a restart "
                            "with CAP_SETPCAP can give it",
                            process.pid, process.name));
        }
        if (options_.check_only) {
            finished_ = true;
            return {};
        }
        notes_.print(options_.quiet);
        auto session =
            make_session(options_.session.empty() ? computation_->manifest.session : options_.session);
        if (!session) return fail_code(ExitCode::no_coordinator, "{}", session.error());
        session_ = *session;
        // A coordinator that we start puts its checkpoints where this one is: D of D/<cid>/<generation>. Not
        // that of a copy in another session: it would take the place of the newest one.
        std::error_code error;
        auto computation = std::filesystem::canonical(computation_->directory, error).parent_path();
        if (!computation_->manifest.hosts.empty()) computation = computation.parent_path();
        if (computation.filename() == computation_->manifest.cid &&
            session_.name == computation_->manifest.session)
            ::setenv("CAIRN_CKPTDIR", computation.parent_path().c_str(), 0);
        auto client = TRY(CoordinatorClient::connect_or_start(session_));
        client_.emplace(std::move(client));
        CHECK_OK(send_join());
        CHECK_OK(await_event("go", options_.wait_seconds));
        places_ = last_event_.value("parts", nlohmann::json::array());
        return {};
    }

    // Ends of connections to other parts, for the coordinator; theirs, from it.
    Result<nlohmann::json> meet_links(const nlohmann::json& ends) {
        constexpr std::size_t most = 500;
        for (std::size_t at = 0; at < ends.size(); at += most) {
            nlohmann::json some = nlohmann::json::array();
            for (std::size_t i = at; i < std::min(ends.size(), at + most); ++i) some.push_back(ends[i]);
            auto sent =
                client_->send({{"verb", "restart-links"}, {"ends", some}, {"more", at + most < ends.size()}});
            if (!sent) return std::unexpected(std::move(sent.error()));
        }
        nlohmann::json others = nlohmann::json::array();
        do {
            // Another part may wait for a port, a minute long; if it goes the coordinator says so.
            if (auto done = await_event("links", 180); !done)
                return std::unexpected(std::move(done.error()).in("connections to other parts"));
            for (const auto& end : last_event_.value("ends", nlohmann::json::array())) others.push_back(end);
        } while (last_event_.value("more", false));
        return others;
    }

    Result<> still_wanted() {
        if (given_up_) return std::unexpected(*given_up_);
        auto event = client_->next(std::chrono::milliseconds(0));
        if (!event)
            given_up_ = std::move(event.error());
        else if (*event && (**event).value("event", "") == "failed")
            given_up_ = error_of(**event);
        return given_up_ ? Result<>(std::unexpected(*given_up_)) : Result<>();
    }

    Result<> send_join() {
        const auto& manifest = computation_->manifest;
        nlohmann::json parts = nlohmann::json::array();
        for (const auto& part : manifest.parts)
            parts.push_back({{"number", part.number},
                             {"host", part.host},
                             {"terminal", part.terminal},
                             {"processes", part.pids.size()}});
        nlohmann::json message = {{"verb", "restart-join"},
                                  {"cid", manifest.cid},
                                  {"np", manifest.np},
                                  {"generation", manifest.generation},
                                  {"directory", computation_->directory},
                                  {"part", own_parts()},
                                  {"parts", parts}};
        return send_members(std::move(message), [](const ProcessImage& image) {
            return nlohmann::json{{"uid", image.process.uid}, {"pid", image.process.pid}};
        });
    }

    // Of the whole, those of this host where there are several.
    [[nodiscard]] std::vector<int> own_parts() const {
        if (!options_.parts.empty() || computation_->manifest.hosts.empty()) return options_.parts;
        for (const auto& host : computation_->manifest.hosts)
            if (host.name == computation_->manifest.host) return {host.parts.begin(), host.parts.end()};
        return {};
    }

    // Too many members for one message go in several.
    template <class Make>
    Result<> send_members(nlohmann::json message, const Make& make) {
        constexpr std::size_t most = 500;
        for (std::size_t begin = 0; begin < living_.size() || begin == 0; begin += most) {
            const auto end = std::min(begin + most, living_.size());
            auto& members = message["members"] = nlohmann::json::array();
            for (std::size_t i = begin; i < end; ++i) members.push_back(make(*living_[i]));
            if (end < living_.size())
                message["more"] = true;
            else
                message.erase("more");
            CHECK_OK(client_->send(message));
            message.erase("parts");  // once is enough
        }
        return {};
    }

    Result<> await_event(const std::string& name, std::optional<int> seconds) {
        const auto deadline = Clock::now() + std::chrono::seconds(seconds.value_or(0));
        std::string waiting = "the coordinator has not said";
        auto heard = Clock::now();
        for (;;) {
            auto event = client_->next(std::chrono::milliseconds(200));
            if (!event) return std::unexpected(std::move(event.error()));
            if (*event || Clock::now() - heard > CoordinatorClient::unasked) {
                CHECK_OK(*event ? Result<>() : client_->ask_whether_alive());
                heard = Clock::now();
            }
            if (*event) {
                const auto& what = (**event).value("event", "");
                if (what == name) {
                    last_event_ = std::move(**event);
                    return {};
                }
                if (what == "failed") return std::unexpected(error_of(**event));
                if (what == "waiting") waiting = describe_waiting(**event);
            }
            if (seconds && Clock::now() > deadline)
                return fail_code(ExitCode::timed_out, "gave up after {} s: {}", *seconds, waiting);
        }
    }

    std::string describe_waiting(const nlohmann::json& event) const {
        const std::string text = describe_missing(event, computation_->directory);
        if (!options_.quiet && event.value("have", 0) < event.value("np", 0))
            tell("cairn: waiting: {}\n", text);
        return text;
    }

    Result<> choose_ids() {
        CHECK_OK(regions_.open(session_, processes_, object_options_.floor));
        std::vector<pid_t> leaders;  // of sessions and groups, who have exited: their ids are taken as well
        for (const auto& process : plan_.processes)
            if (process.exact) leaders.push_back(process.id);
        if (options_.ids == Ids::exact)  // the forest says by name who is in the way
            (void)old_ids_free(processes_, leaders, std::chrono::seconds(10));
        exact_ = options_.ids == Ids::exact;
        if (options_.ids == Ids::automatic)
            exact_ = ::geteuid() == 0 && old_ids_free(processes_, leaders, std::chrono::seconds(3));
        object_options_.exact_ids = exact_;
        if (exact_) object_options_.avoid = ids_of(processes_, leaders);
        object_options_.region = &regions_.owners();
        object_options_.meet_links = [this](const nlohmann::json& ends) { return meet_links(ends); };
        object_options_.still_wanted = [this] { return still_wanted(); };
        object_options_.hosts = addresses_now(places_);
        note_moved_hosts(computation_->manifest, places_, regions_.owners().sockets);
        to_kernel_ = [this](pid_t id) { return exact_ ? id : to_real(regions_.owners().ids, id); };
        return {};
    }

    Result<> choose_clocks() {
        (void)own_privileges();  // a user namespace would change what we see of ourselves
        own_clocks_ =
            proc::clock_offsets("self");  // once there is a namespace for children, the kernel shows that one
        auto shift = TRY(continue_clocks(computation_->manifest, options_.clocks));
        clock_shift_ = shift;
        return {};
    }

    Result<> choose_terminal() {
        const schema::Object* image = nullptr;
        bool leader_is_ours = false;
        for (const auto* member : living_) {
            const auto& process = member->process;
            const auto object = object_by_id_.find(process.terminal);
            if (object == object_by_id_.end() || object->second->kind != schema::ObjectKind::terminal)
                continue;
            image = object->second;
            const auto node = std::ranges::find(nodes_, process.pid, &forest::Node::pid);
            if (node != nodes_.end() && !node->session_outside) leader_is_ours = true;
        }
        auto terminal = TRY(OuterTerminal::choose(image, leader_is_ours));
        terminal_ = std::move(terminal);
        if (terminal_.fd() >= 0) {
            terminal_fd_ = Fd(::fcntl(terminal_.fd(), F_DUPFD, object_options_.floor));
            object_options_.terminal = terminal_fd_.get();
            object_options_.terminal_modes = terminal_.foreground();
        }
        return {};
    }

    // In a process that has just become a session's leader.
    void take_terminal(forest::Id session) const {
        for (const auto* member : living_) {
            const auto& process = member->process;
            if (process.sid != session || process.terminal < 0) continue;
            const Lent terminal = objects_->controlling_terminal(process);
            if (terminal && take_as_controlling(terminal.get(), process)) return;
        }
    }

    // Each member of what was the foreground group says so itself: only a process of the session may.
    void take_foreground(const schema::Process& process) const {
        if (process.terminal < 0 || process.foreground != process.pgid) return;
        const auto node = std::ranges::find(nodes_, process.pid, &forest::Node::pid);
        if (node == nodes_.end() || node->group_outside) return;
        const auto object = object_by_id_.find(process.terminal);
        const bool outer =
            object != object_by_id_.end() && object->second->kind == schema::ObjectKind::terminal;
        if (outer && !terminal_.foreground()) return;
        const Lent terminal = objects_->controlling_terminal(process);
        if (!terminal) return;
        sigset_t block, before;
        sigemptyset(&block);
        sigaddset(&block, SIGTTOU);
        ::sigprocmask(SIG_BLOCK, &block, &before);
        (void)ObjectSet::set_foreground(terminal.get(), ::getpgrp());
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
    }

    Result<> open_objects() {
        auto set = TRY(ObjectSet::open_all(objects(), computation_->objects.front().reader, object_options_,
                                           notes_.list));
        objects_.emplace(std::move(set));
        CHECK_OK(take_locks(*objects_, processes_));
        CHECK_OK(open_system_v());
        // Each process opens its own image, at a number that is kept free for it; above the floor as well.
        image_place_ = Fd(::fcntl(regions_.owners_fd().get(), F_DUPFD, object_options_.floor));
        if (!image_place_) return fail_errno("descriptor for images");
        return objects_->settle();
    }

    // Each part of a computation makes all of them; the lock lets a second one find what the first has made.
    Result<> open_system_v() {
        if (std::ranges::none_of(objects().objects, is_system_v)) return {};
        if (::flock(regions_.owners_fd().get(), LOCK_EX) != 0)
            return fail_errno("locking the session's region");
        auto done = system_v_.open_all(objects(), computation_->objects.front().reader, regions_.owners().ipc,
                                       notes_.list);
        ::flock(regions_.owners_fd().get(), LOCK_UN);
        return done;
    }

    Result<> choose_memory() {
        auto lazy = TRY(pages::choose_lazy(options_.memory));
        lazy_ = lazy;
        return {};
    }

    Result<> make_forest() {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        ::sigprocmask(SIG_BLOCK, &set, nullptr);
        auto stage = TRY(Stage::create(living_.size()));
        stage_.emplace(std::move(stage));
        const pid_t tool = ::getpid();
        forest::Execution how;
        how.exact_ids = exact_;
        how.become = [this, tool](const forest::Node& node) {
            ::prctl(PR_SET_PTRACER, tool);  // an orphan is no descendant of ours: yama would refuse
            for (std::size_t i = 0; i < living_.size(); ++i)
                if (living_[i]->process.pid == node.pid) become(i);
            ::_exit(127);
        };
        how.lead = [this](forest::Id session) { take_terminal(session); };
        auto made = forest::execute(plan_, how);
        if (!made) return std::unexpected(std::move(made.error()).in("forest"));
        forest_.emplace(std::move(*made));
        for (auto& note : forest_->notes) notes_.list.push_back(note);
        if (!exact_)
            for (const auto& [old_id, new_id] : forest_->real)
                if (old_id != new_id && !insert_id(regions_.owners().ids, old_id, new_id))
                    return fail("the map of virtual ids is full");
        return {};
    }

    // Pass 7, in the process itself: descriptors into place, then the program's own executable.
    [[noreturn]] void become(std::size_t index) {
        stage_->await(index);
        const auto& process = living_[index]->process;
        take_foreground(process);
        const auto image = living_[index]->reader.open_again();
        if (!image || ::dup2(image->get(), image_place_.get()) < 0) {
            stage_->report(index, image ? std::strerror(errno) : image.error().what);
            ::_exit(127);
        }
        std::vector<int> keep = {regions_.of(process).fd.get(), image_place_.get()};
        const auto want = [&](std::int64_t object) {
            if (const int fd = objects_->fd_of(object); fd >= 0) keep.push_back(fd);
        };
        for (const auto id : {process.cwd, process.root, process.executable}) want(id);
        for (const auto& area : process.areas) want(area.object);
        std::ranges::sort(keep);
        keep.erase(std::ranges::unique(keep).begin(), keep.end());
        if (auto done = objects_->install(process, keep, to_kernel_); !done) {
            stage_->report(index, done.error().what);
            ::_exit(127);
        }
        if (const int problem = process.io_uring_off ? turn_io_uring_off() : 0; problem != 0) {
            stage_->report(
                index,
                fmt::format("was launched with --io-uring=enosys, and no seccomp filter can be had: {}",
                            std::strerror(problem)));
            ::_exit(127);
        }
        sigset_t all;
        sigfillset(&all);
        ::sigprocmask(SIG_SETMASK, &all, nullptr);
        char name[] = "cairn-restart";
        char* const arguments[] = {name, nullptr};
        char* const environment[] = {nullptr};
        ::syscall(SYS_execveat, objects_->place_of(process, process.executable), "", arguments, environment,
                  AT_EMPTY_PATH);
        stage_->report(index, fmt::format("{} can't be executed: {}", path_of(process.executable),
                                          std::strerror(errno)));
        ::_exit(127);
    }

    [[nodiscard]] std::string path_of(std::int64_t id) const {
        const auto found = object_by_id_.find(id);
        return found == object_by_id_.end() ? "?" : found->second->path;
    }

    Result<> enter() {
        CHECK_OK(objects_->open_processes(to_kernel_));
        for (std::size_t i = 0; i < living_.size(); ++i) {
            const auto& process = living_[i]->process;
            const pid_t pid = forest_->real.at(process.pid);
            if (auto done = ptrace::seize(pid, PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
                !done)
                return std::unexpected(std::move(done.error()).in(fmt::format("process {}", process.pid)));
            RebuildContext context;
            context.process = &process;
            context.image_fd = image_place_.get();
            context.image_path = living_[i]->reader.path();
            context.objects = &*objects_;
            context.system_v = &system_v_;
            context.ipc = &regions_.owners().ipc;
            context.region_fd = regions_.of(process).fd.get();
            context.close_from = object_options_.width == 0 ? object_options_.floor : -1;
            context.exact_ids = exact_;
            context.lazy = lazy_;
            context.clock_shift = clock_shift_;
            context.to_kernel = to_kernel_;
            context.path_of = [this](std::int64_t id) { return path_of(id); };
            auto rebuild = std::make_unique<Rebuild>(pid, std::move(context));
            rebuild->set_stopped_children(stopped_children_of(process, true),
                                          !stopped_children_of(process, false).empty());
            index_of_[pid] = i;
            process_of_[pid] = pid;
            rebuilds_[pid] = std::move(rebuild);
        }
        CHECK_OK(start_page_server());
        for (std::size_t i = 0; i < living_.size(); ++i) stage_->release(i);
        return {};
    }

    // Before anybody needs it: the blob itself touches memory that isn't there yet.
    Result<> start_page_server() {
        pages::Work work;
        for (const auto& each : regions_.all()) work.regions.push_back({each.region, each.key});
        for (const auto& [pid, rebuild] : rebuilds_) {
            if (rebuild->lazy_runs().empty()) continue;
            const auto image = index_of_.at(pid);
            const auto number = static_cast<std::uint32_t>(work.processes.size());
            auto opened = TRY(living_[image]->reader.open_again());
            image_fds_.push_back(std::move(opened));
            work.processes.push_back({pid, rebuild->process().name, living_[image]->reader.path(),
                                      image_fds_.back().get(), rebuild->lazy_runs()});
            rebuild->set_server(
                [this, number, pid](int there) { return page_service_->provide(number, pid, there); });
        }
        if (work.processes.empty()) return {};
        auto service = TRY(pages::Service::start(std::move(work), session_.pages()));
        page_service_ = std::move(service);
        return {};
    }

    // Children that will stop once more. `told`: those that the program has heard of already.
    [[nodiscard]] std::vector<std::int32_t> stopped_children_of(const schema::Process& parent,
                                                                bool told) const {
        std::vector<std::int32_t> result;
        for (const auto& process : processes_)
            if (process.ppid == parent.pid && process.run == schema::Run::stopped &&
                (process.stop_reported || !told))
                result.push_back(forest_->real.at(process.pid));
        return result;
    }

    Result<> rebuild() {
        std::size_t complete = 0;
        while (complete < rebuilds_.size()) {
            const auto happening = next_event(process_of_, 100);
            if (happening.tid == 0) continue;
            if (happening.event == Event::ended && page_service_ &&
                page_service_->ended(happening.tid, happening.detail))
                continue;
            auto process = process_of_.find(happening.tid);
            if (process == process_of_.end()) {
                if (happening.event == Event::ended) continue;  // a reader, or somebody's placeholder
                auto status = proc::status(happening.tid, happening.tid);
                const pid_t leader = status ? std::atoi((*status)["Tgid"].c_str()) : 0;
                if (!rebuilds_.contains(leader)) continue;
                process = process_of_.emplace(happening.tid, leader).first;
            }
            auto& rebuild = *rebuilds_.at(process->second);
            switch (happening.event) {
                case Event::execed:
                    CHECK_OK(rebuild.enter());
                    break;
                case Event::trapped: {
                    auto done = TRY(rebuild.trapped(happening.tid));
                    if (done) ++complete;
                    break;
                }
                case Event::stopped:
                    (void)ptrace::resume(happening.tid, 0);
                    break;
                case Event::ended:
                    return ended(rebuild, happening);
                case Event::crashed:
                    if (happening.detail == SIGSEGV || happening.detail == SIGBUS ||
                        happening.detail == SIGILL)
                        return fail("process {} ({}) crashed while it was rebuilt: {}", rebuild.process().pid,
                                    rebuild.process().name, ::strsignal(happening.detail));
                    (void)ptrace::resume(happening.tid, happening.detail);
                    break;
            }
        }
        return {};
    }

    Result<> ended(const Rebuild& rebuild, const Happening& happening) {
        const auto why = stage_->reported(index_of_.at(rebuild.pid()));
        return fail(
            "process {} ({}) {}", rebuild.process().pid, rebuild.process().name,
            why.empty() ? fmt::format("ended while it was rebuilt (status {:#x})", happening.detail) : why);
    }

    // Everybody stands still, complete. The second barrier: nobody runs before all do.
    Result<> await_release() {
        auto ahead = proc::clock_offsets(std::to_string(rebuilds_.begin()->first));
        ahead = {ahead.monotonic - own_clocks_.monotonic, ahead.boottime - own_clocks_.boottime};
        CHECK_OK(objects_->after_forest(to_kernel_, ahead, notes_.list));
        if (!exact_)
            for (const auto& [pid, rebuild] : rebuilds_)
                for (const auto& [image_tid, real_tid] : rebuild->thread_ids())
                    if (image_tid != real_tid && !insert_id(regions_.owners().ids, image_tid, real_tid))
                        return fail("the map of virtual ids is full");
        for (const auto* image : living_)
            for (const auto& undo : image->process.undo)
                promise_undo(regions_.of(image->process).region->ipc, forest_->real.at(image->process.pid),
                             undo_key(undo.semaphores, static_cast<std::uint32_t>(undo.number)), undo.adjust);
        system_v_.attached();
        regions_.owners().life.store(life_of(static_cast<std::uint64_t>(computation_->manifest.generation)),
                                     std::memory_order_release);
        regions_.share_names();
        for (auto* image : living_) {
            Region& region = *regions_.of(image->process).region;
            const auto index = claim_slot(region, 0);
            if (index == no_slot)
                return fail_code(
                    ExitCode::refused,
                    "the session's table of processes is full: {} are to be restored, and of its {} "
                    "places too few are left; restart them in another --session",
                    living_.size(), slots_of(region));
            auto& slot = region.slots[index];
            slot.door.store(image->process.door);
            slot_of_[image->process.pid] = {&region, index};
        }
        CHECK_OK(start_launcher());
        notes_.print(options_.quiet);
        auto done = send_members({{"verb", "restart-ready"}}, [this](const ProcessImage& image) {
            const SessionRegion& region = regions_.of(image.process);
            nlohmann::json member = {{"uid", image.process.uid},
                                     {"pid", image.process.pid},
                                     {"real", forest_->real.at(image.process.pid)},
                                     {"slot", slot_of_.at(image.process.pid).second},
                                     {"door", image.process.door},
                                     {"region_at", image.process.region_at}};
            if (!region.owners) member["user"] = region.user;
            return member;
        });
        if (!done) return done;
        return await_event("release", {});
    }

    // MPI ranks whose launcher was outside: somebody has to answer them.
    Result<> start_launcher() {
        auto ranks = TRY(pmi::find_ranks(objects(), processes_, *objects_, to_kernel_, notes_.list));
        if (ranks.empty()) return {};
        auto launcher = TRY(pmi::start_launcher(std::move(ranks)));
        launcher_ = launcher;
        return {};
    }

    Result<> go() {
        auto changed = objects_->change_files(computation_->objects.front().reader, notes_.list);
        if (!changed) return changed;
        notes_.print(options_.quiet);
        std::vector<pid_t> launched;
        for (const auto id : launched_programs(nodes_)) launched.push_back(forest_->real.at(id));
        deputy_.emplace(std::move(launched), ignored_);
        CHECK_OK(stop_again());
        for (auto* rebuild : running_) CHECK_OK(rebuild->prepare_to_go());
        for (auto* rebuild : running_) {
            rebuild->set_limits(notes_.list);
            CHECK_OK(rebuild->set_threads());
        }
        for (auto* rebuild : running_) rebuild->go();
        released_ = true;
        if (page_service_) page_service_->release();
        (void)client_->send({{"verb", "restart-done"}});
        if (!options_.quiet)
            tell("cairn: {} of computation {} {} on (generation {})\n",
                 human_count(living_.size(), "process", "processes"), computation_->manifest.cid,
                 living_.size() == 1 ? "goes" : "go", computation_->manifest.generation);
        return {};
    }

    // Those that stood still by job control: children first, so that their parents can be told, and not tell
    // the program.
    Result<> stop_again() {
        std::vector<std::pair<int, Rebuild*>> stopped;
        for (auto& [pid, rebuild] : rebuilds_) {
            if (rebuild->process().run != schema::Run::stopped) {
                running_.push_back(rebuild.get());
                continue;
            }
            int depth = 0;
            for (pid_t id = rebuild->process().ppid;; ++depth) {
                const auto parent = std::ranges::find(processes_, id, &schema::Process::pid);
                if (parent == processes_.end()) break;
                id = parent->ppid;
            }
            stopped.emplace_back(-depth, rebuild.get());
        }
        std::ranges::sort(stopped);
        for (auto& [depth, rebuild] : stopped) {
            CHECK_OK(rebuild->prepare_to_go());
            rebuild->set_limits(notes_.list);
            CHECK_OK(rebuild->set_threads());
            rebuild->go();
            for (int tries = 0; tries < 1000; ++tries) {
                auto stat = proc::stat(rebuild->pid());
                if (!stat || stat->state == 'T') break;
                ::usleep(1000);
            }
        }
        return {};
    }

    // The tool is the parent of the computation's roots now, as the shell was: it waits for them.
    Result<int> stay() {
        objects_.reset();
        image_fds_.clear();
        image_place_.reset();
        regions_.close_descriptors();
        client_.reset();
        terminal_fd_.reset();
        auto result = terminal_.stay(forest_->real.at(first_process(processes_)), *deputy_,
                                     [this](pid_t child, int status) {
                                         if (child == launcher_) launcher_ = -1;
                                         if (page_service_) page_service_->ended(child, status);
                                     });
        // As a launcher: ends when all ranks have.
        if (launcher_ > 0) (void)::waitpid(launcher_, nullptr, 0);
        if (!result) return result;
        page_service_.reset();
        deputy_.reset();
        return end_as(*result);
    }

    void give_up() {
        if (forest_ && !released_) (void)forest_->kill_all();
        if (!released_) system_v_.undo();
        if (regions_.is_open() && forest_ && !exact_)
            for (const auto& [old_id, new_id] : forest_->real)
                for (const auto& each : regions_.all()) remove_id(each.region->ids, old_id, new_id);
        for (const auto& [pid, slot] : slot_of_) release_slot(*slot.first, slot.second);
    }

    [[nodiscard]] schema::Objects& objects() { return computation_->objects.front().objects; }

    const Options& options_;
    bool finished_ = false, released_ = false, exact_ = false;
    std::optional<Computation> computation_;
    std::vector<ProcessImage*> living_;
    std::vector<schema::Process> processes_;
    std::map<std::int64_t, const schema::Object*> object_by_id_;
    std::vector<forest::Node> nodes_;
    forest::Plan plan_;
    std::uint64_t ignored_ = ignored_signals();
    std::optional<Deputy> deputy_;
    OuterTerminal terminal_;
    Fd terminal_fd_;
    Session session_;
    std::optional<CoordinatorClient> client_;
    nlohmann::json last_event_, places_;  // what the coordinator said last; where each part is now
    std::optional<Error> given_up_;       // elsewhere, while we waited for another part
    Regions regions_;
    Translate to_kernel_;
    proc::ClockOffsets own_clocks_;
    std::int64_t clock_shift_ = 0;
    ObjectSetOptions object_options_;
    std::optional<ObjectSet> objects_;
    SystemV system_v_;
    Fd image_place_;             // the number that each process has its image at
    std::vector<Fd> image_fds_;  // for the page server
    std::optional<Stage> stage_;
    std::optional<forest::Forest> forest_;
    std::map<pid_t, std::size_t> index_of_;
    std::map<pid_t, pid_t> process_of_;
    std::map<pid_t, std::unique_ptr<Rebuild>> rebuilds_;
    std::vector<Rebuild*> running_;  // not stopped by job control
    std::map<pid_t, std::pair<Region*, std::int32_t>> slot_of_;
    Notes notes_;
    bool lazy_ = false;
    pid_t launcher_ = -1;  // start_launcher()
    std::unique_ptr<pages::Service> page_service_;
};

}  // namespace

Result<int> restart(const Options& options) {
    return Restart(options).run();
}

}  // namespace cairn::restart
