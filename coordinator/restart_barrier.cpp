#include "coordinator/restart_barrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/human.h"

namespace cairn::coordinator {
namespace {

// Bytes of what the parts on one machine say of their ends of connections; one end takes 200.
constexpr std::size_t most_bytes = 64 << 20;
constexpr std::int32_t most_parts = 1 << 16;
constexpr std::size_t longest_name = 256, longest_path = 4096;  // bytes, of what others are told

std::int32_t int_of(const Json& json) {
    if (!json.is_number_integer()) return -1;
    const auto value = json.get<std::int64_t>();
    return value < 0 || value > std::numeric_limits<std::int32_t>::max() ? -1
                                                                         : static_cast<std::int32_t>(value);
}

// About so many bytes are kept of it.
std::size_t size_of(const wire::PartEnd& end) {
    std::size_t size = sizeof end + end.at.size() + end.token.size() + end.key.size();
    for (const auto& dead : end.leftovers) size += sizeof dead + dead.own.size() + dead.peer.size();
    for (const auto& address : end.addresses) size += sizeof(std::string) + address.size();
    return size;
}

// What is only shown is cut, as it is the manifest's, which anybody may have written.
std::string cut(std::string text, std::size_t most) {
    if (text.size() > most) text.resize(most);
    return text;
}

Result<Join> read_join(const wire::RestartJoin& request) {
    Join join;
    if (request.cid.size() > longest_uid || request.directory.size() > longest_path)
        return fail_code(ExitCode::usage, "a CID or a folder that is longer than any");
    join.cid = request.cid;
    join.np = request.np > 0 && request.np <= most_processes ? static_cast<std::uint32_t>(request.np) : 0;
    join.generation = request.generation;
    if (request.part.is_array()) {
        for (const Json& number : request.part) join.parts.insert(int_of(number));
    } else if (!request.part.is_null()) {
        join.parts.insert(int_of(request.part));
    }
    std::erase_if(join.parts, [](std::int32_t number) { return number < 0 || number >= most_parts; });
    for (const wire::JoiningMember& member : request.members) {
        if (member.uid.size() > longest_uid)
            return fail_code(ExitCode::usage, "a uID of {} bytes: none is longer than {}", member.uid.size(),
                             longest_uid);
        join.uids.push_back(member.uid);
    }
    for (const JoinPart& part : request.parts) {
        if (std::cmp_greater_equal(join.all_parts.size(), most_parts)) break;
        join.all_parts.push_back({.number = part.number,
                                  .host = cut(part.host, longest_name),
                                  .terminal = cut(part.terminal, longest_name),
                                  .processes = part.processes});
    }
    return join;
}

}  // namespace

std::optional<wire::Waiting> RestartBarrier::status() const {
    if (!pending()) return {};
    return wire::Waiting{.have = group_.joined(), .np = group_.np(), .missing = group_.missing()};
}

void RestartBarrier::tell_pending(const Json& event) {
    for (const auto& [id, client] : clients_)
        if (!client.released && group_.takes_part(id)) client.reply(event);
}

void RestartBarrier::join(Peer::Id client, const Json& request, const Reply& reply) {
    registry_.scan();
    const auto said = wire::unpack<wire::RestartJoin>(request);
    const Result<Join> read = said ? read_join(*said) : std::unexpected(said.error());
    if (!read) return reply(failed(read.error()));
    const Join& join = *read;
    // Those of one who has the key, and says what can't be.
    const std::string site = site_of(client);
    const auto known = kept_.find(site);
    if ((known == kept_.end() ? 0 : known->second.members) + join.uids.size() > most_at_site)
        return reply(failed({fmt::format("more than {} processes of a restart come from {}", most_at_site,
                                         site.empty() ? "this host" : site),
                             0, ExitCode::refused}));
    const bool first = !pending();
    if (const auto taken = clients_.find(client); taken != clients_.end() && taken->second.released)
        return reply(
            failed({"the restart of this connection has been released already", 0, ExitCode::refused}));
    if (Result<> joined = group_.join(client, join); !joined) return reply(failed(joined.error()));
    Client& joining = clients_[client];
    joining.reply = reply;
    joining.directory = said->directory;
    if (joining.kept.members == 0) joining.site = site;
    joining.kept.members += join.uids.size();
    kept_[joining.site].members += join.uids.size();
    if (first)
        note_(fmt::format("restart of {} ({}) has begun", join.cid,
                          human_count(join.np, "process", "processes")));
    changed_();
    // Not for each message of many: it names every process that is missing.
    if (const auto waiting = status(); waiting && !said->more) tell_pending(pack(*waiting));
    if (group_.complete())
        tell_pending(pack(wire::Go{.cid = group_.cid(), .np = group_.np(), .parts = places()}));
}

// What is kept of a restart that is over for it.
void RestartBarrier::forget(Client& client) {
    for (const End& end : client.ends) ends_.erase(end);
    client.ends.clear();
    const Kept gone = std::exchange(client.kept, {});
    const auto site = kept_.find(client.site);
    if (site == kept_.end()) return;
    site->second.members -= gone.members;
    site->second.bytes -= gone.bytes;
    if (site->second.members == 0) kept_.erase(site);
}

// Where each part is now.
std::vector<wire::PartAt> RestartBarrier::places() const {
    std::vector<wire::PartAt> places;
    for (const auto& [client, parts] : group_.clients())
        for (const std::int32_t part : parts)
            places.push_back({.number = part, .addresses = addresses_of(client)});
    return places;
}

void RestartBarrier::links(Peer::Id client, const Json& request, const Reply& reply) {
    const auto found = clients_.find(client);
    if (found == clients_.end() || found->second.released || !group_.complete())
        return reply(failed({"no restart is pending on this connection", 0, ExitCode::refused}));
    const auto said = wire::unpack<wire::RestartLinks>(request);
    if (!said) return reply(failed(said.error()));
    Client& asking = found->second;
    Kept& all = kept_[asking.site];
    for (const wire::PartEnd& one : said->ends) {
        const End end{one.link, one.side};
        const std::size_t size = size_of(one);
        if (all.bytes + size > most_bytes)
            return reply(failed({fmt::format("the parts there say more than {} of their connections",
                                             human_bytes(most_bytes)),
                                 0, ExitCode::refused}));
        if (!ends_.try_emplace(end, Offered{client, one}).second) continue;
        all.bytes += size;
        asking.kept.bytes += size;
        asking.ends.push_back(end);
        if (const auto other = ends_.find(other_end(end)); other == ends_.end())
            ++asking.unmatched;
        else if (const auto owner = clients_.find(other->second.client); owner != clients_.end())
            --owner->second.unmatched;
    }
    asking.linking = !said->more;
    tell_links();
}

// Whose connections have all found their other ends is told.
void RestartBarrier::tell_links() {
    for (auto& [id, client] : clients_) {
        if (!client.linking || client.unmatched > 0) continue;
        client.linking = false;
        // A second question, of those that a listener waits for, is answered with theirs only.
        const std::size_t first = std::exchange(client.told, client.ends.size());
        constexpr std::size_t most = 256;
        for (std::size_t at = first; at == first || at < client.ends.size(); at += most) {
            const std::size_t behind = std::min(client.ends.size(), at + most);
            wire::Links some{.ends = {}, .more = behind < client.ends.size()};
            for (std::size_t i = at; i < behind; ++i) {
                const auto& [owner, other] = ends_.at(other_end(client.ends[i]));
                some.ends.push_back(other);
                some.ends.back().addresses = addresses_of(owner);
            }
            client.reply(pack(some));
        }
    }
}

void RestartBarrier::remove(std::map<Peer::Id, Client>::iterator client) {
    for (const End& end : client->second.ends) {
        const auto other = ends_.find(other_end(end));
        if (other == ends_.end()) continue;
        if (const auto owner = clients_.find(other->second.client); owner != clients_.end())
            ++owner->second.unmatched;
    }
    forget(client->second);
    clients_.erase(client);
}

void RestartBarrier::ready(Peer::Id client, const Json& request, const Reply& reply, bool local) {
    const auto found = clients_.find(client);
    if (found == clients_.end() || found->second.released)
        return reply(failed({"no restart is pending on this connection", 0, ExitCode::refused}));
    const auto said = wire::unpack<wire::RestartReady>(request);
    if (!said) return reply(failed(said.error()));
    std::vector<std::string> uids;
    for (const wire::ReadyMember& member : said->members) uids.push_back(member.uid);
    if (Result<> fine = group_.ready(client, uids); !fine) return reply(failed(fine.error()));
    for (const wire::ReadyMember& member : said->members) {
        if (!local) break;
        if (Result<> restored = registry_.restore(member); !restored) return reply(failed(restored.error()));
    }
    if (!group_.all_ready()) return;

    const std::uint32_t np = group_.np();
    tell_pending(pack(wire::Release{}));
    for (auto& [id, one] : clients_) {
        if (!group_.takes_part(id)) continue;
        one.released = true;
        forget(one);
    }
    group_.released();
    changed_();
    note_(fmt::format("restart of {} is complete: {} run", group_.cid(),
                      human_count(np, "process", "processes")));
}

void RestartBarrier::done(Peer::Id client, const Reply& reply) {
    const auto found = clients_.find(client);
    if (found == clients_.end() || !found->second.released)
        return reply(failed({"no released restart on this connection", 0, ExitCode::refused}));
    reply({{"event", "done"}, {"code", 0}, {"cid", group_.cid()}, {"np", group_.np()}});
}

void RestartBarrier::fail_pending(const std::string& reason) {
    for (auto it = clients_.begin(); it != clients_.end();) {
        if (it->second.released) {
            ++it;
            continue;
        }
        it->second.reply(failed({reason, 0, ExitCode::failed}));
        remove(it++);
    }
}

void RestartBarrier::disconnected(Peer::Id client) {
    const auto found = clients_.find(client);
    if (found == clients_.end()) return;
    remove(found);
    const std::string cid = group_.cid();
    switch (group_.withdraw(client)) {
        case Group::Withdrawal::nothing:
            return;
        case Group::Withdrawal::awaited:
            if (pending()) {
                note_(fmt::format("a part of the restart of {} has gone and is awaited again", cid));
                tell_pending(pack(*status()));
            } else {
                note_(fmt::format("the restart of {} has ended before it was complete", cid));
            }
            break;
        case Group::Withdrawal::over:
            note_(fmt::format(
                "the restart of {} has failed: one of its parts ended while processes were rebuilt", cid));
            fail_pending(
                "another part of the restart ended while its processes were rebuilt; see its own message");
            break;
    }
    changed_();
}

std::vector<std::string> RestartBarrier::folders_in_use() const {
    std::vector<std::string> folders;
    for (const auto& [id, client] : clients_)
        if (!client.directory.empty()) folders.push_back(client.directory);
    return folders;
}

}  // namespace cairn::coordinator
