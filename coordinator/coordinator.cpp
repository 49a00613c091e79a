#include "coordinator/coordinator.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/compression.h"
#include "common/files_policy.h"
#include "common/human.h"
#include "common/ipc_map.h"
#include "common/wire/state.h"
#include "coordinator/relay.h"
#include "coordinator/root.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr Peer::Id first_of_console = Peer::Id{1} << 39;  // no client of the socket comes so far

std::string state_path(const Session& session) {
    return session.directory + "/state.json";
}

void write_small(const std::string& path, const std::string& text) {
    const std::string fresh = path + ".new";
    {
        std::ofstream file(fresh, std::ios::trunc);
        file << text;
        if (!file.flush()) return;
    }
    ::rename(fresh.c_str(), path.c_str());
}

}  // namespace

Coordinator::Coordinator(asio::io_context& io, Settings settings, Session session, RegionFile owners,
                         Console::Kind kind, Surround surround, Lock lock)
    : io_(io),
      settings_(std::move(settings)),
      session_(std::move(session)),
      regions_(session_, std::move(owners)),
      surround_(std::move(surround)),
      programs_(io, session_, regions_,
                {.joined =
                     [this](const Member& member) {
                         role_->joined(member);
                         check_idle();
                     },
                 .left =
                     [this](const Member& member) {
                         role_->left(member);
                         check_idle();
                     },
                 .asks = [this](const Member& member) { role_->asked_by(member); },
                 .starting =
                     [this] {
                         role_->starting();
                         check_idle();
                     },
                 .warning = [this](const std::string& text) { note(text); }}),
      gate_(
          io, regions_,
          [this](pid_t pid) { return programs_.registry().is_kin(pid) || programs_.is_starting(pid); },
          [this](pid_t pid, std::size_t number) { programs_.registry().handed(pid, number); },
          [this](const std::string& text) { note(text); }),
      server_(io, {.request = [this](const std::shared_ptr<Peer>& peer,
                                     const Json& request) { peer_asks(peer, request); },
                   .closed = [this](Peer& peer) { role_->closed(peer.id()); }}),
      keeper_(io, session_, std::move(lock.held), std::move(lock.name),
              {.listen = [this] { return server_.listen(session_); },
               .write = [this] { write_files(); },
               .note = [this](const std::string& text) { note(text); }}),
      console_(io, kind,
               {.ask = [this](const Json& request) { console_asks(request); },
                .ended = [this] { quit("end of input"); }}),
      look_(io, session_.name),
      signals_(io, SIGINT, SIGTERM, SIGHUP),
      idle_timer_(io),
      quit_timer_(io),
      console_questions_(first_of_console) {
    if (settings_.coordinator.empty())
        role_ = std::make_unique<Root>(office());
    else
        role_ = std::make_unique<Relay>(office());
}

Office Coordinator::office() {
    return {.io = io_,
            .session = session_,
            .settings = settings_,
            .regions = regions_,
            .programs = programs_,
            .limits = surround_.limits,
            .everybody = [this](const Json& event, bool droppable) { everybody(event, droppable); },
            .note = [this](const std::string& text) { note(text); },
            .take_in = [this](Json& done, pid_t pid) { take_in(done, pid); },
            .save_state = [this] { save_state(); },
            .check_idle = [this] { check_idle(); },
            .check_folder = [this] { keeper_.check(); }};
}

Coordinator::~Coordinator() {
    programs_.registry().stop();
}

Result<> Coordinator::start() {
    if (regions_.adopted()) regions_.adopt();
    // A capture of the dead coordinator's worker is over: its copy-on-write children end.
    regions_.set_capture(0);
    regions_.set_coordinator(::getpid());
    regions_.owners().coordinator_generation.fetch_add(1);
    if (regions_.adopted()) load_state();
    regions_.note_ckptdir(settings_.ckptdir);

    CHECK_OK(programs_.registry().start(regions_.adopted(), settings_.not_ids));
    if (programs_.none()) clear_ipc(regions_.owners().ipc);
    CHECK_OK(gate_.open());
    CHECK_OK(server_.listen(session_));
    CHECK_OK(role_->start());
    CHECK_OK(keeper_.start());
    write_files();
    on_signal();

    std::string greeting = fmt::format("session {}: coordinator {}, checkpoints to {}", session_.name,
                                       ::getpid(), printable(settings_.ckptdir));
    if (const auto& members = programs_.registry().members(); !members.empty())
        greeting += fmt::format("; found {} of computation {}",
                                human_count(members.size(), "process", "processes"), role_->memory().cid);
    console_.start(greeting);
    for (const auto* each : {&surround_.limits, &surround_.notes})
        for (const std::string& text : *each) note("the coordinator's own process: " + text);
    check_idle();
    return {};
}

