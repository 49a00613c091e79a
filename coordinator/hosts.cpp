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

std::size_t believed(std::uint32_t starting) {
    return std::min<std::size_t>(starting, slot_count);
}

Json refusal(const Error& why) {
    return pack(wire::Refused{.code = static_cast<int>(why.code), .reason = why.what});
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

void Hosts::greeted(std::shared_ptr<Link> link, const Json& said) {
    const auto place = strangers_.extract(link.get());
    const auto refuse = [&](const Error& why) {
        link->send(refusal(why));
        // It closes when it has read that.
        strangers_[link.get()] = place.mapped();
    };
    const std::string name = get_string(said, "name");
    if (get_string(said, "type") != wire::HostGreeting::name.value || name.empty() || name.size() > 255)
        return refuse({"a host says its name first", 0, ExitCode::usage});
    const auto greeting = wire::unpack<wire::HostGreeting>(said);
    if (!greeting) return refuse(greeting.error());
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
    for (const std::string& address : greeting->addresses)
        if (!address.empty() && address.size() <= longest_address && fresh.addresses.size() < 32)
            fresh.addresses.push_back(address);
    const Result<wire::Welcome> welcome = handler_.welcome(*greeting);
    if (!welcome) return refuse(welcome.error());
    Host& host = hosts_[fresh.id];
    host.id = fresh.id;
    host.name = fresh.name;
    host.site = fresh.site;
    host.addresses = fresh.addresses;
    host.link = link;
    host_of_[link.get()] = host.id;
    link->send(pack(*welcome));
    handler_.note(fmt::format("host {} ({}) takes part", printable(name), link->peer()));
    if (auto fine = set_members(host, greeting->members); !fine) return turn_out(host.id, fine.error());
    host.starting = believed(greeting->starting);
    handler_.changed();
}

// Who has the key is believed what he says of his processes, but for what can't be: there are no more of them
// than places in a region, and no more regions on a machine than its memory lets one believe.
Result<> Hosts::join(Host& host, const Members& list) {
    std::size_t there = 0;
    for (const auto& [id, each] : hosts_)
        if (each.site == host.site) there += each.members.size();
    for (const wire::HostMember& member : list) {
        if (member.uid.size() > longest_uid || member.comm.size() > longest_process_name)
            return fail_code(ExitCode::refused,
                             "it tells of a process whose uid has {} bytes and whose name {}",
                             member.uid.size(), member.comm.size());
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
    link->send(refusal(why));
    // It closes when it has read that: if this end did, with more to come, the reason would be lost.
    if (strangers_.size() >= most_strangers) make_room();
    strangers_[link.get()] = {link, host.site, host.site, next_stranger_++};
    const auto members = std::exchange(host.members, {});
    lost(id, why.what);
    for (const auto& [uid, member] : members) handler_.left(member);
    handler_.changed();
}

// After a link was lost: who has gone meanwhile, who has come.
Result<> Hosts::set_members(Host& host, const Members& list) {
    std::set<std::string> now;
    for (const wire::HostMember& one : list) now.insert(one.uid);
    CHECK_OK(join(host, list));
    for (auto it = host.members.begin(); it != host.members.end();) {
        if (now.contains(it->first)) {
            ++it;
            continue;
        }
        const wire::HostMember member = it->second;
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
    if (type == wire::Joined::name.value || type == "more") {  // more: of a greeting with many members
        CHECK_OK(join(host, TRY(wire::unpack<wire::Joined>(message)).members));
        if (type != "more") handler_.changed();
    } else if (type == wire::Left::name.value) {
        for (const std::string& uid : TRY(wire::unpack<wire::Left>(message)).uids)
            if (const auto gone = host.members.extract(uid)) handler_.left(gone.mapped());
        handler_.changed();
    } else if (type == wire::Starting::name.value) {
        host.starting = believed(TRY(wire::unpack<wire::Starting>(message)).count);
        handler_.changed();
    } else if (type == wire::Ask::name.value) {
        const auto ask = TRY(wire::unpack<wire::Ask>(message));
        host.clients.insert(ask.client);
        if (host.clients.size() > most_clients)
            return fail_code(ExitCode::refused, "it asks for more than {} clients at once", most_clients);
        handler_.ask(host, ask.client, ask.request);
    } else if (type == wire::Gone::name.value) {
        const std::uint64_t client = TRY(wire::unpack<wire::Gone>(message)).client;
        host.clients.erase(client);
        handler_.client_gone(host, client);
    } else if (type == wire::Report::name.value) {
        const auto report = TRY(wire::unpack<wire::Report>(message));
        const auto found = conversations_.find(report.id);
        if (found == conversations_.end() || found->second.host != host.id) return {};
        const Heard heard = found->second.heard;  // it may close itself
        heard(report.event);
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
    if (host != nullptr && host->link) host->link->send(pack(wire::Answer{.client = client, .event = event}));
}

void Hosts::raise_starting(std::uint64_t id) {
    if (const auto found = hosts_.find(id); found != hosts_.end()) ++found->second.starting;
}

void Hosts::forget_lost() {
    std::vector<wire::HostMember> gone;
    for (auto it = hosts_.begin(); it != hosts_.end();) {
        if (it->second.link) {
            ++it;
            continue;
        }
        for (const auto& [uid, member] : it->second.members) gone.push_back(member);
        it = hosts_.erase(it);
    }
    for (const wire::HostMember& member : gone) handler_.left(member);
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
        host->link->send(pack(wire::Order{.id = conversation, .order = order}));
}

}  // namespace cairn::coordinator
