#include "coordinator/coordinator.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <fstream>
#include <sstream>

#include "common/human.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto starting_limit = 20s;  // between the answer to hello and the registration of the program

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
      registry_(io, regions_,
                {.joined = [this](const Member& member) { joined(member); },
                 .left = [this](const Member& member) { left(member); },
                 .warning = [this](const std::string& text) { note(text); }}),
      gate_(
          io, regions_, [this](pid_t pid) { return registry_.is_kin(pid) || starting_.contains(pid); },
          [this](const std::string& text) { note(text); }),
      barrier_(
          group_, registry_, [this](const std::string& text) { note(text); },
          [this] {
              save_state();
              check_idle();
          }),
      checkpointer_({.io = io,
                     .session = session_,
                     .regions = regions_,
                     .registry = registry_,
                     .group = group_,
                     .everybody = [this](const Json& event, bool droppable) { everybody(event, droppable); },
                     .folders_in_use = [this] { return barrier_.folders_in_use(); },
                     .kill_group = [this] { return kill_group(); },
                     .keep = [this] { return settings_.keep; },
                     .hosts = hosts_,
                     .host = settings_.host,
                     .published =
                         [this](const Json& done) {
                             last_ = done;
                             save_state();
                         },
                     .idle = [this] { check_idle(); }}),
      server_(io, {.request = [this](const std::shared_ptr<Peer>& peer,
                                     const Json& request) { peer_asks(peer, request); },
                   .closed = [this](Peer& peer) { peer_closed(peer); }}),
      keeper_(io, session_, std::move(lock.held), std::move(lock.name),
              {.listen = [this] { return server_.listen(session_); },
               .write = [this] { write_files(); },
               .note = [this](const std::string& text) { note(text); }}),
      console_(io, kind,
               {.ask = [this](const Json& request) { console_asks(request); },
                .ended = [this] { quit("end of input"); }}),
      signals_(io, SIGINT, SIGTERM, SIGHUP),
      interval_timer_(io),
      idle_timer_(io),
      quit_timer_(io),
      hosts_(io, hosts_handler()),
      patience_(io) {
    barrier_.addresses_of = [this](Peer::Id client) {
        const Host* host = hosts_.find(client >> 40);
        return host != nullptr ? host->addresses : own_addresses();
    };
    barrier_.site_of = [this](Peer::Id client) {
        const Host* host = hosts_.find(client >> 40);
        return host != nullptr ? host->site : std::string();
    };
}

Coordinator::~Coordinator() {
    registry_.stop();
}