void Coordinator::write_files() {
    reopen_log(session_);
    write_small(session_.pid_file(), fmt::format("{}\n", ::getpid()));
    regions_.note_users();
    saved_state_.clear();
    save_state();
}

void Coordinator::on_signal() {
    signals_.async_wait([this](const boost::system::error_code& error, int signal) {
        if (error) return;
        if (signal != SIGHUP) return quit(fmt::format("signal {} ({})", signal, ::strsignal(signal)));
        // The terminal has gone. Who has programs to look after goes on without it.
        console_.lose_terminal();
        if (programs_.registry().members().empty()) return quit("the terminal has hung up");
        settings_.automatic = true;
        on_signal();
    });
}

void Coordinator::everybody(const Json& event, bool droppable) {
    console_.show(event);
    Json marked = event;
    marked["subscribed"] = true;
    server_.broadcast(marked, droppable);
}

void Coordinator::note(const std::string& text) {
    everybody({{"event", "note"}, {"text", text}}, false);
}

bool Coordinator::idle() const {
    return role_->idle() && programs_.none() && programs_.starting() == 0;
}

void Coordinator::check_idle() {
    if (!settings_.automatic || quitting_) return;
    if (!idle()) {
        idle_timer_.cancel();
        idle_armed_ = false;
        return;
    }
    if (!std::exchange(idle_armed_, true)) quit_if_idle_in(settings_.linger);
}

void Coordinator::quit_if_idle_in(std::chrono::milliseconds time) {
    // Who has said something just now may be about to bring programs: a restart asks who is there, and only
    // then says what it brings.
    static constexpr auto a_moment = 500ms;
    idle_timer_.expires_after(time);
    idle_timer_.async_wait([this](const boost::system::error_code& error) {
        if (error) return;
        programs_.registry().scan();
        if (idle() && server_.heard_since(std::chrono::steady_clock::now() - a_moment))
            return quit_if_idle_in(a_moment);
        idle_armed_ = false;
        if (idle())
            quit("nobody is left in the session");
        else
            check_idle();
    });
}

void Coordinator::quit(const std::string& why) {
    if (quitting_) return;
    quitting_ = true;
    idle_timer_.cancel();
    programs_.registry().scan();
    const std::size_t processes = programs_.registry().members().size();
    note(processes == 0
             ? fmt::format("quit: {}", why)
             : fmt::format(
                   "quit: {}; {} without a coordinator, `cairn coordinator` finds them again", why,
                   processes == 1 ? "1 process goes on" : fmt::format("{} processes go on", processes)));
    role_->quit();
    finish();
}

// A checkpoint that is given up needs its turn to clean up.
void Coordinator::finish() {
    if (role_->at_work()) {
        quit_timer_.expires_after(10ms);
        quit_timer_.async_wait([this](const boost::system::error_code&) { finish(); });
        return;
    }
    look_.end();
    console_.stop();
    gate_.close();
    keeper_.stop();
    role_->stop();
    signals_.cancel();
    // Under the lock: the next coordinator makes these anew. The region stays while somebody uses it.
    ::unlink(session_.socket().c_str());
    ::unlink(session_.pid_file().c_str());
    regions_.set_coordinator(0);
    if (programs_.none() && programs_.starting() == 0) {
        ::unlink(session_.region().c_str());
        ::unlink(session_.users().c_str());
        ::unlink(state_path(session_).c_str());
    }
    programs_.registry().stop();
    programs_.forget_starting();
    // Who asked hears of it only now: he may remove the folder, and begin a session of the same name in it.
    for (const auto& answer : std::exchange(awaiting_end_, {})) answer();
    server_.stop();
    // What is queued for the clients goes out first.
    quit_timer_.expires_after(200ms);
    quit_timer_.async_wait([this](const boost::system::error_code&) { io_.stop(); });
}

void Coordinator::load_state() {
    std::ifstream file(state_path(session_));
    std::stringstream text;
    text << file.rdbuf();
    const Json said = Json::parse(text.str(), nullptr, false);
    if (!said.is_object()) return;
    const auto state = wire::glean<wire::SavedState>(said);
    role_->recall({state.cid, state.last});
    if (!settings_.interval_given) settings_.interval = std::chrono::milliseconds(state.interval_ms);
    if (!settings_.keep_given) settings_.keep = state.keep.value_or(settings_.keep);
    if (!settings_.self_contained_given) settings_.self_contained = state.self_contained;
    if (!settings_.track_mem_given) settings_.track_mem = state.track_mem;
    if (!settings_.external_given && external_policy(state.external)) settings_.external = state.external;
    if (!settings_.landlock_given && landlock_policy(state.landlock)) settings_.landlock = state.landlock;
    if (!settings_.compress_given && compression_named(state.compress)) settings_.compress = state.compress;
    if (!settings_.files_given) {
        if (is_files_policy(state.files)) settings_.files = state.files;
        settings_.with = state.with;
    }
    if (!settings_.ckptdir_given && !state.ckptdir.empty()) settings_.ckptdir = state.ckptdir;
}

