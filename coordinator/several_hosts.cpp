// The root's side of a computation over several hosts.
#include <unistd.h>

#include <cstdlib>

#include "common/human.h"
#include "coordinator/coordinator.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto answer_limit = 8s;  // of a host that is asked something small

}  // namespace

Result<Key> Coordinator::key() const {
    if (const char* given = std::getenv("CAIRN_KEY"); given != nullptr && *given != '\0')
        return Key::parse(given, "CAIRN_KEY");
    if (!settings_.key_file.empty()) return Key::load(settings_.key_file);
    if (!settings_.coordinator.empty())
        return fail_code(
            ExitCode::refused,
            "the coordinator at {} wants its key proved: hand over the file `key` of its session by --key "
            "(CAIRN_KEY_FILE), or the key itself by CAIRN_KEY",
            settings_.coordinator);
    return Key::load_or_make(session_.directory + "/key");
}

Result<> Coordinator::start_hosts() {
    if (settings_.listen.empty()) return {};
    auto endpoint = TRY(parse_endpoint(settings_.listen));
    auto known = TRY(key());
    auto where = TRY(hosts_.listen(endpoint, known));
    note(fmt::format("listens for other hosts at {}", where));
    return {};
}

Hosts::Handler Coordinator::hosts_handler() {
    return {
        .welcome = [this](const Host&, const Json& greeting) { return welcome(greeting); },
        .joined =
            [this](const RemoteMember& member) {
                const bool idle = group_.state() == Group::State::idle;
                if (!group_.registered(member.uid))
                    note(fmt::format(
                        "{} ({}) was started without asking while a restart is pending; it is not part of it",
                        member.pid, printable(member.name)));
                if (idle) {
                    note(fmt::format("{} ({}) begins computation {}", member.pid, printable(member.name),
                                     group_.cid()));
                    save_state();
                }
            },
        .left =
            [this](const RemoteMember& member) {
                const std::string cid = group_.cid();
                if (!group_.left(member.uid)) return;
                note(fmt::format("{} ({}) was the last one; computation {} has ended", member.pid,
                                 printable(member.name), cid));
                save_state();
            },
        .ask = [this](Host& host, std::uint64_t client,
                      const Json& request) { host_asks(host, client, request); },
        .client_gone = [this](const Host& host,
                              std::uint64_t client) { barrier_.disconnected(host.id << 40 | client); },
        .changed =
            [this] {
                count_starting();
                check_idle();
            },
        .note = [this](const std::string& text) { note(text); }};
}

void Coordinator::count_starting() {
    group_.set_starting(starting_.size() + hosts_.starting());
    if (uplink_) uplink_->starting(starting_.size());
}

Result<Json> Coordinator::welcome(const Json& greeting) {
    if (quitting_) return fail("the coordinator is ending");
    const std::string cid = get_string(greeting, "cid", Group::no_cid);
    const Json members = greeting.value("members", Json::array());
    if (cid != Group::no_cid && members.is_array() && !members.empty()) {
        if (group_.state() == Group::State::idle)
            group_.adopt(cid);
        else if (group_.cid() != cid)
            return fail_code(
                ExitCode::refused,
                "its processes belong to computation {}, here {} is served: end one of them (cairn kill)",
                cid, group_.cid());
    }
    return Json{{"cid", group_.cid()}, {"np", group_.np()}, {"host", settings_.host}};
}

