#include "coordinator/root.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "common/human.h"
#include "coordinator/attempt.h"

namespace cairn::coordinator {

using namespace std::chrono_literals;

Root::Root(Office office)
    : s_(std::move(office)),
      registry_(s_.programs.registry()),
      barrier_(group_, registry_, s_.note,
               [this] {
                   changed();
                   s_.check_idle();
               }),
      hosts_(s_.io, hosts_handler()),
      checkpointer_({.io = s_.io,
                     .session = s_.session,
                     .regions = s_.regions,
                     .registry = registry_,
                     .group = group_,
                     .everybody = s_.everybody,
                     .folders_in_use = [this] { return barrier_.folders_in_use(); },
                     .kill_group = [this] { return s_.programs.kill_all(); },
                     .keep = [this] { return s_.settings.keep; },
                     .ckptdir = [this] { return s_.settings.ckptdir; },
                     .hosts = hosts_,
                     .host = s_.settings.host,
                     .published =
                         [this](const wire::CheckpointDone& done) {
                             last_ = done;
                             changed();
                         },
                     .idle = [this] { s_.check_idle(); }}),
      interval_timer_(s_.io) {
    barrier_.addresses_of = [this](Peer::Id client) {
        const Host* host = hosts_.find(client >> 40);
        return host != nullptr ? host->addresses : own_addresses();
    };
    barrier_.site_of = [this](Peer::Id client) {
        const Host* host = hosts_.find(client >> 40);
        return host != nullptr ? host->site : std::string();
    };
}

void Root::recall(const Memory& memory) {
    if (memory.cid != Group::no_cid) group_.adopt(memory.cid);
    if (auto last = wire::unpack<wire::CheckpointDone>(memory.last)) last_ = std::move(*last);
}

// A restart that is pending ends with its coordinator: the next one begins with ?.
Role::Memory Root::memory() const {
    return {group_.state() == Group::State::running ? group_.cid() : Group::no_cid,
            last_ ? pack(*last_) : Json()};
}

Result<> Root::start() {
    if (registry_.members().empty() && group_.state() == Group::State::running) group_ = Group();
    if (!s_.settings.listen.empty()) {
        auto endpoint = TRY(parse_endpoint(s_.settings.listen));
        auto key = TRY(key_of(s_.settings, s_.session));
        auto where = TRY(hosts_.listen(endpoint, key));
        s_.note(fmt::format("listens for other hosts at {}", where));
    }
    arm_interval();
    return {};
}

void Root::quit() {
    quitting_ = true;
    interval_timer_.cancel();
    checkpointer_.give_up("the coordinator was told to quit");
}

bool Root::idle() const {
    return group_.state() == Group::State::idle && !checkpointer_.busy() && hosts_.starting() == 0;
}

void Root::changed() {
    hosts_.tell_all(pack(wire::State{.cid = group_.cid(), .np = group_.np()}));
    s_.save_state();
}

void Root::joined(const Member& member) {
    entered(member.uid, fmt::format("{} ({})", member.pid, printable(member.name)));
}

void Root::left(const Member& member) {
    if (s_.programs.none() && group_.state() != Group::State::restarting) s_.regions.clear_names();
    gone(member.uid, member.program_pid, member.name);
}

// Here or on another host.
void Root::entered(const std::string& uid, const std::string& who) {
    const bool idle = group_.state() == Group::State::idle;
    if (!group_.registered(uid))
        s_.note(fmt::format("{} was started without asking while a restart is pending; it is not part of it",
                            who));
    if (!idle) return;
    s_.note(fmt::format("{} begins computation {}", who, group_.cid()));
    changed();
}

void Root::gone(const std::string& uid, ProgramId pid, const std::string& name) {
    const std::string cid = group_.cid();
    if (!group_.left(uid)) return;
    s_.note(fmt::format("{} ({}) was the last one; computation {} has ended", pid, printable(name), cid));
    changed();
}

void Root::asked_by(const Member& member) {
    const std::string who = describe(member.pid);
    checkpointer_.ask(
        session_order(),
        [this, place = member.place, pid = member.pid, who](const Json& event, bool) {
            if (!is_last(event)) return;
            const auto code = static_cast<ExitCode>(wire::glean<wire::Failed>(event).code);
            const bool done = get_string(event, "event") == "done";
            if (!done)
                s_.note(fmt::format("{} has asked for a checkpoint: {}", who,
                                    printable(get_string(event, "reason"))));
            answer_member(s_.regions, place, pid, done ? ExitCode::ok : code);
        },
        Told::Audience::log);
}

CheckpointOrder Root::session_order() const {
    return {.ckptdir = s_.settings.ckptdir,
            .ckptdir_asked_for = false,
            .kill = false,
            .self_contained = s_.settings.self_contained,
            .track_mem = s_.settings.track_mem,
            .without_strangers = false,
            .external = s_.settings.external,
            .landlock = s_.settings.landlock,
            .files = s_.settings.files,
            .with = s_.settings.with,
            .compress = s_.settings.compress,
            .timeout = {}};
}

void Root::starting() {
    group_.set_starting(s_.programs.starting() + hosts_.starting());
}

void Root::set_interval(std::chrono::milliseconds interval) {
    s_.settings.interval = interval;
    arm_interval();
    s_.save_state();
}

void Root::arm_interval() {
    interval_timer_.cancel();
    if (s_.settings.interval <= 0ms || quitting_) return;
    interval_timer_.expires_after(s_.settings.interval);
    interval_timer_.async_wait([this](const boost::system::error_code& error) {
        if (error || quitting_) return;
        s_.check_folder();
        if (group_.state() == Group::State::running && group_.np() > 0 && checkpointer_.busy())
            interval_missed("the checkpoint before it isn't over yet");
        else if (group_.state() == Group::State::running && group_.np() > 0)
            checkpointer_.ask(
                session_order(),
                [this](const Json& event, bool) {
                    const std::string kind = get_string(event, "event");
                    if (kind == "failed") interval_missed(get_string(event, "reason"));
                    if (kind != "done") return;
                    interval_trouble_.clear();
                    intervals_told_.clear();
                },
                Told::Audience::log);
        arm_interval();
    });
}

void Root::interval_missed(const std::string& why) {
    // Said once for each reason: an interval of a second must not fill the log.
    ++intervals_missed_;
    interval_trouble_ = why;
    if (!intervals_told_.insert(why).second) return;
    s_.note(fmt::format("the interval of {} is not kept: {}",
                        human_duration(std::chrono::nanoseconds(s_.settings.interval).count()),
                        printable(why)));
}

std::string Root::interval_problem(std::chrono::milliseconds every) const {
    // The folder is made by the first checkpoint.
    std::filesystem::path folder = s_.settings.ckptdir;
    std::error_code problem;
    while (!std::filesystem::exists(folder, problem) && folder.has_relative_path())
        folder = folder.parent_path();
    if (!std::filesystem::is_directory(folder, problem)) return folder.string() + " is no folder";
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
        return fmt::format("{}: {}", folder.string(), std::strerror(errno));
    const auto took = std::chrono::nanoseconds(last_ ? last_->total_ns : 0);
    if (took > every && group_.state() == Group::State::running)
        return fmt::format("the last checkpoint took {}", human_duration(took.count()));
    return {};
}

}  // namespace cairn::coordinator
