// What a computation of many processes on several hosts costs its root: a real coordinator, and relays that
// are here only what they say. hosts PORT KEYFILE RELAYS MEMBERS ROUNDS: one line of JSON, times in ns.
//
// Each process has a TCP connection to one on the next host, so that its ends have to be found. Nothing is
// stopped, written or rebuilt.
#include <poll.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>

#include "common/channel/key.h"
#include "test/coordinator/fake_relay.h"

namespace {

using cairn::coordinator_test::FakeRelay;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* cid = "bench-0123456789abcdef-1";
// What a relay and a restart put into one message.
constexpr std::size_t most_joined = 1000, most_restored = 500, most_ends = 500;

[[noreturn]] void die(const std::string& why) {
    std::fprintf(stderr, "hosts: %s\n", why.c_str());
    std::exit(1);
}

std::int64_t since(Clock::time_point begin) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

std::size_t number(const char* text) {
    std::size_t value = 0;
    if (std::from_chars(text, text + std::strlen(text), value).ec != std::errc() || value == 0)
        die(std::string("not a number above 0: ") + text);
    return value;
}

struct Host {
    std::unique_ptr<FakeRelay> relay;
    std::uint64_t checkpoint = 0;     // the conversation of the one under way
    std::map<std::string, int> told;  // events of its clients, by name
    std::size_t links = 0;            // other ends that it was told of
};

// From the last host's coming until the last host is told.
struct Barrier {
    std::size_t came = 0, passed = 0;
    Clock::time_point last_came;
    std::int64_t ns = 0;
};

class Computation {
  public:
    Computation(std::uint16_t port, const cairn::Key& key, std::size_t relays, std::size_t members)
        : members_(members), hosts_(relays) {
        for (std::size_t i = 0; i < relays; ++i) {
            hosts_[i].relay = std::make_unique<FakeRelay>(port, key);
            if (!hosts_[i].relay->join("host" + std::to_string(i), {}, cid)) die("a relay was not taken in");
        }
    }

    [[nodiscard]] std::size_t np() const { return members_ * hosts_.size(); }

    // Until the root knows of all.
    std::int64_t join() {
        const auto begin = Clock::now();
        for (std::size_t at = 0; at < members_; at += most_joined)
            each([&](std::size_t host) {
                say(host, {{"type", "joined"}, {"members", members(host, at, most_joined)}});
            });
        wait_for_status([&](const Json& status) { return status.value("processes", 0U) == np(); });
        return since(begin);
    }

    void leave() {
        each([&](std::size_t host) {
            Json uids = Json::array();
            for (std::size_t i = 0; i < members_; ++i) uids.push_back(uid(host, i));
            say(host, {{"type", "left"}, {"uids", uids}});
        });
        wait_for_status([](const Json& status) { return status.value("state", "") == "idle"; });
    }

    std::int64_t status() {
        const auto begin = Clock::now();
        wait_for_status([](const Json&) { return true; });
        return since(begin);
    }

    std::int64_t checkpoint(std::map<std::string, std::int64_t>& barriers) {
        barriers_.clear();
        finished_ = 0;
        const auto begin = Clock::now();
        ask(0, {{"verb", "checkpoint"}});
        pump([&] { return hosts_[0].told.contains("done") && finished_ == hosts_.size(); }, "a checkpoint");
        for (const auto& [name, barrier] : barriers_) {
            if (barrier.passed != hosts_.size()) die("not all have passed " + name);
            barriers[name] = barrier.ns;
        }
        if (barriers.size() != 3) die("there are not three barriers");
        end_clients();
        return since(begin);
    }

