#include "coordinator/relay.h"

#include <algorithm>

#include "common/human.h"
#include "coordinator/attempt.h"
#include "coordinator/group.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto root_patience = 8s;  // of a client whose relay looks for the root

wire::HostMember told(const Member& member) {
    return {.uid = member.uid, .comm = member.name, .pid = member.program_pid};
}

}  // namespace

Relay::Relay(Office office)
    : s_(std::move(office)),
      registry_(s_.programs.registry()),
      memory_{Group::no_cid, nullptr},
      patience_(s_.io) {}

Result<> Relay::start() {
    const auto endpoint = TRY(parse_endpoint(s_.settings.coordinator));
    const auto key = TRY(key_of(s_.settings, s_.session));
    uplink_.emplace(s_.io, endpoint, key, handler());
    uplink_->start();
    return {};
}

void Relay::stop() {
    if (uplink_) uplink_->stop();
}

Uplink::Handler Relay::handler() {
    return {.greeting = [this] { return greeting(); },
            .connected =
                [this](const wire::Welcome& welcome) {
                    serves(welcome.cid);
                    s_.note(fmt::format("relay of {}, computation {}", s_.settings.coordinator, welcome.cid));
                    starting();
                    send_waiting();
                },
            .lost = [this](const std::string& why) { root_lost(why); },
            .state = [this](const wire::State& state) { serves(state.cid); },
            .answer = [this](std::uint64_t client, const Json& event) { answered(client, event); },
            .order = [this](std::uint64_t conversation, const Json& order) { ordered(conversation, order); },
            .refused = [this](const std::string& why) { turn_away(ExitCode::refused, why); },
            .note = s_.note};
}

void Relay::serves(const std::string& cid) {
    memory_.cid = cid;
    s_.save_state();
}

wire::HostGreeting Relay::greeting() const {
    wire::HostGreeting greeting;
    greeting.host = s_.settings.host;
    greeting.cid = memory_.cid;
    for (const auto& [slot, member] : registry_.members()) greeting.members.push_back(told(member));
    greeting.starting = static_cast<std::uint32_t>(s_.programs.starting());
    return greeting;
}

void Relay::joined(const Member& member) {
    if (uplink_) uplink_->joined(told(member));
}

void Relay::left(const Member& member) {
    if (uplink_) uplink_->left(member.uid);
    if (s_.programs.none()) s_.regions.clear_names();
}

// The root takes checkpoints, and of one of its programs' asking only it could tell.
void Relay::asked_by(const Member& member) {
    s_.note(fmt::format("{} has asked for a checkpoint: programs may do so on the host of the root only",
                        describe(member.pid)));
    answer_member(s_.regions, member.place, member.pid, ExitCode::refused);
}

void Relay::starting() {
    if (uplink_) uplink_->starting(s_.programs.starting());
}

bool Relay::at_work() const {
    return std::ranges::any_of(parts_, [](const auto& each) { return !each.second->over(); });
}

void Relay::give_up(const std::string& reason) {
    for (const auto& [conversation, part] : parts_) part->give_up(reason);
}

void Relay::root_lost(const std::string& why) {
    s_.note(fmt::format("the root at {} is lost: {}; the programs go on", s_.settings.coordinator, why));
    give_up(fmt::format("the root is lost: {}", why));
    // Whoever waits for an answer of the root's won't get it.
    for (const auto& [client, question] : std::exchange(questions_, {}))
        question.sink(failed(ExitCode::no_coordinator, fmt::format("the root coordinator at {} is lost: {}",
                                                                   s_.settings.coordinator, why)),
                      false);
    s_.check_idle();
}

void Relay::ask(const Client& client, const Json& request, const Sink& sink) {
    Question& question = questions_[client.id];
    question.client = client;
    question.sink = sink;
    question.verb = get_string(request, "verb");
    Json asked = request;
    asked.erase("id");
    if (const Result<> fine = adapt(question, asked); !fine) return answered(client.id, failed(fine.error()));
    ask_root(client.id, asked);
}

