#include "coordinator/hosts.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "common/human.h"
#include "common/region.h"
#include "coordinator/group.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// Bytes. Names are comm's, in whatever encoding.
constexpr std::size_t longest_address = 64, longest_process_name = 64;

std::size_t count_of(const Json& message, const char* field) {
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(get_number(message, field), 0, std::int64_t{slot_count}));
}

}  // namespace

Result<std::string> Hosts::listen(const Endpoint& endpoint, const Key& key) {
    key_ = key;
    limits_ = link_limits();
    std::string where;
    auto socket = TRY(listen_at(endpoint, where));
    acceptor_.start(std::move(socket));
    return where;
}

void Hosts::stop() {
    acceptor_.stop();
    for (auto& [key, stranger] : strangers_) stranger.link->close();
    strangers_.clear();
    for (auto& [id, host] : hosts_)
        if (host.link) host.link->close();
    conversations_.clear();
}

void Hosts::accepted(Fd socket) {
    // Who hasn't proved anything has a place among few; the others' connections aren't touched by a flood of
    // these.
    if (strangers_.size() >= most_strangers) make_room();
    std::string address = peer_address(socket.get());
    std::string site = peer_site(socket.get());
    auto link = std::make_shared<Link>(io_, std::move(socket), Channel::Role::root, key_, limits_);
    const Link* which = link.get();
    strangers_[which] = {link, std::move(address), std::move(site), next_stranger_++};
    link->start({.ready = [] {},
                 .message =
                     [this, which](const Json& message) {
                         if (const auto host = host_of_.find(which); host != host_of_.end())
                             return said(host->second, message);
                         if (const auto stranger = strangers_.find(which); stranger != strangers_.end())
                             greeted(stranger->second.link, message);
                     },
                 .ended =
                     [this, which](const std::string& why) {
                         strangers_.erase(which);
                         if (const auto host = host_of_.find(which); host != host_of_.end())
                             lost(host->second, why);
                     }});
}

// A host that was lost has to get in again while somebody else knocks a thousand times a second. So the one
// who goes is of the address that has most, and came first of those: who has the key needs his place for a
// millisecond or two.
void Hosts::make_room() {
    std::map<std::string, std::size_t> crowds;
    for (const auto& [key, stranger] : strangers_) ++crowds[stranger.address];
    const auto rank = [&](const auto& each) {
        const Stranger& stranger = each.second;
        return std::tuple(stranger.link->ready(), -static_cast<std::int64_t>(crowds.at(stranger.address)),
                          stranger.number);
    };
    const auto last = std::ranges::min_element(strangers_, {}, rank);
    last->second.link->drop();
    strangers_.erase(last);
}

void Hosts::greeted(std::shared_ptr<Link> link, const Json& greeting) {
    const auto place = strangers_.extract(link.get());
    const auto refuse = [&](const Error& why) {
        link->send({{"type", "refused"}, {"code", static_cast<int>(why.code)}, {"reason", why.what}});
        // It closes when it has read that.
        strangers_[link.get()] = place.mapped();
    };
    const std::string name = get_string(greeting, "name");
    if (get_string(greeting, "type") != "host" || name.empty() || name.size() > 255)
        return refuse({"a host says its name first", 0, ExitCode::usage});
    const auto known = std::find_if(hosts_.begin(), hosts_.end(),
                                    [&](const auto& each) { return each.second.name == name; });
    if (known != hosts_.end() && known->second.link)
        return refuse({fmt::format("there is a host {} already, at {}: --host gives this one another name",
                                   name, known->second.link->peer()),
                       0, ExitCode::refused});
    if (known == hosts_.end() && hosts_.size() >= most_hosts)
        return refuse({"too many hosts", 0, ExitCode::refused});
    Host fresh;
    fresh.id = known == hosts_.end() ? next_++ : known->first;
    fresh.name = name;
    fresh.site = place.mapped().site;
    for (const Json& address : greeting.value("addresses", Json::array()))
        if (std::string text = address.is_string() ? address.get<std::string>() : std::string();
            !text.empty() && text.size() <= longest_address && fresh.addresses.size() < 32)
            fresh.addresses.push_back(std::move(text));
    Result<Json> welcome = handler_.welcome(fresh, greeting);
    if (!welcome) return refuse(welcome.error());
    Host& host = hosts_[fresh.id];
    host.id = fresh.id;
    host.name = fresh.name;
    host.site = fresh.site;
    host.addresses = fresh.addresses;
    host.link = link;
    host_of_[link.get()] = host.id;
    (*welcome)["type"] = "welcome";
    link->send(*welcome);
    handler_.note(fmt::format("host {} ({}) takes part", printable(name), link->peer()));
    if (auto fine = set_members(host, greeting.value("members", Json::array())); !fine)
        return turn_out(host.id, fine.error());
    host.starting = count_of(greeting, "starting");
    handler_.changed();
}