Result<> Coordinator::start() {
    if (regions_.adopted()) regions_.adopt();
    // A capture of the dead coordinator's worker is over: its copy-on-write children end.
    regions_.set_capture(0);
    regions_.set_coordinator(::getpid());
    regions_.owners().coordinator_generation.fetch_add(1);
    if (regions_.adopted()) load_state();
    // A relay's programs are of the computation that they were of when it died, whatever the root serves now.
    if (!settings_.coordinator.empty() && group_.state() == Group::State::running)
        root_state_ = {{"cid", group_.cid()}};
    note_ckptdir(settings_.ckptdir);

    if (Result<> started = registry_.start(regions_.adopted()); !started) return started;
    if (registry_.members().empty() && group_.state() == Group::State::running) group_ = Group();
    if (registry_.members().empty() && registry_.births() == 0) clear_ipc(regions_.owners().ipc);
    if (Result<> listening = gate_.open(); !listening) return listening;
    if (Result<> listening = server_.listen(session_); !listening) return listening;
    if (Result<> begun = start_hosts(); !begun) return begun;
    if (Result<> begun = start_relay(); !begun) return begun;
    if (Result<> kept = keeper_.start(); !kept) return kept;
    write_files();
    on_signal();
    arm_interval();

    std::string greeting = fmt::format("session {}: coordinator {}, checkpoints to {}", session_.name,
                                       ::getpid(), printable(settings_.ckptdir));
    if (!registry_.members().empty())
        greeting +=
            fmt::format("; found {} of computation {}",
                        human_count(registry_.members().size(), "process", "processes"), group_.cid());
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
        if (registry_.members().empty()) return quit("the terminal has hung up");
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

void Coordinator::joined(const Member& member) {
    expected(member.pid);
    if (uplink_) {
        uplink_->joined(member_json(member));
        return check_idle();
    }
    const Group::State before = group_.state();
    const bool awaited = group_.registered(member.uid);
    if (!awaited)
        note(fmt::format("{} was started without asking while a restart is pending; it is not part of it",
                         describe(member.pid)));
    if (before == Group::State::idle) {
        note(fmt::format("{} begins computation {}", describe(member.pid), group_.cid()));
        save_state();
    }
    check_idle();
}

void Coordinator::left(const Member& member) {
    if (uplink_) {
        uplink_->left(member.uid);
        if (registry_.members().empty() && registry_.births() == 0) {
            regions_.clear_names();
        }
        return check_idle();
    }
    const std::string cid = group_.cid();
    if (registry_.members().empty() && registry_.births() == 0 &&
        group_.state() != Group::State::restarting) {
        regions_.clear_names();
    }
    if (group_.left(member.uid)) {
        note(fmt::format("{} ({}) was the last one; computation {} has ended", member.virtual_pid,
                         printable(member.name), cid));
        save_state();
    }
    check_idle();
}

void Coordinator::expect(pid_t pid) {
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
    count_starting();
}

void Coordinator::expected(pid_t pid) {
    if (starting_.erase(pid) == 0) return;
    count_starting();
    check_idle();
}

asio::awaitable<std::size_t> Coordinator::kill_group() {
    const auto until = std::chrono::steady_clock::now() + 5s;
    std::set<std::string> ended;
    asio::steady_timer timer(io_);
    constexpr int looks_for_children = 20;  // of 10 ms: a parent may have been killed before it had one
    int looks = 0;
    // Again and again: what was being born meanwhile is a member by the next turn.
    while (std::chrono::steady_clock::now() < until) {
        registry_.scan();
        if (registry_.members().empty()) {
            if (registry_.births() == 0) break;
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

void Coordinator::set_interval(std::chrono::milliseconds interval) {
    settings_.interval = interval;
    arm_interval();
    save_state();
}

void Coordinator::arm_interval() {
    interval_timer_.cancel();
    if (settings_.interval <= 0ms || quitting_) return;
    interval_timer_.expires_after(settings_.interval);
    interval_timer_.async_wait([this](const boost::system::error_code& error) {
        if (error || quitting_) return;
        keeper_.check();
        if (group_.state() == Group::State::running && group_.np() > 0 && checkpointer_.busy())
            interval_missed("the checkpoint before it isn't over yet");
        else if (group_.state() == Group::State::running && group_.np() > 0)
            checkpointer_.ask({.ckptdir = settings_.ckptdir,
                               .ckptdir_asked_for = false,
                               .kill = false,
                               .self_contained = settings_.self_contained,
                               .without_strangers = false,
                               .external = settings_.external,
                               .timeout = {}},
                              [this](const Json& event, bool) {
                                  const std::string kind = get_string(event, "event");
                                  if (kind == "failed") interval_missed(get_string(event, "reason"));
                                  if (kind != "done") return;
                                  interval_trouble_.clear();
                                  intervals_told_.clear();
                              });
        arm_interval();
    });
}

void Coordinator::interval_missed(const std::string& why) {
    // Said once for each reason: an interval of a second must not fill the log.
    ++intervals_missed_;
    interval_trouble_ = why;
    if (!intervals_told_.insert(why).second) return;
    note(fmt::format("the interval of {} is not kept: {}",
                     human_duration(std::chrono::nanoseconds(settings_.interval).count()), printable(why)));
}

bool Coordinator::parts_busy() const {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& each) { return !each.second->over(); });
}

void Coordinator::check_idle() {
    if (!settings_.automatic || quitting_) return;
    const bool idle = group_.state() == Group::State::idle && registry_.members().empty() &&
                      starting_.empty() && registry_.births() == 0 && !checkpointer_.busy() &&
                      questions_.empty() && !parts_busy() && hosts_.starting() == 0;
    if (!idle) {
        idle_timer_.cancel();
        idle_armed_ = false;
        return;
    }
    if (std::exchange(idle_armed_, true)) return;
    idle_timer_.expires_after(settings_.linger);
    idle_timer_.async_wait([this](const boost::system::error_code& error) {
        if (error) return;
        idle_armed_ = false;
        registry_.scan();
        if (registry_.members().empty() && starting_.empty() && !checkpointer_.busy() &&
            group_.state() == Group::State::idle && questions_.empty() && !parts_busy())
            quit("nobody is left in the session");
        else
            check_idle();
    });
}

void Coordinator::quit(const std::string& why) {
    if (quitting_) return;
    quitting_ = true;
    interval_timer_.cancel();
    idle_timer_.cancel();
    registry_.scan();
    const std::size_t processes = registry_.members().size();
    note(processes == 0
             ? fmt::format("quit: {}", why)
             : fmt::format(
                   "quit: {}; {} without a coordinator, `cairn coordinator` finds them again", why,
                   processes == 1 ? "1 process goes on" : fmt::format("{} processes go on", processes)));
    checkpointer_.give_up("the coordinator was told to quit");
    for (const auto& [conversation, part] : parts_) part->give_up("the host's coordinator was told to quit");
    finish();
}

// A checkpoint that is given up needs its turn to clean up.
void Coordinator::finish() {
    if (checkpointer_.busy() || parts_busy()) {
        quit_timer_.expires_after(10ms);
        quit_timer_.async_wait([this](const boost::system::error_code&) { finish(); });
        return;
    }
    console_.stop();
    server_.stop();
    gate_.close();
    keeper_.stop();
    hosts_.stop();
    if (uplink_) uplink_->stop();
    signals_.cancel();
    // Under the lock: the next coordinator makes these anew. The region stays while somebody uses it.
    ::unlink(session_.socket().c_str());
    ::unlink(session_.pid_file().c_str());
    regions_.set_coordinator(0);
    if (registry_.members().empty() && registry_.births() == 0 && starting_.empty()) {
        ::unlink(session_.region().c_str());
        ::unlink(session_.users().c_str());
        ::unlink(state_path(session_).c_str());
    }
    registry_.stop();
    starting_.clear();
    // What is queued for the clients goes out first.
    quit_timer_.expires_after(200ms);
    quit_timer_.async_wait([this](const boost::system::error_code&) { io_.stop(); });
}

void Coordinator::note_ckptdir(const std::string& folder) {
    Region& region = regions_.owners();
    std::fill(std::begin(region.ckptdir), std::end(region.ckptdir), '\0');
    folder.copy(region.ckptdir, sizeof region.ckptdir - 1);
}

void Coordinator::load_state() {
    std::ifstream file(state_path(session_));
    std::stringstream text;
    text << file.rdbuf();
    const Json state = Json::parse(text.str(), nullptr, false);
    if (!state.is_object()) return;
    if (const std::string cid = get_string(state, "cid", Group::no_cid); cid != Group::no_cid)
        group_.adopt(cid);
    if (!settings_.interval_given)
        settings_.interval = std::chrono::milliseconds(get_number(state, "interval_ms"));
    if (!settings_.keep_given)
        settings_.keep = static_cast<std::uint32_t>(get_number(state, "keep", settings_.keep));
    if (!settings_.self_contained_given) settings_.self_contained = get_flag(state, "self_contained");
    if (!settings_.external_given && external_policy(get_string(state, "external")))
        settings_.external = get_string(state, "external");
    if (!settings_.ckptdir_given) settings_.ckptdir = get_string(state, "ckptdir", settings_.ckptdir);
    last_ = state.value("last", Json());
}

void Coordinator::save_state() {
    // A restart that is pending ends with its coordinator: the next one begins with ?.
    const bool running = group_.state() == Group::State::running;
    if (hosts_.all().empty() == false)
        hosts_.tell_all({{"type", "state"}, {"cid", group_.cid()}, {"np", group_.np()}});
    const std::string cid = !settings_.coordinator.empty() ? get_string(root_state_, "cid", Group::no_cid)
                            : running                      ? group_.cid()
                                                           : Group::no_cid;
    std::string text = text_of({{"cid", cid},
                                {"interval_ms", settings_.interval.count()},
                                {"keep", settings_.keep},
                                {"self_contained", settings_.self_contained},
                                {"external", settings_.external},
                                {"ckptdir", settings_.ckptdir},
                                {"last", last_}},
                               1) +
                       "\n";
    // A rename over a file waits for the disk on ext4, and every launch asks for one.
    if (text == saved_state_) return;
    write_small(state_path(session_), text);
    saved_state_ = std::move(text);
}

}  // namespace cairn::coordinator