Result<> Relay::adapt(Question& question, Json& request) {
    if (question.verb == wire::Hello::name.value) {
        const auto wishes = TRY(wire::unpack<wire::Hello>(request));
        if (!wishes.coordinator.empty() && wishes.coordinator != s_.settings.coordinator)
            return fail_code(ExitCode::refused,
                             "the session belongs to the coordinator at {}: take another --session",
                             s_.settings.coordinator);
        // Folders are this host's.
        if (!wishes.ckptdir.empty()) {
            s_.settings.ckptdir = absolute_path(wishes.ckptdir, question.client.folder());
            s_.settings.ckptdir_given = true;
            request.erase("ckptdir");
            s_.save_state();
        }
    } else if (question.verb == wire::RestartJoin::name.value) {
        question.directory = TRY(wire::unpack<wire::RestartJoin>(request)).directory;
        question.restarting = true;
    } else if (question.verb == wire::RestartReady::name.value) {
        // The slots are in this host's region.
        auto ready = TRY(wire::unpack<wire::RestartReady>(request));
        for (const wire::ReadyMember& member : ready.members) CHECK_OK(registry_.restore(member));
        for (wire::ReadyMember& member : ready.members) member = {.uid = member.uid};
        request = pack(ready);
    }
    return {};
}

void Relay::ask_root(Peer::Id client, const Json& request) {
    if (uplink_->connected()) return uplink_->ask(client, request);
    waiting_.emplace_back(client, request);
    if (waiting_.size() > 1) return;
    patience_.expires_after(root_patience);
    patience_.async_wait([this](const boost::system::error_code& error) {
        if (!error) turn_away(ExitCode::timed_out, uplink_->problem());
    });
}

void Relay::turn_away(ExitCode code, const std::string& why) {
    patience_.cancel();
    for (const auto& [waiting, asked] : std::exchange(waiting_, {}))
        answered(waiting, failed(code, fmt::format("the root coordinator at {} can't be had: {}",
                                                   s_.settings.coordinator, why)));
}

void Relay::send_waiting() {
    patience_.cancel();
    for (const auto& [client, request] : std::exchange(waiting_, {})) uplink_->ask(client, request);
}

void Relay::answered(Peer::Id client, const Json& event) {
    const auto found = questions_.find(client);
    if (found == questions_.end()) return;
    const Question question = found->second;
    const std::string kind = get_string(event, "event");
    Json answer = event;
    if (kind == "done" && question.verb == "hello") {
        s_.regions.note_ckptdir(s_.settings.ckptdir_given ? s_.settings.ckptdir
                                                          : get_string(event, "ckptdir"));
        s_.take_in(answer, question.client.pid);
    }
    // A restart's connection is kept: its folder is in use until it is closed.
    if (is_last(event) && !(question.restarting && kind == "done")) questions_.erase(found);
    question.sink(answer, false);
    s_.check_idle();
}

void Relay::closed(Peer::Id client) {
    std::erase_if(waiting_, [&](const auto& each) { return each.first == client; });
    if (questions_.erase(client) != 0) uplink_->gone(client);
    s_.check_idle();
}

void Relay::ordered(std::uint64_t conversation, const Json& order) {
    const std::string what = get_string(order, "do");
    const Reply report = [this, conversation](const Json& event) { uplink_->report(conversation, event); };
    if (what == "list") {
        registry_.scan();
        wire::HostList list;
        for (const wire::Process& process : s_.programs.list()) list.processes.push_back(pack(process));
        return report(pack(list));
    }
    if (what == "kill") {
        give_up("the group is being ended");
        return s_.programs.kill(report);
    }
    const auto known = parts_.find(conversation);
    if (known != parts_.end()) return known->second->order(order);
    if (what != "prepare") return;
    // The one before may still be putting things back.
    if (at_work()) {
        const auto later = std::make_shared<asio::steady_timer>(s_.io, 5ms);
        later->async_wait([this, later, conversation, order](const boost::system::error_code& error) {
            if (!error && uplink_->connected()) ordered(conversation, order);
        });
        return;
    }
    begin_part(conversation, order, report);
}

void Relay::begin_part(std::uint64_t conversation, const Json& order, const Reply& report) {
    parts_.clear();
    const auto folders_in_use = [this] {
        std::vector<std::string> folders;
        for (const auto& [client, question] : questions_)
            if (!question.directory.empty()) folders.push_back(question.directory);
        return folders;
    };
    const auto part = std::make_shared<PartCheckpoint>(
        PartCheckpoint::Surroundings{s_.io, disk_, s_.session, s_.regions, registry_, s_.settings.host,
                                     s_.settings.ckptdir_given ? s_.settings.ckptdir : std::string(),
                                     [this] { return s_.programs.kill_all(); }, folders_in_use},
        report);
    parts_[conversation] = part;
    part->order(order);
}

}  // namespace cairn::coordinator