// Who has the key is believed what he says of his processes, but for what can't be: there are no more of them
// than places in a region, and no more regions on a machine than its memory lets one believe.
Result<> Hosts::join(Host& host, const Json& list) {
    if (!list.is_array()) return {};
    std::size_t there = 0;
    for (const auto& [id, each] : hosts_)
        if (each.site == host.site) there += each.members.size();
    for (const Json& one : list) {
        RemoteMember member{get_string(one, "uid"), get_number(one, "pid"), get_string(one, "name")};
        if (member.uid.size() > longest_uid || member.name.size() > longest_process_name)
            return fail_code(ExitCode::refused,
                             "it tells of a process whose uid has {} bytes and whose name {}",
                             member.uid.size(), member.name.size());
        if (member.uid.empty() || !host.members.emplace(member.uid, member).second) continue;
        handler_.joined(member);
        if (host.members.size() > slot_count)
            return fail_code(ExitCode::refused,
                             "it tells of more than {} processes, a host's region holds no more", slot_count);
        if (++there > most_at_site)
            return fail_code(ExitCode::refused, "more than {} processes are told of from {}", most_at_site,
                             host.site);
    }
    return {};
}

// Nothing of what it has told counts any more.
void Hosts::turn_out(std::uint64_t id, const Error& why) {
    Host& host = hosts_.at(id);
    const std::shared_ptr<Link> link = host.link;
    link->send({{"type", "refused"}, {"code", static_cast<int>(why.code)}, {"reason", why.what}});
    // It closes when it has read that: if this end did, with more to come, the reason would be lost.
    if (strangers_.size() >= most_strangers) make_room();
    strangers_[link.get()] = {link, host.site, host.site, next_stranger_++};
    const auto members = std::exchange(host.members, {});
    lost(id, why.what);
    for (const auto& [uid, member] : members) handler_.left(member);
    handler_.changed();
}

// After a link was lost: who has gone meanwhile, who has come.
Result<> Hosts::set_members(Host& host, const Json& list) {
    std::set<std::string> now;
    if (list.is_array())
        for (const Json& one : list) now.insert(get_string(one, "uid"));
    CHECK_OK(join(host, list));
    for (auto it = host.members.begin(); it != host.members.end();) {
        if (now.contains(it->first)) {
            ++it;
            continue;
        }
        const RemoteMember member = it->second;
        it = host.members.erase(it);
        handler_.left(member);
    }
    return {};
}

void Hosts::said(std::uint64_t id, const Json& message) {
    if (auto fine = obey(hosts_.at(id), message); !fine) turn_out(id, fine.error());
}