    std::int64_t restart(std::map<std::string, std::int64_t>& barriers) {
        const auto begin = Clock::now();
        Json parts = Json::array();
        each([&](std::size_t host) {
            parts.push_back(
                {{"number", host + 1}, {"host", name(host)}, {"terminal", ""}, {"processes", members_}});
        });
        for (std::size_t at = 0; at < members_; at += most_restored)
            each([&](std::size_t host) {
                Json request = {{"verb", "restart-join"},
                                {"cid", cid},
                                {"np", np()},
                                {"generation", 1},
                                {"directory", "/nowhere"},
                                {"part", {host + 1}},
                                {"more", at + most_restored < members_},
                                {"members", members(host, at, most_restored)}};
                if (at == 0) request["parts"] = parts;
                ask(host, request);
            });
        all_are_told("go");
        barriers["join"] = since(begin);
        const auto linking = Clock::now();
        for (std::size_t at = 0; at < members_; at += most_ends)
            each([&](std::size_t host) {
                Json ends = Json::array();
                for (std::size_t i = at; i < std::min(members_, at + most_ends); ++i)
                    ends.push_back({{"link", host / 2 * members_ + i},
                                    {"side", host % 2},
                                    {"port", 40000},
                                    {"token", std::string(32, '0')},
                                    {"old", true}});
                ask(host, {{"verb", "restart-links"}, {"ends", ends}, {"more", at + most_ends < members_}});
            });
        pump([&] { return every([&](const Host& host) { return host.links == members_; }); }, "links");
        barriers["links"] = since(linking);
        const auto readying = Clock::now();
        for (std::size_t at = 0; at < members_; at += most_restored)
            each([&](std::size_t host) {
                ask(host, {{"verb", "restart-ready"},
                           {"members", members(host, at, most_restored)},
                           {"more", at + most_restored < members_}});
            });
        all_are_told("release");
        barriers["ready"] = since(readying);
        each([&](std::size_t host) { ask(host, {{"verb", "restart-done"}}); });
        all_are_told("done");
        end_clients();
        return since(begin);
    }

  private:
    [[nodiscard]] std::string name(std::size_t host) const { return "host" + std::to_string(host); }
    [[nodiscard]] std::string uid(std::size_t host, std::size_t i) const {
        return "0123456789abcdef-" + std::to_string(host * members_ + i) + "-1700000000000000000";
    }
    [[nodiscard]] std::size_t pid(std::size_t i) const { return 100 + i; }

    [[nodiscard]] Json members(std::size_t host, std::size_t at, std::size_t most) const {
        Json list = Json::array();
        for (std::size_t i = at; i < std::min(members_, at + most); ++i)
            list.push_back({{"uid", uid(host, i)}, {"pid", pid(i)}, {"name", "worker"}});
        return list;
    }

    // An end of a connection as a root's capture tells of it: hosts 0 and 1 are connected, 2 and 3...
    [[nodiscard]] Json ends(std::size_t host) const {
        Json list = Json::array();
        const auto address = [](std::size_t of, std::size_t i) {
            return "10.0.0." + std::to_string(of + 1) + ":" + std::to_string(20000 + i);
        };
        for (std::size_t i = 0; i < members_; ++i)
            list.push_back(
                {{"own", address(host, i)}, {"peer", address(host ^ 1, i)}, {"unsent", 0}, {"shown", true}});
        return list;
    }

    void each(const std::function<void(std::size_t)>& act) {
        for (std::size_t i = 0; i < hosts_.size(); ++i) act(i);
    }
    [[nodiscard]] bool every(const std::function<bool(const Host&)>& condition) const {
        return std::all_of(hosts_.begin(), hosts_.end(), condition);
    }

    void say(std::size_t host, const Json& message) {
        if (!hosts_[host].relay->say(message)) die("the root has closed the connection");
    }
    void ask(std::size_t host, const Json& request) {
        say(host, {{"type", "ask"}, {"client", 1}, {"request", request}});
    }
    void report(std::size_t host, const Json& event) {
        say(host, {{"type", "report"}, {"id", hosts_[host].checkpoint}, {"event", event}});
    }
    void end_clients() {
        each([&](std::size_t host) {
            say(host, {{"type", "gone"}, {"client", 1}});
            hosts_[host].told.clear();
            hosts_[host].links = 0;
        });
    }

    void all_are_told(const char* what) {
        pump([&] { return every([&](const Host& host) { return host.told.contains(what); }); }, what);
    }

    void wait_for_status(const std::function<bool(const Json&)>& condition) {
        for (;;) {
            status_ = nullptr;
            ask(0, {{"verb", "status"}});
            pump([&] { return status_.is_object(); }, "status");
            hosts_[0].told.erase("done");
            if (condition(status_)) return;
        }
    }

