// The restarts under way: who has joined, who is awaited, when all may go. Group has the rules; this has the
// clients.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/group.h"
#include "coordinator/json.h"
#include "coordinator/peer.h"
#include "coordinator/registry.h"

namespace cairn::coordinator {

class RestartBarrier {
  public:
    // Addresses of the host that a client is on, what others reach it by first.
    std::function<std::vector<std::string>(Peer::Id)> addresses_of = [](Peer::Id) {
        return std::vector<std::string>();
    };

    // The machine that a client is on; "": this one.
    std::function<std::string(Peer::Id)> site_of = [](Peer::Id) { return std::string(); };

    RestartBarrier(Group& group, Registry& registry, std::function<void(const std::string&)> note,
                   std::function<void()> changed)
        : group_(group), registry_(registry), note_(std::move(note)), changed_(std::move(changed)) {}

    void join(Peer::Id client, const Json& request, const Reply& reply);
    // `local`: the processes are this host's, and their slots this region's.
    void ready(Peer::Id client, const Json& request, const Reply& reply, bool local = true);
    // Ends of connections between parts find each other.
    void links(Peer::Id client, const Json& request, const Reply& reply);
    void done(Peer::Id client, const Reply& reply);
    void disconnected(Peer::Id client);

    [[nodiscard]] bool pending() const { return group_.state() == Group::State::restarting; }
    // Something of the client's goes on: its silence is no reason to disconnect it.
    [[nodiscard]] bool knows(Peer::Id client) const { return clients_.contains(client); }
    // Folders that restarts read from, pages served lazily included.
    [[nodiscard]] std::vector<std::string> folders_in_use() const;
    // The newest event `waiting`, if a restart is pending.
    [[nodiscard]] std::optional<wire::Waiting> status() const;

  private:
    using End = std::pair<std::int64_t, std::int64_t>;  // connection and side

    // Of restarts under way: uids, and bytes of what is said of connections.
    struct Kept {
        std::size_t members = 0, bytes = 0;
    };
    struct Client {
        Reply reply;
        std::string directory;
        bool released = false;
        bool linking = false;  // waits for the other ends of its connections
        std::vector<End> ends;
        std::size_t unmatched = 0;  // of them
        std::size_t told = 0;       // so many, the first, know where they are expected
        std::string site;
        Kept kept;
    };

    void tell_pending(const Json& event);
    void fail_pending(const std::string& reason);
    void tell_links();
    void remove(std::map<Peer::Id, Client>::iterator client);
    static End other_end(const End& end) { return {end.first, 1 - end.second}; }
    [[nodiscard]] std::vector<wire::PartAt> places() const;
    void forget(Client& client);

    Group& group_;
    Registry& registry_;
    std::function<void(const std::string&)> note_;
    std::function<void()> changed_;
    std::map<Peer::Id, Client> clients_;
    std::map<std::string, Kept> kept_;  // for all of one machine's parts
    struct Offered {
        Peer::Id client;
        wire::PartEnd end;
    };
    std::map<End, Offered> ends_;
};

}  // namespace cairn::coordinator
