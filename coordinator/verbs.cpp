// What clients and the console may ask: docs/protocol.md.
#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <filesystem>

#include "common/human.h"
#include "common/region_ops.h"
#include "coordinator/coordinator.h"

namespace cairn::coordinator {

namespace asio = boost::asio;

namespace {

bool is_last(const Json& event) {
    const std::string kind = get_string(event, "event");
    return kind == "done" || kind == "failed";
}

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

constexpr double longest_interval_s = 1e8;

}  // namespace

void Coordinator::peer_asks(const std::shared_ptr<Peer>& peer, const Json& request) {
    const std::string verb = get_string(request, "verb");
    const Json id = request.value("id", Json());
    const std::weak_ptr<Peer> weak = peer;
    const bool restart = verb.starts_with("restart-");
    const Sink sink = [this, weak, id, restart](const Json& event, bool droppable) {
        const auto alive = weak.lock();
        if (!alive) return;
        Json answer = event;
        if (!id.is_null()) answer["id"] = id;
        if (is_last(event)) alive->busy = restart && barrier_.knows(alive->id());
        alive->send(answer, droppable);
    };
    const Reply reply = [sink](const Json& event) { sink(event, false); };
    if (verb.empty()) return reply(failed(ExitCode::usage, "the request has no verb"));
    if (quitting_) return reply(failed(ExitCode::failed, "the coordinator is ending"));
    if (peer->busy && !restart) {
        Json busy = failed(ExitCode::usage, "a request is under way on this connection");
        if (!id.is_null()) busy["id"] = id;
        return peer->send(busy);
    }
    // The root knows what happens on all hosts; here would be told what happens on this one.
    if (uplink_ && verb == "subscribe")
        return reply(failed(ExitCode::refused,
                            fmt::format("this is host {}'s relay of the coordinator at {}: subscribe to the "
                                        "events of the computation there, on the socket of its session",
                                        settings_.host, settings_.coordinator)));
    // Regions are this host's.
    if (verb == "region") return region(request, reply);
    if (uplink_ && verb != "quit") return relay_asks(peer, request);
    if (verb == "hello") return hello(peer, request, reply);
    if (verb == "subscribe") {
        peer->subscribed = true;
        return reply({{"event", "done"}, {"code", 0}});
    }
    peer->busy = true;
    if (verb == "restart-join") return barrier_.join(peer->id(), request, reply);
    if (verb == "restart-ready") return barrier_.ready(peer->id(), request, reply);
    if (verb == "restart-links") return barrier_.links(peer->id(), request, reply);
    if (verb == "restart-done") return barrier_.done(peer->id(), reply);
    if (!ask(request, sink))
        reply(failed(ExitCode::usage, fmt::format("there is no verb '{}'", printable(verb))));
}

void Coordinator::console_asks(const Json& request) {
    if (quitting_) return;
    const std::string verb = get_string(request, "verb");
    // What a checkpoint says comes to the console anyway, like everybody else's.
    const bool shown = verb == "checkpoint";
    ask(request, [this, shown, verb](const Json& event, bool) {
        if (!shown || get_string(event, "event") == "queued") console_.show(event);
        if (get_string(event, "event") != "done") return;
        if (verb == "kill")
            console_.show(
                {{"event", "note"},
                 {"text",
                  fmt::format("{} ended", human_count(static_cast<std::uint64_t>(get_number(event, "killed")),
                                                      "process", "processes"))}});
        if (verb == "interval")
            console_.show(
                {{"event", "note"},
                 {"text",
                  settings_.interval.count() > 0
                      ? fmt::format("a checkpoint every {}",
                                    human_duration(std::chrono::nanoseconds(settings_.interval).count()))
                      : std::string("checkpoints only when asked for")}});
        if (verb == "list" && get_number(event, "np") == 0)
            console_.show({{"event", "note"}, {"text", "no program runs in the session"}});
    });
}

bool Coordinator::ask(const Json& request, const Sink& sink) {
    const std::string verb = get_string(request, "verb");
    keeper_.check();
    // A program that asks right after it was born counts itself; changes are otherwise looked at a little
    // later.
    if (verb == "status" || verb == "list") registry_.scan();
    if (verb == "status")
        sink(status(), false);
    else if (verb == "list")
        list_all(sink);
    else if (verb == "checkpoint")
        checkpoint(request, sink);
    else if (verb == "kill")
        kill_all(sink);
    else if (verb == "interval")
        interval(request, sink);
    else if (verb == "quit") {
        registry_.scan();
        sink({{"event", "done"}, {"code", 0}, {"processes", registry_.members().size()}}, false);
        quit("asked for");
    } else {
        return false;
    }
    return true;
}

// A program may join: its wishes become the session's settings. `folder`: where it is.
Result<Json> Coordinator::take_in(const Json& request, const std::string& folder) {
    if (const std::string root = get_string(request, "coordinator");
        !root.empty() && settings_.listen.empty() && root != settings_.coordinator)
        return fail_code(ExitCode::refused,
                         "the session's coordinator {}, not to the one at {}: take another --session, or end "
                         "it (cairn quit)",
                         settings_.coordinator.empty() ? std::string("belongs to no other host")
                                                       : "belongs to the one at " + settings_.coordinator,
                         root);
    registry_.scan();
    if (Result<> allowed = group_.may_launch(); !allowed) return std::unexpected(allowed.error());
    if (const std::string given = get_string(request, "ckptdir"); !given.empty()) {
        settings_.ckptdir = absolute_path(given, folder);
        note_ckptdir(settings_.ckptdir);
    }
    if (const double seconds = get_real(request, "interval", -1);
        seconds >= 0 && seconds <= longest_interval_s) {
        const std::chrono::milliseconds interval(static_cast<std::int64_t>(seconds * 1000));
        // The same again doesn't begin the interval anew: many launches in a row would put the checkpoint off
        // for ever.
        if (interval != settings_.interval) set_interval(interval);
    }
    if (const std::int64_t keep = get_number(request, "keep", -1); keep >= 0 && keep <= 1'000'000)
        settings_.keep = static_cast<std::uint32_t>(keep);
    if (get_flag(request, "self_contained")) settings_.self_contained = true;
    if (const std::string external = get_string(request, "external"); external_policy(external))
        settings_.external = external;
    save_state();
    return Json{{"event", "done"},
                {"code", 0},
                {"cid", group_.cid()},
                {"np", group_.np()},
                {"ckptdir", settings_.ckptdir}};
}

void Coordinator::hello(const std::shared_ptr<Peer>& peer, const Json& request, const Reply& reply) {
    std::error_code problem;
    const auto here = std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", peer->pid()), problem);
    Result<Json> done = take_in(request, problem ? "/" : here.string());
    if (!done) return reply(failed(done.error().code, done.error().what));
    expect(peer->pid());
    check_idle();
    (*done)["session"] = session_.name;
    (*done)["region"] = session_.region();
    (*done)["pid"] = ::getpid();
    // Who launches first has brought these limits along, and is the one who can do something about them.
    if (const std::string said = limits_note(); !said.empty()) (*done)["note"] = said;
    reply(*done);
}

// Once; then "".
std::string Coordinator::limits_note() {
    if (surround_.limits.empty() || std::exchange(limits_told_, true)) return {};
    std::string text = "checkpoints of this session may fail: in its coordinator ";
    for (std::size_t i = 0; i < surround_.limits.size(); ++i)
        text += (i == 0 ? "" : ", ") + surround_.limits[i];
    return text + "; `cairn quit` and `cairn coordinator --daemon` from a shell with higher limits mend that";
}

void Coordinator::region(const Json& request, const Reply& reply) {
    const std::int64_t user = get_number(request, "user", -1);
    constexpr std::int64_t no_user = 0xffffffff;
    if (user < 0 || user >= no_user)
        return reply(failed(ExitCode::usage, "a region is somebody's: no user was named"));
    if (regions_.owner() != 0 && user != regions_.owner())
        return reply(failed(ExitCode::refused,
                            fmt::format("session {} is user {}'s: processes of user {} can't be members",
                                        session_.name, regions_.owner(), user)));
    const auto number = regions_.of_user(static_cast<uid_t>(user));
    if (!number) return reply(failed(ExitCode::failed, number.error().what));
    reply({{"event", "done"}, {"code", 0}, {"path", regions_.path(*number)}});
}

Json Coordinator::status() {
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
            {"host", settings_.host},
            {"session", session_.name},
            {"pid", ::getpid()},
            {"generation_of_coordinator", regions_.owners().coordinator_generation.load()},
            {"cid", group_.cid()},
            {"np", group_.np()},
            {"state", state},
            {"ckptdir", settings_.ckptdir},
            {"interval", std::chrono::duration<double>(settings_.interval).count()},
            {"intervals_missed", intervals_missed_},
            {"interval_trouble", interval_trouble_},
            {"keep", settings_.keep},
            {"self_contained", settings_.self_contained},
            {"external", settings_.external},
            {"processes", registry_.members().size() + hosts_.members()},
            {"births", registry_.births()},
            {"last", last_},
            {"checkpoint", checkpointer_.status()},
            {"restart", barrier_.status()},
            {"uptime_s", up.count()},
            {"limits", surround_.limits},
            {"overflow", registry_.unplaced().size()},
            {"places", slots_of(regions_.owners())}};
}

