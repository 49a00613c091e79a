// Another host's side of a computation over several hosts: the coordinator of this host's processes asks the
// root, and does what the root orders.
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <filesystem>

#include "common/human.h"
#include "coordinator/coordinator.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto root_patience = 8s;  // of a client whose relay looks for the root

}  // namespace

Json Coordinator::member_json(const Member& member) {
    return {{"uid", member.uid}, {"pid", member.virtual_pid}, {"name", member.name}};
}

Result<> Coordinator::start_relay() {
    if (settings_.coordinator.empty()) return {};
    auto endpoint = TRY(parse_endpoint(settings_.coordinator));
    auto known = TRY(key());
    uplink_ = std::make_unique<Uplink>(
        io_, endpoint, known,
        Uplink::Handler{
            .greeting = [this] { return greeting(); },
            .connected =
                [this](const Json& welcome) {
                    root_state_ = welcome;
                    save_state();
                    note(fmt::format("relay of {}, computation {}", settings_.coordinator,
                                     get_string(welcome, "cid")));
                    uplink_->starting(starting_.size());
                    send_waiting();
                },
            .lost = [this](const std::string& why) { root_lost(why); },
            .state =
                [this](const Json& state) {
                    root_state_ = state;
                    save_state();
                },
            .answer = [this](std::uint64_t client, const Json& event) { answered(client, event); },
            .order = [this](std::uint64_t conversation, const Json& order) { ordered(conversation, order); },
            .refused = [this](const std::string& why) { turn_away(ExitCode::refused, why); },
            .note = [this](const std::string& text) { note(text); }});
    uplink_->start();
    return {};
}

Json Coordinator::greeting() const {
    Json members = Json::array();
    for (const auto& [slot, member] : registry_.members()) members.push_back(member_json(member));
    return {{"name", settings_.host},
            {"cid", get_string(root_state_, "cid", Group::no_cid)},
            {"members", members},
            {"starting", starting_.size()}};
}

void Coordinator::root_lost(const std::string& why) {
    note(fmt::format("the root at {} is lost: {}; the programs go on", settings_.coordinator, why));
    for (const auto& [conversation, part] : parts_) part->give_up(fmt::format("the root is lost: {}", why));
    // Whoever waits for an answer of the root's won't get it.
    const auto all = std::exchange(questions_, {});
    for (const auto& [client, question] : all) {
        const auto peer = question.peer.lock();
        if (!peer) continue;
        Json answer = failed(ExitCode::no_coordinator, fmt::format("the root coordinator at {} is lost: {}",
                                                                   settings_.coordinator, why));
        if (!question.id.is_null()) answer["id"] = question.id;
        peer->busy = false;
        peer->send(answer);
    }
    check_idle();
}

void Coordinator::relay_asks(const std::shared_ptr<Peer>& peer, const Json& request) {
    Question& question = questions_[peer->id()];
    question.peer = peer;
    question.id = request.value("id", Json());
    question.verb = get_string(request, "verb");
    peer->busy = true;
    Json asked = request;
    asked.erase("id");
    if (question.verb == "hello") {
        if (const std::string root = get_string(request, "coordinator");
            !root.empty() && root != settings_.coordinator)
            return answered(peer->id(), failed(ExitCode::refused,
                                               fmt::format("the session belongs to the coordinator at {}: "
                                                           "take another --session",
                                                           settings_.coordinator)));
        // Folders are this host's.
        if (const std::string folder = get_string(request, "ckptdir"); !folder.empty()) {
            std::error_code problem;
            const auto here =
                std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", peer->pid()), problem);
            settings_.ckptdir = absolute_path(folder, problem ? "/" : here.string());
            settings_.ckptdir_given = true;
            asked.erase("ckptdir");
            save_state();
        }
    } else if (question.verb == "restart-join") {
        question.restarting = true;
        question.directory = get_string(request, "directory");
    } else if (question.verb == "restart-ready") {
        // The slots are in this host's region.
        Json uids = Json::array();
        for (const RestoredMember& member : read_restored(request)) {
            if (Result<> restored = registry_.restore(member); !restored)
                return answered(peer->id(), failed(restored.error().code, restored.error().what));
            uids.push_back({{"uid", member.uid}});
        }
        asked["members"] = uids;
    }
    ask_root(peer->id(), asked);
}

