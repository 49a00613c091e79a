// CID and np: who may join, and when a restart may go on. The rules of docs/protocol.md and nothing else: no
// clock, no socket, no process.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/wire/requests.h"

namespace cairn::coordinator {

// What nobody's computation has, whoever says it: processes of all hosts, of one machine (each of its
// sessions has slot_count of them), and bytes of a uid (make_uid() has 51 at most).
inline constexpr std::int64_t most_processes = 1 << 20;
inline constexpr std::size_t most_at_site = 1 << 16, longest_uid = 64;

using JoinPart = wire::PartOf;  // as the manifest tells of it

struct Join {
    std::string cid;
    std::uint32_t np = 0;
    std::int64_t generation = 0;    // 0: not told
    std::set<std::int32_t> parts;   // numbers of the parts that this client rebuilds
    std::vector<std::string> uids;  // its members
    std::vector<JoinPart> all_parts;
};

class Group {
  public:
    enum class State { idle, restarting, running };
    using Client = std::uint64_t;

    static constexpr const char* no_cid = "?";

    [[nodiscard]] State state() const { return state_; }
    [[nodiscard]] const std::string& cid() const { return cid_; }
    // Running: processes that live. Restarting: processes that must join. Idle: 0.
    [[nodiscard]] std::uint32_t np() const;
    [[nodiscard]] std::uint32_t joined() const { return static_cast<std::uint32_t>(joined_.size()); }

    // A process without CID wants to be started.
    [[nodiscard]] Result<> may_launch() const;
    // Programs that were told yes and have not registered yet: as good as members to a restart.
    void set_starting(std::size_t programs) { starting_ = programs; }
    [[nodiscard]] std::size_t starting() const { return starting_; }

    // After the death of another coordinator: the CID of those who live.
    void adopt(const std::string& cid);

    // A process is in the region. False: it is none of those that the pending restart waits for.
    bool registered(const std::string& uid);
    // True if it was the last one: CID is `?` again.
    bool left(const std::string& uid);

    [[nodiscard]] Result<> join(Client client, const Join& join);
    // All np have joined: the barrier is open. From then on a withdrawal ends the restart for all.
    [[nodiscard]] bool complete() const { return state_ == State::restarting && joined_.size() == np_; }
    [[nodiscard]] Result<> ready(Client client, const std::vector<std::string>& uids);
    [[nodiscard]] bool all_ready() const { return state_ == State::restarting && ready_.size() == np_; }
    // The processes go on: a group like any other.
    void released();

    enum class Withdrawal {
        nothing,  // it had no part in a pending restart
        awaited,  // its members are awaited again (CID is `?` if nobody else is left)
        over,     // the barrier was open already: the restart of all has failed
    };
    Withdrawal withdraw(Client client);

    // Parts of the computation of which nobody has joined.
    [[nodiscard]] std::vector<JoinPart> missing() const;
    // Parts that have joined, each with its client.
    [[nodiscard]] const std::map<Client, std::set<std::int32_t>>& clients() const { return clients_; }
    [[nodiscard]] bool takes_part(Client client) const { return clients_.contains(client); }

  private:
    void forget_restart();

    State state_ = State::idle;
    std::string cid_ = no_cid;
    std::set<std::string> running_;
    std::size_t starting_ = 0;

    std::uint32_t np_ = 0;
    std::int64_t generation_ = 0;
    std::map<std::string, Client> joined_;
    std::set<std::string> ready_;
    std::map<Client, std::set<std::int32_t>> clients_;  // parts that each rebuilds
    std::vector<JoinPart> parts_;
};

}  // namespace cairn::coordinator
