// The root's side of a computation over several hosts.
#include "coordinator/root.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto answer_limit = 8s;  // of a host that is asked something small

}  // namespace

Hosts::Handler Root::hosts_handler() {
    return {.welcome = [this](const wire::HostGreeting& greeting) { return welcome(greeting); },
            .joined =
                [this](const wire::HostMember& member) {
                    entered(member.uid, fmt::format("{} ({})", member.pid, printable(member.comm)));
                },
            .left = [this](const wire::HostMember& member) { gone(member.uid, member.pid, member.comm); },
            .ask = [this](Host& host, std::uint64_t client,
                          const Json& request) { host_asks(host, client, request); },
            .client_gone = [this](const Host& host,
                                  std::uint64_t client) { barrier_.disconnected(host.id << 40 | client); },
            .changed =
                [this] {
                    starting();
                    s_.check_idle();
                },
            .note = s_.note};
}

Result<wire::Welcome> Root::welcome(const wire::HostGreeting& greeting) {
    if (quitting_) return fail("the coordinator is ending");
    const std::string& cid = greeting.cid;
    if (cid != Group::no_cid && !greeting.members.empty()) {
        if (group_.state() == Group::State::idle)
            group_.adopt(cid);
        else if (group_.cid() != cid)
            return fail_code(
                ExitCode::refused,
                "its processes belong to computation {}, here {} is served: end one of them (cairn kill)",
                cid, group_.cid());
    }
    return wire::Welcome{.cid = group_.cid(), .host = s_.settings.host, .np = group_.np()};
}

void Root::host_asks(Host& host, std::uint64_t client, const Json& request) {
    const Sink sink = [this, id = host.id, client](const Json& event, bool) {
        hosts_.answer(id, client, event);
    };
    if (quitting_) return sink(failed(ExitCode::failed, "the coordinator is ending"), false);
    if (get_string(request, "verb") == "hello") {
        auto wishes = wire::unpack<wire::Hello>(request);
        if (!wishes) return sink(failed(wishes.error()), false);
        wishes->coordinator.clear();
        wishes->ckptdir.clear();  // folders are each host's own, and this one's user says where it writes
        const Result<Json> done = hello(*wishes, "/");
        if (!done) return sink(failed(done.error()), false);
        hosts_.raise_starting(host.id);
        starting();
        return sink(*done, false);
    }
    if (!answer(host.id << 40 | client, false, request, sink))
        sink(failed(ExitCode::usage, "there is no such verb"), false);
}

void Root::ask_hosts(const Json& order, const std::function<void(const Host&, const Json&)>& heard,
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
    round->limit = std::make_unique<asio::steady_timer>(s_.io, answer_limit);
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

}  // namespace cairn::coordinator