Result<> Hosts::obey(Host& host, const Json& message) {
    const std::string type = get_string(message, "type");
    if (type == "joined") {
        CHECK_OK(join(host, message.value("members", Json::array())));
        handler_.changed();
    } else if (type == "left") {
        for (const Json& uid : message.value("uids", Json::array())) {
            const auto found =
                uid.is_string() ? host.members.find(uid.get<std::string>()) : host.members.end();
            if (found == host.members.end()) continue;
            const RemoteMember member = found->second;
            host.members.erase(found);
            handler_.left(member);
        }
        handler_.changed();
    } else if (type == "more") {  // of a greeting with many members
        return join(host, message.value("members", Json::array()));
    } else if (type == "starting") {
        host.starting = count_of(message, "count");
        handler_.changed();
    } else if (type == "ask") {
        const auto client = static_cast<std::uint64_t>(get_number(message, "client"));
        host.clients.insert(client);
        if (host.clients.size() > most_clients)
            return fail_code(ExitCode::refused, "it asks for more than {} clients at once", most_clients);
        handler_.ask(host, client, message.value("request", Json::object()));
    } else if (type == "gone") {
        const auto client = static_cast<std::uint64_t>(get_number(message, "client"));
        host.clients.erase(client);
        handler_.client_gone(host, client);
    } else if (type == "report") {
        const auto found = conversations_.find(static_cast<std::uint64_t>(get_number(message, "id")));
        if (found == conversations_.end() || found->second.host != host.id) return {};
        const Heard heard = found->second.heard;  // it may close itself
        heard(message.value("event", Json::object()));
    }
    return {};
}

void Hosts::lost(std::uint64_t id, const std::string& why) {
    Host& host = hosts_.at(id);
    host_of_.erase(host.link.get());
    host.link.reset();
    host.starting = 0;
    host.lost_at = std::chrono::steady_clock::now();
    handler_.note(fmt::format("host {} is lost: {}{}", printable(host.name), why,
                              host.members.empty()
                                  ? ""
                                  : fmt::format("; {} of the computation there can't be reached",
                                                human_count(host.members.size(), "process", "processes"))));
    for (const std::uint64_t client : std::exchange(host.clients, {})) handler_.client_gone(host, client);
    std::vector<Heard> hearers;
    for (auto it = conversations_.begin(); it != conversations_.end();) {
        if (it->second.host != id) {
            ++it;
            continue;
        }
        hearers.push_back(it->second.heard);
        it = conversations_.erase(it);
    }
    if (host.members.empty()) hosts_.erase(id);
    for (const Heard& heard : hearers) heard({{"event", "lost"}, {"reason", why}});
    handler_.changed();
}

const Host* Hosts::find(std::uint64_t id) const {
    const auto found = hosts_.find(id);
    return found == hosts_.end() ? nullptr : &found->second;
}

std::size_t Hosts::members() const {
    std::size_t count = 0;
    for (const auto& [id, host] : hosts_) count += host.members.size();
    return count;
}

std::size_t Hosts::starting() const {
    std::size_t count = 0;
    for (const auto& [id, host] : hosts_) count += host.starting;
    return count;
}

void Hosts::tell_all(const Json& message) {
    for (const auto& [id, host] : hosts_)
        if (host.link) host.link->send(message);
}

void Hosts::answer(std::uint64_t id, std::uint64_t client, const Json& event) {
    const Host* host = find(id);
    if (host != nullptr && host->link)
        host->link->send({{"type", "answer"}, {"client", client}, {"event", event}});
}

void Hosts::raise_starting(std::uint64_t id) {
    if (const auto found = hosts_.find(id); found != hosts_.end()) ++found->second.starting;
}

void Hosts::forget_lost() {
    std::vector<RemoteMember> gone;
    for (auto it = hosts_.begin(); it != hosts_.end();) {
        if (it->second.link) {
            ++it;
            continue;
        }
        for (const auto& [uid, member] : it->second.members) gone.push_back(member);
        it = hosts_.erase(it);
    }
    for (const RemoteMember& member : gone) handler_.left(member);
}

std::uint64_t Hosts::open(std::uint64_t host, Heard heard) {
    conversations_[next_conversation_] = {host, std::move(heard)};
    return next_conversation_++;
}

void Hosts::order(std::uint64_t conversation, const Json& order) {
    const auto found = conversations_.find(conversation);
    if (found == conversations_.end()) return;
    const Host* host = find(found->second.host);
    if (host != nullptr && host->link)
        host->link->send({{"type", "order"}, {"id", conversation}, {"order", order}});
}

}  // namespace cairn::coordinator
