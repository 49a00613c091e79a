// What a computation's root may be asked: docs/protocol.md.
#include <unistd.h>

#include "common/compression.h"
#include "common/files_policy.h"
#include "common/human.h"
#include "common/region_ops.h"
#include "coordinator/root.h"

namespace cairn::coordinator {

namespace {

// null says what isn't there at the moment.
Json told(const wire::Status& status) {
    Json event = pack(status);
    for (const char* absent : {"last", "checkpoint", "restart"})
        if (!event.contains(absent)) event[absent] = nullptr;
    return event;
}

std::chrono::milliseconds milliseconds(double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

void Root::ask(const Client& client, const Json& request, const Sink& sink) {
    const std::string verb = get_string(request, "verb");
    if (verb == "hello") {
        const auto wishes = wire::unpack<wire::Hello>(request);
        Result<Json> done = wishes ? hello(*wishes, client.folder()) : std::unexpected(wishes.error());
        if (!done) return sink(failed(done.error()), false);
        s_.take_in(*done, client.pid);
        s_.check_idle();
        return sink(*done, false);
    }
    if (!answer(client.id, true, request, sink))
        sink(failed(ExitCode::usage, fmt::format("there is no verb '{}'", printable(verb))), false);
}

bool Root::answer(Peer::Id client, bool local, const Json& request, const Sink& sink) {
    const std::string verb = get_string(request, "verb");
    const Reply reply = [sink](const Json& event) { sink(event, false); };
    if (verb == "restart-join") {
        save_on(wire::glean<wire::RestartJoin>(request));
        barrier_.join(client, request, reply);
    } else if (verb == "restart-ready")
        barrier_.ready(client, request, reply, local);
    else if (verb == "restart-links")
        barrier_.links(client, request, reply);
    else if (verb == "restart-done")
        barrier_.done(client, reply);
    else {
        s_.check_folder();
        // A program that asks right after it was born counts itself; changes are otherwise looked at a little
        // later.
        if (verb == "status" || verb == "list") registry_.scan();
        if (verb == "status")
            reply(told(status()));
        else if (verb == "list")
            list(sink);
        else if (verb == "checkpoint")
            checkpoint(request, sink);
        else if (verb == "kill")
            kill(sink);
        else if (verb == "interval")
            interval(request, reply);
        else
            return false;
    }
    return true;
}

// A program may join: its wishes become the session's settings. `folder`: where it is.
Result<Json> Root::hello(const wire::Hello& wishes, const std::string& folder) {
    Settings& settings = s_.settings;
    if (!wishes.coordinator.empty() && settings.listen.empty())
        return fail_code(ExitCode::refused,
                         "the session's coordinator belongs to no other host, not to the one at {}: take "
                         "another --session, or end it (cairn quit)",
                         wishes.coordinator);
    registry_.scan();
    CHECK_OK(group_.may_launch());
    const std::string before = settings.ckptdir;
    if (!wishes.ckptdir.empty()) {
        settings.ckptdir = absolute_path(wishes.ckptdir, folder);
        s_.regions.note_ckptdir(settings.ckptdir);
    }
    // The same again doesn't begin the interval anew: many launches in a row would put the checkpoint off
    // for ever.
    if (wishes.interval && milliseconds(*wishes.interval) != settings.interval)
        set_interval(milliseconds(*wishes.interval));
    if (wishes.keep) settings.keep = *wishes.keep;
    if (wishes.self_contained) settings.self_contained = true;
    if (wishes.track_mem) settings.track_mem = true;
    if (external_policy(wishes.external)) settings.external = wishes.external;
    if (landlock_policy(wishes.landlock)) settings.landlock = wishes.landlock;
    if (is_files_policy(wishes.files)) settings.files = wishes.files;
    if (compression_named(wishes.compress)) settings.compress = wishes.compress;
    settings.with = joined_folders(settings.with, wishes.with);
    s_.save_state();
    return Json{{"event", "done"},
                {"code", 0},
                {"cid", group_.cid()},
                {"np", group_.np()},
                {"ckptdir", settings.ckptdir},
                {"moved_from", group_.np() > 0 && before != settings.ckptdir ? before : ""}};
}

// What a restarted computation has saved of its files is saved on, unless the session was told otherwise.
void Root::save_on(const wire::RestartJoin& join) {
    if (!s_.settings.files.empty() || !is_files_policy(join.files)) return;
    s_.settings.files = join.files;
    s_.settings.with = joined_folders(s_.settings.with, join.with);
}

wire::Status Root::status() const {
    const Settings& settings = s_.settings;
    wire::Status status;
    for (const auto& [id, host] : hosts_.all())
        status.hosts.push_back({.name = host.name,
                                .address = host.link ? host.link->peer() : std::string(),
                                .processes = host.members.size(),
                                .connected = host.link != nullptr});
    status.host = settings.host;
    status.session = s_.session.name;
    status.pid = ::getpid();
    status.generation_of_coordinator = s_.regions.owners().coordinator_generation.load();
    status.cid = group_.cid();
    status.np = group_.np();
    status.state = "idle";
    if (group_.state() == Group::State::restarting) status.state = "restarting";
    if (group_.state() == Group::State::running) status.state = "running";
    status.ckptdir = settings.ckptdir;
    status.interval = std::chrono::duration<double>(settings.interval).count();
    status.intervals_missed = intervals_missed_;
    status.interval_trouble = interval_trouble_;
    status.keep = settings.keep;
    status.self_contained = settings.self_contained;
    status.track_mem = settings.track_mem;
    status.external = settings.external;
    status.landlock = settings.landlock;
    status.files = settings.files;
    status.with = settings.with;
    status.compress = settings.compress;
    status.processes = registry_.members().size() + hosts_.members();
    status.births = registry_.births();
    status.last = last_;
    status.checkpoint = checkpointer_.status();
    status.restart = barrier_.status();
    status.uptime_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    status.limits = s_.limits;
    status.overflow = registry_.unplaced().size();
    status.places = slots_of(s_.regions.owners());
    return status;
}

void Root::list(const Sink& sink) {
    const bool several = !hosts_.all().empty();
    for (wire::Process& process : s_.programs.list()) {
        if (several) process.host = s_.settings.host;
        sink(pack(process), false);
    }
    Json done = {{"event", "done"}, {"code", 0}, {"cid", group_.cid()}, {"np", registry_.members().size()}};
    if (!several) return sink(done, false);
    ask_hosts(
        {{"do", "list"}},
        [sink](const Host& host, const Json& event) {
            for (const Json& one : wire::glean<wire::HostList>(event).processes) {
                auto process = wire::glean<wire::Process>(one);
                process.host = host.name;
                sink(pack(process), false);
            }
        },
        [this, sink, done]() mutable {
            done["np"] = group_.np();
            sink(done, false);
        });
}

void Root::kill(const Sink& sink) {
    checkpointer_.give_up("the group is being ended");
    const Reply reply = [sink](const Json& event) { sink(event, false); };
    if (hosts_.all().empty()) return s_.programs.kill(reply);
    const auto total = std::make_shared<std::uint64_t>(0);
    const auto problem = std::make_shared<std::string>();
    ask_hosts(
        {{"do", "kill"}},
        [total, problem](const Host& host, const Json& event) {
            *total += wire::glean<wire::Killed>(event).killed;
            const std::string kind = get_string(event, "event");
            if (kind == wire::Failed::name.value || kind == "lost")
                *problem = fmt::format("host {}: {}", host.name, wire::glean<wire::Failed>(event).reason);
        },
        [this, reply, total, problem] {
            hosts_.forget_lost();
            checkpointer_.give_up("the group is being ended");
            s_.programs.kill([reply, total, problem](const Json& event) {
                if (get_string(event, "event") != wire::Killed::name.value) return reply(event);
                if (!problem->empty()) return reply(failed(ExitCode::failed, *problem));
                auto sum = wire::glean<wire::Killed>(event);
                sum.killed += *total;
                reply(pack(sum));
            });
        });
}

void Root::checkpoint(const Json& request, const Sink& sink) {
    const auto asked = wire::unpack<wire::AskCheckpoint>(request);
    if (!asked) return sink(failed(asked.error()), false);
    const Settings& settings = s_.settings;
    CheckpointOrder order{.ckptdir = settings.ckptdir,
                          .ckptdir_asked_for = !asked->ckptdir.empty(),
                          .kill = asked->kill,
                          .self_contained = settings.self_contained || asked->self_contained,
                          .track_mem = settings.track_mem || asked->track_mem,
                          .without_strangers = asked->without_strangers,
                          .external = asked->external.empty() ? settings.external : asked->external,
                          .landlock = asked->landlock.empty() ? settings.landlock : asked->landlock,
                          .files = asked->files.empty() ? settings.files : asked->files,
                          .with = joined_folders(settings.with, asked->with),
                          .compress = asked->compress.empty() ? settings.compress : asked->compress,
                          .timeout = {}};
    if (!asked->files.empty() && !is_files_policy(asked->files))
        return sink(failed(ExitCode::usage, fmt::format("files: save or leave, not {}", asked->files)),
                    false);
    if (order.ckptdir_asked_for && !asked->ckptdir.starts_with('/'))
        return sink(
            failed(ExitCode::usage, fmt::format("ckptdir must be an absolute path: {}", asked->ckptdir)),
            false);
    if (order.ckptdir_asked_for) order.ckptdir = absolute_path(asked->ckptdir);
    if (!compression_named(order.compress))
        return sink(
            failed(ExitCode::usage, fmt::format("compress: {}, not {}", compression_words, order.compress)),
            false);
    if (!external_policy(order.external))
        return sink(failed(ExitCode::usage, fmt::format("external: not a policy: {}", order.external)),
                    false);
    if (!landlock_policy(order.landlock))
        return sink(failed(ExitCode::usage,
                           fmt::format("landlock: {}, not {}", landlock_policy_words, order.landlock)),
                    false);
    if (const double seconds = asked->timeout.value_or(0); seconds > 0 && seconds < wire::longest_s)
        order.timeout = milliseconds(seconds);
    checkpointer_.ask(order, sink, Told::Audience::client);
}

void Root::interval(const Json& request, const Reply& reply) {
    const auto asked = wire::unpack<wire::SetInterval>(request);
    if (!asked) return reply(failed(ExitCode::usage, asked.error().what + " (0: none are taken)"));
    const std::chrono::milliseconds every = milliseconds(asked->seconds);
    // What is known to fail each time is refused now, not found in a log after a night.
    if (std::string problem = every.count() > 0 ? interval_problem(every) : ""; !problem.empty())
        return reply(failed(ExitCode::failed,
                            fmt::format("an interval of {} can't be kept: {}; it stays as it was",
                                        human_duration(std::chrono::nanoseconds(every).count()), problem)));
    set_interval(every);
    reply({{"event", "done"}, {"code", 0}, {"interval", asked->seconds}});
}

}  // namespace cairn::coordinator