void Coordinator::host_asks(Host& host, std::uint64_t client, const Json& request) {
    const std::uint64_t whole = host.id << 40 | client;
    const Sink sink = [this, id = host.id, client](const Json& event, bool) {
        hosts_.answer(id, client, event);
    };
    const Reply reply = [sink](const Json& event) { sink(event, false); };
    const std::string verb = get_string(request, "verb");
    if (quitting_) return reply({{"event", "failed"}, {"code", 1}, {"reason", "the coordinator is ending"}});
    if (verb == "hello") {
        Json known = request;
        known.erase("coordinator");
        known.erase("ckptdir");  // folders are each host's own, and this one's user says where it writes
        Result<Json> done = take_in(known, "/");
        if (!done)
            return reply({{"event", "failed"},
                          {"code", static_cast<int>(done.error().code)},
                          {"reason", done.error().what}});
        hosts_.raise_starting(host.id);
        count_starting();
        return reply(*done);
    }
    if (verb == "restart-join") return barrier_.join(whole, request, reply);
    if (verb == "restart-ready") return barrier_.ready(whole, request, reply, false);
    if (verb == "restart-links") return barrier_.links(whole, request, reply);
    if (verb == "restart-done") return barrier_.done(whole, reply);
    if (!ask(request, sink))
        reply({{"event", "failed"},
               {"code", static_cast<int>(ExitCode::usage)},
               {"reason", "there is no such verb"}});
}

void Coordinator::ask_hosts(const Json& order, std::function<void(const Host&, const Json&)> heard,
                            std::function<void()> done) {
    struct Round {
        std::size_t left = 0;
        std::vector<std::uint64_t> conversations;
        std::unique_ptr<asio::steady_timer> limit;
        std::function<void()> done;
    };
    const auto round = std::make_shared<Round>();
    round->done = std::move(done);
    const auto finish = [this, round] {
        const auto last = std::exchange(round->done, {});
        if (!last) return;
        for (const std::uint64_t conversation : round->conversations) hosts_.close(conversation);
        if (round->limit) round->limit->cancel();
        last();
    };
    std::vector<std::uint64_t> connected;
    for (const auto& [id, host] : hosts_.all())
        if (host.link) connected.push_back(id);
    round->left = connected.size();
    if (connected.empty()) return finish();
    round->limit = std::make_unique<asio::steady_timer>(io_, answer_limit);
    round->limit->async_wait([finish](const boost::system::error_code& error) {
        if (!error) finish();
    });
    for (const std::uint64_t id : connected) {
        round->conversations.push_back(hosts_.open(id, [this, id, round, heard, finish](const Json& event) {
            const Host* host = hosts_.find(id);
            if (host != nullptr) heard(*host, event);
            const std::string kind = get_string(event, "event");
            if ((kind == "done" || kind == "failed" || kind == "lost") && --round->left == 0) finish();
        }));
        hosts_.order(round->conversations.back(), order);
    }
}

void Coordinator::list_all(const Sink& sink) {
    if (hosts_.all().empty()) return list(sink);
    const auto last = std::make_shared<Json>();
    list([this, sink, last](const Json& event, bool droppable) {
        if (get_string(event, "event") != "process") {
            *last = event;
            return;
        }
        Json named = event;
        named["host"] = settings_.host;
        sink(named, droppable);
    });
    ask_hosts(
        {{"do", "list"}},
        [sink](const Host& host, const Json& event) {
            for (const Json& process : event.value("processes", Json::array())) {
                Json named = process;
                named["host"] = host.name;
                sink(named, false);
            }
        },
        [this, sink, last] {
            (*last)["np"] = group_.np();
            sink(*last, false);
        });
}

void Coordinator::kill_all(const Sink& sink) {
    if (hosts_.all().empty()) return kill(sink);
    const auto total = std::make_shared<std::int64_t>(0);
    const auto problem = std::make_shared<std::string>();
    checkpointer_.give_up("the group is being ended");
    ask_hosts(
        {{"do", "kill"}},
        [total, problem](const Host& host, const Json& event) {
            *total += get_number(event, "killed");
            if (get_string(event, "event") == "failed" || get_string(event, "event") == "lost")
                *problem = fmt::format("host {}: {}", host.name, get_string(event, "reason"));
        },
        [this, sink, total, problem] {
            hosts_.forget_lost();
            kill([sink, total, problem](const Json& event, bool droppable) {
                Json sum = event;
                if (get_string(event, "event") == "done")
                    sum["killed"] = get_number(event, "killed") + *total;
                if (!problem->empty() && get_string(event, "event") == "done")
                    sum = {{"event", "failed"}, {"code", 1}, {"reason", *problem}};
                sink(sum, droppable);
            });
        });
}

}  // namespace cairn::coordinator