void Coordinator::ask_root(Peer::Id client, const Json& request) {
    if (uplink_->connected()) return uplink_->ask(client, request);
    waiting_.emplace_back(client, request);
    if (waiting_.size() > 1) return;
    patience_.expires_after(root_patience);
    patience_.async_wait([this](const boost::system::error_code& error) {
        if (!error) turn_away(ExitCode::timed_out, uplink_->problem());
    });
}

void Coordinator::turn_away(ExitCode code, const std::string& why) {
    patience_.cancel();
    for (const auto& [waiting, asked] : std::exchange(waiting_, {}))
        answered(waiting, failed(code, fmt::format("the root coordinator at {} can't be had: {}",
                                                   settings_.coordinator, why)));
}

void Coordinator::send_waiting() {
    patience_.cancel();
    for (const auto& [client, request] : std::exchange(waiting_, {})) uplink_->ask(client, request);
}

void Coordinator::answered(std::uint64_t client, const Json& event) {
    const auto found = questions_.find(client);
    if (found == questions_.end()) return;
    Question& question = found->second;
    const auto peer = question.peer.lock();
    const std::string kind = get_string(event, "event");
    const bool last = kind == "done" || kind == "failed";
    Json answer = event;
    if (peer && kind == "done" && question.verb == "hello") {
        answer["session"] = session_.name;
        answer["region"] = session_.region();
        answer["pid"] = ::getpid();
        if (const std::string said = limits_note(); !said.empty()) answer["note"] = said;
        const std::string folder = settings_.ckptdir_given ? settings_.ckptdir : get_string(event, "ckptdir");
        note_ckptdir(folder);
        expect(peer->pid());
    }
    if (!question.id.is_null()) answer["id"] = question.id;
    if (peer) {
        // A restart's connection is kept: its folder is in use until it is closed.
        peer->busy = !last || (question.restarting && kind == "done");
        peer->send(answer);
    }
    if (last && !(question.restarting && kind == "done")) questions_.erase(client);
    check_idle();
}

void Coordinator::ordered(std::uint64_t conversation, const Json& order) {
    const std::string what = get_string(order, "do");
    const auto report = [this, conversation](const Json& event) { uplink_->report(conversation, event); };
    if (what == "list") {
        registry_.scan();
        Json processes = Json::array();
        list([&processes](const Json& event, bool) {
            if (get_string(event, "event") == "process") processes.push_back(event);
        });
        return report({{"event", "done"}, {"processes", processes}});
    }
    if (what == "kill") {
        for (const auto& [id, part] : parts_) part->give_up("the group is being ended");
        return kill([report](const Json& event, bool) { report(event); });
    }
    const auto known = parts_.find(conversation);
    if (known != parts_.end()) return known->second->order(order);
    if (what != "prepare") return;
    // The one before may still be putting things back.
    if (parts_busy()) {
        const auto later = std::make_shared<asio::steady_timer>(io_, 5ms);
        later->async_wait([this, later, conversation, order](const boost::system::error_code& error) {
            if (!error && uplink_->connected()) ordered(conversation, order);
        });
        return;
    }
    parts_.clear();
    auto part = std::make_shared<PartCheckpoint>(
        PartCheckpoint::Surroundings{io_, disk_, session_, regions_, registry_, settings_.host,
                                     settings_.ckptdir_given ? settings_.ckptdir : std::string(),
                                     [this] { return kill_group(); },
                                     [this] {
                                         std::vector<std::string> folders;
                                         for (const auto& [client, question] : questions_)
                                             if (!question.directory.empty())
                                                 folders.push_back(question.directory);
                                         return folders;
                                     }},
        report);
    parts_[conversation] = part;
    part->order(order);
}

}  // namespace cairn::coordinator
