// What a computation's root may be asked: docs/protocol.md.
#include <unistd.h>

#include "common/human.h"
#include "common/region_ops.h"
#include "coordinator/root.h"

namespace cairn::coordinator {

namespace {

constexpr double longest_interval_s = 1e8;

}  // namespace

void Root::ask(const Client& client, const Json& request, const Sink& sink) {
    const std::string verb = get_string(request, "verb");
    if (verb == "hello") {
        Result<Json> done = hello(request, client.folder());
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
    if (verb == "restart-join")
        barrier_.join(client, request, reply);
    else if (verb == "restart-ready")
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
            reply(status());
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
Result<Json> Root::hello(const Json& request, const std::string& folder) {
    Settings& settings = s_.settings;
    if (const std::string root = get_string(request, "coordinator"); !root.empty() && settings.listen.empty())
        return fail_code(ExitCode::refused,
                         "the session's coordinator belongs to no other host, not to the one at {}: take "
                         "another --session, or end it (cairn quit)",
                         root);
    registry_.scan();
    CHECK_OK(group_.may_launch());
    if (const std::string given = get_string(request, "ckptdir"); !given.empty()) {
        settings.ckptdir = absolute_path(given, folder);
        s_.regions.note_ckptdir(settings.ckptdir);
    }
    if (const double seconds = get_real(request, "interval", -1);
        seconds >= 0 && seconds <= longest_interval_s) {
        const std::chrono::milliseconds interval(static_cast<std::int64_t>(seconds * 1000));
        // The same again doesn't begin the interval anew: many launches in a row would put the checkpoint off
        // for ever.
        if (interval != settings.interval) set_interval(interval);
    }
    if (const std::int64_t keep = get_number(request, "keep", -1); keep >= 0 && keep <= 1'000'000)
        settings.keep = static_cast<std::uint32_t>(keep);
    if (get_flag(request, "self_contained")) settings.self_contained = true;
    if (const std::string external = get_string(request, "external"); external_policy(external))
        settings.external = external;
    s_.save_state();
    return Json{{"event", "done"},
                {"code", 0},
                {"cid", group_.cid()},
                {"np", group_.np()},
                {"ckptdir", settings.ckptdir}};
}

Json Root::status() const {
    const char* state = "idle";
    if (group_.state() == Group::State::restarting) state = "restarting";
    if (group_.state() == Group::State::running) state = "running";
    const auto up = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_);
    Json hosts = Json::array();
    for (const auto& [id, host] : hosts_.all())
        hosts.push_back({{"name", host.name},
                         {"address", host.link ? host.link->peer() : std::string()},
                         {"processes", host.members.size()},
                         {"connected", host.link != nullptr}});
    return {{"event", "done"},
            {"code", 0},
            {"hosts", hosts},
            {"host", s_.settings.host},
            {"session", s_.session.name},
            {"pid", ::getpid()},
            {"generation_of_coordinator", s_.regions.owners().coordinator_generation.load()},
            {"cid", group_.cid()},
            {"np", group_.np()},
            {"state", state},
            {"ckptdir", s_.settings.ckptdir},
            {"interval", std::chrono::duration<double>(s_.settings.interval).count()},
            {"intervals_missed", intervals_missed_},
            {"interval_trouble", interval_trouble_},
            {"keep", s_.settings.keep},
            {"self_contained", s_.settings.self_contained},
            {"external", s_.settings.external},
            {"processes", registry_.members().size() + hosts_.members()},
            {"births", registry_.births()},
            {"last", last_},
            {"checkpoint", checkpointer_.status()},
            {"restart", barrier_.status()},
            {"uptime_s", up.count()},
            {"limits", s_.limits},
            {"overflow", registry_.unplaced().size()},
            {"places", slots_of(s_.regions.owners())}};
}

void Root::list(const Sink& sink) {
    const bool several = !hosts_.all().empty();
    s_.programs.list([this, several, &sink](const Json& event) {
        Json named = event;
        if (several) named["host"] = s_.settings.host;
        sink(named, false);
    });
    Json done = {{"event", "done"}, {"code", 0}, {"cid", group_.cid()}, {"np", registry_.members().size()}};
    if (!several) return sink(done, false);
    ask_hosts(
        {{"do", "list"}},
        [sink](const Host& host, const Json& event) {
            for (const Json& process : event.value("processes", Json::array())) {
                Json named = process;
                named["host"] = host.name;
                sink(named, false);
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
    const auto total = std::make_shared<std::int64_t>(0);
    const auto problem = std::make_shared<std::string>();
    ask_hosts(
        {{"do", "kill"}},
        [total, problem](const Host& host, const Json& event) {
            *total += get_number(event, "killed");
            if (get_string(event, "event") == "failed" || get_string(event, "event") == "lost")
                *problem = fmt::format("host {}: {}", host.name, get_string(event, "reason"));
        },
        [this, reply, total, problem] {
            hosts_.forget_lost();
            checkpointer_.give_up("the group is being ended");
            s_.programs.kill([reply, total, problem](const Json& event) {
                if (get_string(event, "event") != "done") return reply(event);
                if (!problem->empty()) return reply(failed(ExitCode::failed, *problem));
                Json sum = event;
                sum["killed"] = get_number(event, "killed") + *total;
                reply(sum);
            });
        });
}

void Root::checkpoint(const Json& request, const Sink& sink) {
    const Settings& settings = s_.settings;
    CheckpointOrder order{.ckptdir = settings.ckptdir,
                          .ckptdir_asked_for = false,
                          .kill = get_flag(request, "kill"),
                          .self_contained = settings.self_contained || get_flag(request, "self_contained"),
                          .without_strangers = get_flag(request, "without_strangers"),
                          .external = get_string(request, "external", settings.external),
                          .timeout = {}};
    if (const std::string folder = get_string(request, "ckptdir"); !folder.empty()) {
        if (!folder.starts_with('/'))
            return sink(failed(ExitCode::usage, fmt::format("ckptdir must be an absolute path: {}", folder)),
                        false);
        order.ckptdir = absolute_path(folder);
        order.ckptdir_asked_for = true;
    }
    if (!external_policy(order.external))
        return sink(failed(ExitCode::usage, fmt::format("external: not a policy: {}", order.external)),
                    false);
    if (const double seconds = get_real(request, "timeout"); seconds > 0 && seconds < longest_interval_s)
        order.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
    checkpointer_.ask(order, sink);
}

void Root::interval(const Json& request, const Reply& reply) {
    const double seconds = get_real(request, "seconds", -1);
    if (!(seconds >= 0 && seconds <= longest_interval_s))
        return reply(failed(ExitCode::usage, "interval needs seconds, 0 for none"));
    const std::chrono::milliseconds every(static_cast<std::int64_t>(seconds * 1000));
    // What is known to fail each time is refused now, not found in a log after a night.
    if (std::string problem = every.count() > 0 ? interval_problem(every) : ""; !problem.empty())
        return reply(failed(ExitCode::failed,
                            fmt::format("an interval of {} can't be kept: {}; it stays as it was",
                                        human_duration(std::chrono::nanoseconds(every).count()), problem)));
    set_interval(every);
    reply({{"event", "done"}, {"code", 0}, {"interval", seconds}});
}

}  // namespace cairn::coordinator