void Coordinator::list(const Sink& sink) {
    const std::uint64_t now = boottime_ns();
    for (const auto& [place, member] : registry_.members()) {
        const Slot& slot = regions_.slot(place);
        const auto info = process_info(member.pid);
        if (!info) continue;
        // Restored processes carry the time stamp of their first life, maybe of another boot: their start
        // counts.
        const bool restored = (slot.flags.load() & slot_restored) != 0;
        const std::uint64_t since = restored ? info->started_ns : member.born_ns;
        sink({{"event", "process"},
              {"pid", member.virtual_pid},
              {"real", member.pid},
              {"parent", info->parent},
              {"uid", member.uid},
              {"name", info->name},
              {"command", command_line(member.pid)},
              {"terminal", terminal_path(info->terminal)},
              {"state", name_of(slot.state.load())},
              {"foreign", registry_.foreign(member)},
              {"restored", restored},
              {"started_s", since < now ? static_cast<double>(now - since) / 1e9 : 0.0}},
             false);
    }
    for (const Registry::Unplaced& each : registry_.unplaced()) {
        const auto info = process_info(each.pid);
        if (!info) continue;
        sink(
            {{"event", "process"},
             {"pid", to_virtual(regions_.owners().ids, each.pid)},
             {"real", each.pid},
             {"parent", info->parent},
             {"uid", ""},
             {"name", info->name},
             {"command", command_line(each.pid)},
             {"terminal", terminal_path(info->terminal)},
             {"state", "unregistered"},
             {"foreign", fmt::format("no place in the session's table of {} processes",
                                     slots_of(regions_[each.number]))},
             {"restored", false},
             {"started_s", info->started_ns < now ? static_cast<double>(now - info->started_ns) / 1e9 : 0.0}},
            false);
    }
    sink({{"event", "done"}, {"code", 0}, {"cid", group_.cid()}, {"np", registry_.members().size()}}, false);
}