void Coordinator::save_state() {
    Role::Memory memory = role_->memory();
    std::string text = text_of(pack(wire::SavedState{.cid = memory.cid,
                                                     .external = settings_.external,
                                                     .landlock = settings_.landlock,
                                                     .ckptdir = settings_.ckptdir,
                                                     .files = settings_.files,
                                                     .with = settings_.with,
                                                     .compress = settings_.compress,
                                                     .interval_ms = settings_.interval.count(),
                                                     .keep = settings_.keep,
                                                     .self_contained = settings_.self_contained,
                                                     .track_mem = settings_.track_mem,
                                                     .last = std::move(memory.last)}),
                               1) +
                       "\n";
    // A rename over a file waits for the disk on ext4, and every launch asks for one.
    if (text == saved_state_) return;
    write_small(state_path(session_), text);
    saved_state_ = std::move(text);
}

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
        if (is_last(event)) alive->busy = restart && role_->restarts(alive->id());
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
    if (verb == "region") return region(request, reply);
    if (verb == "subscribe") {
        // The root knows what happens on all hosts; here would be told what happens on this one.
        if (!role_->hears_events())
            return reply(
                failed(ExitCode::refused,
                       fmt::format("this is host {}'s relay of the coordinator at {}: subscribe to "
                                   "the events of the computation there, on the socket of its session",
                                   settings_.host, settings_.coordinator)));
        peer->subscribed = true;
        return reply({{"event", "done"}, {"code", 0}});
    }
    peer->busy = true;
    if (verb == "quit") return quit_asked(reply);
    role_->ask({peer->id(), peer->pid()}, request, sink);
}

void Coordinator::quit_asked(const Reply& reply) {
    keeper_.check();
    programs_.registry().scan();
    awaiting_end_.emplace_back([reply, processes = programs_.registry().members().size()] {
        reply({{"event", "done"}, {"code", 0}, {"processes", processes}});
    });
    quit("asked for");
}

void Coordinator::console_asks(const Json& request) {
    if (quitting_) return;
    const std::string verb = get_string(request, "verb");
    // What a checkpoint says comes to the console anyway, like everybody else's.
    const bool shown = verb == "checkpoint" && role_->hears_events();
    const Sink sink = [this, shown, verb](const Json& event, bool) {
        if (!shown || get_string(event, "event") == "queued") console_.show(event);
        if (get_string(event, "event") != "done") return;
        if (verb == "kill")
            console_.show(
                {{"event", "note"},
                 {"text", fmt::format("{} ended", human_count(wire::glean<wire::Killed>(event).killed,
                                                              "process", "processes"))}});
        if (verb == "interval")
            console_.show(
                {{"event", "note"},
                 {"text", get_real(event, "interval") > 0
                              ? fmt::format("a checkpoint every {}", human_duration(static_cast<std::int64_t>(
                                                                         get_real(event, "interval") * 1e9)))
                              : std::string("checkpoints only when asked for")}});
        if (verb == "list" && get_number(event, "np") == 0)
            console_.show({{"event", "note"}, {"text", "no program runs in the session"}});
    };
    if (verb == "waits")
        return look_.begin([this](const std::string& line) {
            console_.show({{"event", "note"}, {"text", line}});
        });
    if (verb == "quit") return quit_asked([sink](const Json& event) { sink(event, false); });
    role_->ask({.id = console_questions_++, .pid = 0}, request, sink);
}

// Who launches first has brought the limits along, and is the one who can do something about them.
void Coordinator::take_in(Json& done, pid_t pid) {
    programs_.expect(pid);
    done["session"] = session_.name;
    done["region"] = session_.region();
    done["pid"] = ::getpid();
    if (surround_.limits.empty() || std::exchange(limits_told_, true)) return;
    std::string text = "checkpoints of this session may fail: in its coordinator ";
    for (std::size_t i = 0; i < surround_.limits.size(); ++i)
        text += (i == 0 ? "" : ", ") + surround_.limits[i];
    done["note"] =
        text + "; `cairn quit` and `cairn coordinator --daemon` from a shell with higher limits mend that";
}

void Coordinator::region(const Json& request, const Reply& reply) {
    const auto asked = wire::unpack<wire::AskRegion>(request);
    if (!asked) return reply(failed(asked.error()));
    const uid_t user = asked->user;
    if (regions_.owner() != 0 && user != regions_.owner())
        return reply(failed(ExitCode::refused,
                            fmt::format("session {} is user {}'s: processes of user {} can't be members",
                                        session_.name, regions_.owner(), user)));
    const auto number = regions_.of_user(user);
    if (!number) return reply(failed(ExitCode::failed, number.error().what));
    reply({{"event", "done"}, {"code", 0}, {"path", regions_.path(*number)}});
}

}  // namespace cairn::coordinator
