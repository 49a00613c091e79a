#include "coordinator/group.h"

#include <algorithm>

#include "common/human.h"

namespace cairn::coordinator {

std::uint32_t Group::np() const {
    if (state_ == State::restarting) return np_;
    return static_cast<std::uint32_t>(running_.size());
}

Result<> Group::may_launch() const {
    if (state_ != State::restarting) return {};
    return fail_code(ExitCode::refused,
                     "a restart of computation {} is pending ({} of {} joined) and a new program does "
                     "not belong to it; wait until it runs, or take another --session",
                     cid_, joined_.size(), human_count(np_, "process has", "processes have"));
}

void Group::adopt(const std::string& cid) {
    cid_ = cid;
    state_ = State::running;
}

bool Group::registered(const std::string& uid) {
    running_.insert(uid);
    if (state_ == State::restarting) return joined_.contains(uid);
    if (state_ == State::idle) {
        cid_ = uid;
        state_ = State::running;
    }
    return true;
}

bool Group::left(const std::string& uid) {
    if (running_.erase(uid) == 0 || state_ != State::running || !running_.empty()) return false;
    state_ = State::idle;
    cid_ = no_cid;
    return true;
}

Result<> Group::join(Client client, const Join& join) {
    if (join.cid.empty() || join.cid == no_cid || join.np == 0)
        return fail_code(ExitCode::usage, "a restart needs the CID and np of its images");
    if (join.uids.empty()) return fail_code(ExitCode::usage, "a restart needs the uIDs of its members");
    if (state_ == State::running) {
        if (join.cid == cid_)
            return fail_code(
                ExitCode::refused,
                "this computation runs already in the session ({}); end it first (cairn kill) or restart "
                "into another --session",
                human_count(running_.size(), "process", "processes"));
        return fail_code(
            ExitCode::refused,
            "the session serves another computation, {} ({}); end it first (cairn kill) or restart into "
            "another --session",
            cid_, human_count(running_.size(), "process", "processes"));
    }
    if (starting_ > 0)
        return fail_code(ExitCode::refused,
                         "a program is just being launched in the session; take another --session");
    if (state_ == State::restarting) {
        if (join.cid != cid_)
            return fail_code(ExitCode::refused,
                             "the restart of another computation, {}, is pending ({} of {} joined); take "
                             "another --session",
                             cid_, joined_.size(), human_count(np_, "process has", "processes have"));
        if (join.np != np_)
            return fail_code(
                ExitCode::refused,
                "the pending restart of {} is of {}, these images are of {}: not the same checkpoint", cid_,
                human_count(np_, "process", "processes"), human_count(join.np, "process", "processes"));
    }
    if (state_ == State::restarting && join.generation != 0 && generation_ != 0 &&
        join.generation != generation_)
        return fail_code(ExitCode::refused,
                         "the pending restart is of generation {}, these images are of generation {}: "
                         "restart the same one "
                         "everywhere",
                         generation_, join.generation);
    std::set<std::string> fresh;
    for (const std::string& uid : join.uids) {
        if (joined_.contains(uid))
            return fail_code(ExitCode::refused,
                             "process {} has joined already: is its part being restarted twice?", uid);
        if (!fresh.insert(uid).second)
            return fail_code(ExitCode::refused, "process {} occurs twice in the part", uid);
    }
    if (joined_.size() + fresh.size() > join.np)
        return fail_code(ExitCode::refused, "{} and {} more are more than the computation has: {}",
                         joined_.size(), fresh.size(), join.np);

    if (state_ == State::idle) {
        state_ = State::restarting;
        cid_ = join.cid;
        np_ = join.np;
        generation_ = join.generation;
    }
    for (const std::string& uid : fresh) joined_[uid] = client;
    clients_[client].insert(join.parts.begin(), join.parts.end());
    if (parts_.empty()) parts_ = join.all_parts;
    return {};
}

Result<> Group::ready(Client client, const std::vector<std::string>& uids) {
    if (!complete())
        return fail("{} of {} joined: nothing can be ready yet", joined_.size(),
                    human_count(np_, "process has", "processes have"));
    for (const std::string& uid : uids) {
        const auto member = joined_.find(uid);
        if (member == joined_.end() || member->second != client)
            return fail_code(ExitCode::refused, "process {} has not joined on this connection", uid);
    }
    ready_.insert(uids.begin(), uids.end());
    return {};
}

void Group::released() {
    forget_restart();
    state_ = running_.empty() ? State::idle : State::running;
    if (running_.empty()) cid_ = no_cid;
}

Group::Withdrawal Group::withdraw(Client client) {
    if (state_ != State::restarting || !clients_.contains(client)) return Withdrawal::nothing;
    const bool open = complete();
    std::erase_if(joined_, [client](const auto& entry) { return entry.second == client; });
    clients_.erase(client);
    if (!open && !joined_.empty()) return Withdrawal::awaited;
    forget_restart();
    // A program that registered without asking is a group of its own now; what was rebuilt is being ended and
    // leaves.
    state_ = running_.empty() ? State::idle : State::running;
    cid_ = running_.empty() ? std::string(no_cid) : *running_.begin();
    return open ? Withdrawal::over : Withdrawal::awaited;
}

void Group::forget_restart() {
    joined_.clear();
    ready_.clear();
    clients_.clear();
    parts_.clear();
    np_ = 0;
}

std::vector<JoinPart> Group::missing() const {
    std::set<std::int32_t> here;
    for (const auto& [client, parts] : clients_) here.insert(parts.begin(), parts.end());
    std::vector<JoinPart> missing;
    for (const JoinPart& part : parts_)
        if (!here.contains(part.number)) missing.push_back(part);
    return missing;
}

}  // namespace cairn::coordinator
