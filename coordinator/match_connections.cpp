// Of a checkpoint over several hosts: which ends of connections belong together.
#include <algorithm>
#include <map>

#include "coordinator/joint_checkpoint.h"

namespace cairn::coordinator {
namespace {

// How much can be in the receive queue of `theirs` at most, when all has come that `own` has sent: both have
// counted what they have sent and received since there is a connection, one of the two its SYN as well.
std::optional<std::uint64_t> unread_at(const wire::HeldEnd& theirs, const wire::HeldEnd& own) {
    if (!own.counted || !theirs.counted) return {};
    const std::uint64_t sent = own.counted->sent + 2, received = theirs.counted->received;
    return theirs.counted->waiting + (sent > received ? sent - received : 0);
}

class Matching {
  public:
    explicit Matching(const std::vector<wire::HostConnections>& said) : said_(said), answers_(said.size()) {
        for (std::size_t host = 0; host < said.size(); ++host) {
            for (std::size_t i = 0; i < said[host].held.size(); ++i)
                held_[name_of(said[host].held[i])] = {host, i};
            for (std::size_t i = 0; i < said[host].unheld.size(); ++i)
                unheld_[name_of(said[host].unheld[i])] = {host, i};
        }
    }

    std::vector<wire::MatchedConnections> run() {
        for (std::size_t host = 0; host < said_.size(); ++host)
            for (std::size_t i = 0; i < said_[host].held.size(); ++i) match({host, i});
        match_calls();
        // Who can look at what is in between needs no room for it.
        const bool full = flow_ && std::ranges::any_of(answers_, [](const auto& answer) {
                              return std::ranges::any_of(answer.ends, &wire::MatchedEnd::full);
                          });
        for (auto& answer : answers_) {
            answer.flow = flow_;
            answer.full = full;
            if (!flow_)
                for (auto& end : answer.ends) end.full = false;
        }
        return std::move(answers_);
    }

  private:
    struct Where {
        std::size_t host, index;
    };

    static std::string name_of(const auto& end) { return end.own + "/" + end.peer; }
    [[nodiscard]] const wire::HeldEnd& held(const Where& at) const { return said_[at.host].held[at.index]; }

    void match(const Where& at) {
        const std::string wanted = held(at).peer + "/" + held(at).own;
        if (const auto other = held_.find(wanted); other != held_.end() && other->second.host != at.host) {
            if (other->second.host > at.host) connect(at, other->second);  // else both were told already
        } else if (const auto nobody = unheld_.find(wanted);
                   nobody != unheld_.end() && nobody->second.host != at.host) {
            answer_for_nobody(at, nobody->second);
        }
    }

    void connect(const Where& at, const Where& there) {
        for (const auto& [own, theirs, side] : {std::tuple(at, there, 0), std::tuple(there, at, 1)})
            answers_[own.host].ends.push_back({.end = own.index,
                                               .link = next_,
                                               .side = side,
                                               .unsent = held(theirs).unsent,
                                               .unread = unread_at(held(theirs), held(own)),
                                               .full = held(theirs).unsent > held(own).room});
        flow_ |= !held(at).shown || !held(there).shown;
        ++next_;
    }

    // No process has the other end.
    void answer_for_nobody(const Where& at, const Where& there) {
        const wire::UnheldEnd& theirs = said_[there.host].unheld[there.index];
        wire::MatchedEnd& answer = answers_[at.host].ends.emplace_back();
        answer.end = at.index;
        if (theirs.listener.empty()) {
            answer.closing = theirs.unsent;
        } else if (held(at).unsent != 0) {
            answer.refused = "is a TCP socket connected to " + theirs.listener +
                             " on another host, who hasn't accepted it yet, and has sent something already: "
                             "nobody can read that before it is accepted";
        } else {
            answer.link = next_;
            answer.side = 1;
            answer.pending = true;
            answers_[there.host].pending.push_back({there.index, next_});
            ++next_;
        }
    }

    // Sockets that call somebody whom a member on another host may be: both are told the connection's number.
    void match_calls() {
        std::multimap<std::string, Where> reached;
        for (std::size_t host = 0; host < said_.size(); ++host)
            for (std::size_t i = 0; i < said_[host].reached.size(); ++i)
                reached.emplace(said_[host].reached[i], Where{host, i});
        for (std::size_t host = 0; host < said_.size(); ++host)
            for (std::size_t i = 0; i < said_[host].calls.size(); ++i) {
                const auto [first, last] = reached.equal_range(said_[host].calls[i]);
                const auto there =
                    std::find_if(first, last, [host](const auto& each) { return each.second.host != host; });
                if (there == last) continue;
                answers_[host].called.push_back({i, next_});
                answers_[there->second.host].awaited.push_back({there->second.index, next_});
                ++next_;
            }
    }

    const std::vector<wire::HostConnections>& said_;
    std::vector<wire::MatchedConnections> answers_;
    std::map<std::string, Where> held_, unheld_;
    std::int64_t next_ = 0;
    bool flow_ = false;
};

}  // namespace

std::vector<wire::MatchedConnections> match_connections(const std::vector<wire::HostConnections>& said) {
    return Matching(said).run();
}

}  // namespace cairn::coordinator