void Coordinator::checkpoint(const Json& request, const Sink& sink) {
    CheckpointOrder order{.ckptdir = settings_.ckptdir,
                          .ckptdir_asked_for = false,
                          .kill = get_flag(request, "kill"),
                          .self_contained = settings_.self_contained || get_flag(request, "self_contained"),
                          .without_strangers = get_flag(request, "without_strangers"),
                          .external = get_string(request, "external", settings_.external),
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

void Coordinator::kill(const Sink& sink) {
    checkpointer_.give_up("the group is being ended");
    asio::co_spawn(
        io_,
        [](Coordinator& self, Sink answer) -> asio::awaitable<void> {
            const std::size_t killed = co_await self.kill_group();
            const std::size_t left = self.registry_.members().size();
            if (left == 0)
                answer({{"event", "done"}, {"code", 0}, {"killed", killed}}, false);
            else
                answer(failed(ExitCode::timed_out,
                              fmt::format("{} still there after 5 s, {} for one (stuck in the kernel?)",
                                          human_count(left, "process is", "processes are"),
                                          describe(self.registry_.members().begin()->second.pid))),
                       false);
        }(*this, sink),
        asio::detached);
}

std::string Coordinator::interval_problem(std::chrono::milliseconds every) const {
    // The folder is made by the first checkpoint.
    std::filesystem::path folder = settings_.ckptdir;
    std::error_code problem;
    while (!std::filesystem::exists(folder, problem) && folder.has_relative_path())
        folder = folder.parent_path();
    if (!std::filesystem::is_directory(folder, problem)) return folder.string() + " is no folder";
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
        return fmt::format("{}: {}", folder.string(), std::strerror(errno));
    const auto took = std::chrono::nanoseconds(get_number(last_, "total_ns"));
    if (took > every && group_.state() == Group::State::running)
        return fmt::format("the last checkpoint took {}", human_duration(took.count()));
    return {};
}

void Coordinator::interval(const Json& request, const Sink& sink) {
    const double seconds = get_real(request, "seconds", -1);
    if (!(seconds >= 0 && seconds <= longest_interval_s))
        return sink(failed(ExitCode::usage, "interval needs seconds, 0 for none"), false);
    const std::chrono::milliseconds every(static_cast<std::int64_t>(seconds * 1000));
    // What is known to fail each time is refused now, not found in a log after a night.
    if (std::string problem = every.count() > 0 ? interval_problem(every) : ""; !problem.empty())
        return sink(failed(ExitCode::failed,
                           fmt::format("an interval of {} can't be kept: {}; it stays as it was",
                                       human_duration(std::chrono::nanoseconds(every).count()), problem)),
                    false);
    set_interval(every);
    sink({{"event", "done"}, {"code", 0}, {"interval", seconds}}, false);
}

void Coordinator::peer_closed(Peer& peer) {
    if (uplink_) {
        std::erase_if(waiting_, [&](const auto& each) { return each.first == peer.id(); });
        if (questions_.erase(peer.id()) != 0) uplink_->gone(peer.id());
        return check_idle();
    }
    barrier_.disconnected(peer.id());
}

}  // namespace cairn::coordinator