    void pump(const std::function<bool()>& until, const char* what) {
        const auto begin = Clock::now();
        std::vector<pollfd> polled;
        for (const Host& host : hosts_) polled.push_back({host.relay->fd(), POLLIN, 0});
        while (!until()) {
            if (since(begin) > 120'000'000'000) die(std::string("waited two minutes for ") + what);
            if (::poll(polled.data(), polled.size(), 500) == 0) {
                each([&](std::size_t host) { say(host, {{"type", "ping"}}); });
                continue;
            }
            for (std::size_t i = 0; i < polled.size(); ++i) {
                if (polled[i].revents == 0) continue;
                if (!hosts_[i].relay->read()) die("the root has closed the connection");
                for (Json next = hosts_[i].relay->next(); !next.is_null(); next = hosts_[i].relay->next())
                    heard(i, next);
            }
        }
    }

    void heard(std::size_t i, const Json& message) {
        Host& host = hosts_[i];
        const std::string type = message.value("type", "");
        if (type == "answer") {
            const Json& event = message.at("event");
            const std::string kind = event.value("event", "");
            if (kind == "failed") die("the root has refused: " + event.dump());
            if (kind == "links") host.links += event.at("ends").size();
            if (event.contains("processes") && event.contains("state")) status_ = event;
            ++host.told[kind];
        } else if (type == "order") {
            host.checkpoint = message.at("id").get<std::uint64_t>();
            ordered(i, message.at("order"));
        }
    }

    void come_to(std::size_t i, const char* name, const Json& data) {
        report(i, {{"event", "phase"}, {"name", name}, {"waiting", Json::array()}});
        report(i, {{"event", "barrier"}, {"name", name}, {"data", data}});
        Barrier& barrier = barriers_[name];
        ++barrier.came;
        barrier.last_came = Clock::now();
    }

    void go_on_behind(const std::string& barrier, std::size_t i) {
        if (barrier == "stopped") return come_to(i, "connections", {{"held", ends(i)}});
        if (barrier == "connections") return come_to(i, "captured", Json::object());
        Json pids = Json::array();
        for (std::size_t n = 0; n < members_; ++n) pids.push_back(pid(n));
        report(i, {{"event", "captured"},
                   {"bytes", members_ * 100'000},
                   {"pause_ns", 1},
                   {"processes", members_},
                   {"notes", Json::array()},
                   {"parts", {{{"number", 1}, {"terminal", ""}, {"pids", pids}}}}});
    }

    void ordered(std::size_t i, const Json& order) {
        const std::string what = order.value("do", "");
        if (what == "prepare")
            return report(i, {{"event", "prepared"}, {"next", 1}, {"processes", members_}});
        if (what == "capture") return come_to(i, "stopped", {{"processes", members_}});
        if (what == "pass") {
            const std::string name = order.at("name");
            Barrier& barrier = barriers_[name];
            if (barrier.came != hosts_.size()) die("somebody was let through before all had come: " + name);
            if (name == "connections" && order.at("data").at("ends").size() != members_)
                die("connections are missing");
            if (++barrier.passed < hosts_.size()) return;
            barrier.ns = since(barrier.last_came);
            // Only now: what it takes this program to say what comes next is no time of the root's.
            return each([&](std::size_t host) { go_on_behind(name, host); });
        }
        if (what == "seal") return report(i, {{"event", "sealed"}});
        if (what == "publish")
            return report(i, {{"event", "published"}, {"notes", Json::array()}, {"directory", "/nowhere"}});
        if (what == "finish") {
            ++finished_;
            return report(i, {{"event", "finished"}});
        }
        die("the root orders " + order.dump());
    }

    std::size_t members_;
    std::vector<Host> hosts_;
    std::map<std::string, Barrier> barriers_;
    std::size_t finished_ = 0;
    Json status_;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) die("usage: hosts PORT KEYFILE RELAYS MEMBERS ROUNDS");
    auto key = cairn::Key::load(argv[2]);
    if (!key) die(key.error().what);
    const std::size_t relays = number(argv[3]);
    if (relays % 2 != 0) die("an even number of relays: each is connected to its neighbour");
    Computation computation(static_cast<std::uint16_t>(number(argv[1])), *key, relays, number(argv[4]));
    Json times;
    times["processes"] = computation.np();
    for (std::size_t round = number(argv[5]); round > 0; --round) {
        std::map<std::string, std::int64_t> barriers;
        times["join"].push_back(computation.join());
        times["status"].push_back(computation.status());
        times["checkpoint"].push_back(computation.checkpoint(barriers));
        computation.leave();
        times["restart"].push_back(computation.restart(barriers));
        computation.join();
        computation.leave();
        for (const auto& [name, ns] : barriers) times["barrier " + name].push_back(ns);
    }
    std::puts(times.dump().c_str());
}
