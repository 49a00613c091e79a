// What coordinators of several hosts say to each other: docs/protocol.md, "Between coordinators".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/field.h"

namespace cairn::wire {

// What a relay says to the root.

struct HostMember {
    std::string uid{}, comm{};
    ProgramId pid{};
};
template <Struct<HostMember> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(uid);
    CAIRN_FIELD_OR(pid);
    f(std::string_view{"name"}, s.comm, MayMiss{});
}

struct HostGreeting {
    static constexpr Name name{"type", "host"};
    std::string host{};
    std::vector<std::string> addresses{};
    std::string cid = "?";
    std::vector<HostMember> members{};
    std::uint32_t starting = 0;
};
template <Struct<HostGreeting> S, class F>
void fields(S& s, F&& f) {
    f(std::string_view{"name"}, s.host);
    CAIRN_FIELD_OR(addresses);
    CAIRN_FIELD_OR(cid);
    CAIRN_FIELD_OR(members);
    CAIRN_FIELD_OR(starting);
}

struct Joined {
    static constexpr Name name{"type", "joined"};
    std::vector<HostMember> members{};
};
template <Struct<Joined> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(members);
}

struct Left {
    static constexpr Name name{"type", "left"};
    std::vector<std::string> uids{};
};
template <Struct<Left> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(uids);
}

struct Starting {
    static constexpr Name name{"type", "starting"};
    std::uint32_t count = 0;
};
template <Struct<Starting> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(count);
}

struct Ask {
    static constexpr Name name{"type", "ask"};
    std::uint64_t client = 0;
    Json request{};
};
template <Struct<Ask> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(client);
    CAIRN_FIELD_OBJECT(request);
}

struct Gone {
    static constexpr Name name{"type", "gone"};
    std::uint64_t client = 0;
};
template <Struct<Gone> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(client);
}

struct Report {
    static constexpr Name name{"type", "report"};
    std::uint64_t id = 0;
    Json event{};
};
template <Struct<Report> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(id);
    CAIRN_FIELD_OBJECT(event);
}

// The answer to the order `list`.
struct HostList {
    static constexpr Name name{"event", "done"};
    std::vector<Json> processes{};  // events `process`
};
template <Struct<HostList> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(processes);
}

// What the root says to a relay.

struct Welcome {
    static constexpr Name name{"type", "welcome"};
    std::string cid{}, host{};
    std::int64_t np = 0;
};
template <Struct<Welcome> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cid);
    CAIRN_FIELD_OR(np);
    CAIRN_FIELD_OR(host);
}

struct Refused {
    static constexpr Name name{"type", "refused"};
    std::int64_t code = 1;
    std::string reason{};
};
template <Struct<Refused> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(code);
    CAIRN_FIELD_OR(reason);
}

struct State {
    static constexpr Name name{"type", "state"};
    std::string cid{};
    std::int64_t np = 0;
};
template <Struct<State> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cid);
    CAIRN_FIELD_OR(np);
}

struct Answer {
    static constexpr Name name{"type", "answer"};
    std::uint64_t client = 0;
    Json event{};
};
template <Struct<Answer> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(client);
    CAIRN_FIELD_OBJECT(event);
}

struct Order {
    static constexpr Name name{"type", "order"};
    std::uint64_t id = 0;
    Json order{};
};
template <Struct<Order> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(id);
    CAIRN_FIELD_OBJECT(order);
}

// Orders of a checkpoint, and what a host reports of its part.

struct Prepare {
    static constexpr Name name{"do", "prepare"};
    std::string ckptdir{}, cid{};
    bool ckptdir_asked_for = false;  // for this checkpoint: every host writes there
};
template <Struct<Prepare> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(ckptdir);
    CAIRN_FIELD_OR(ckptdir_asked_for);
    CAIRN_FIELD(cid);
}

struct Prepared {
    static constexpr Name name{"event", "prepared"};
    std::uint32_t next = 1;  // generation
    std::uint64_t processes = 0;
};
template <Struct<Prepared> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(next);
    CAIRN_FIELD_OR(processes);
}

struct CapturePart {
    static constexpr Name name{"do", "capture"};
    std::uint32_t generation = 0;
    std::string external = "reset", landlock = "refuse", files{}, with{}, compress{};
    bool without_strangers = false, self_contained = false, track_mem = false, hold = false;
    std::int64_t deadline_ms = 0;  // so long may the programs stand still
};
template <Struct<CapturePart> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(generation);
    CAIRN_FIELD_OR(external);
    CAIRN_FIELD_OR(landlock);
    CAIRN_FIELD_OR(files);
    CAIRN_FIELD_OR(with);
    CAIRN_FIELD_OR(compress);
    CAIRN_FIELD_OR(without_strangers);
    CAIRN_FIELD_OR(self_contained);
    CAIRN_FIELD_OR(track_mem);
    CAIRN_FIELD_OR(hold);
    CAIRN_FIELD(deadline_ms);
}

struct Pass {
    static constexpr Name name{"do", "pass"};
    std::string barrier{};
    Json data = Json::object();
};
template <Struct<Pass> S, class F>
void fields(S& s, F&& f) {
    f(std::string_view{"name"}, s.barrier);
    CAIRN_FIELD_OBJECT_OR(data);
}

struct CapturedTerminal {  // a part
    std::int32_t number = 0;
    std::string terminal{};
    std::vector<ProgramId> pids{};
};
template <Struct<CapturedTerminal> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(number);
    CAIRN_FIELD_OR(terminal);
    CAIRN_FIELD_OR(pids);
}

struct CapturedPart {
    static constexpr Name name{"event", "captured"};
    std::uint64_t bytes = 0, processes = 0;
    std::int64_t pause_ns = 0;
    std::optional<std::vector<std::string>> addresses{};
    std::vector<std::string> notes{};
    std::vector<CapturedTerminal> parts{};
};
template <Struct<CapturedPart> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(bytes);
    CAIRN_FIELD_OR(pause_ns);
    CAIRN_FIELD_OR(processes);
    CAIRN_FIELD(addresses);
    CAIRN_FIELD_OR(notes);
    CAIRN_FIELD_OR(parts);
}

struct Seal {
    static constexpr Name name{"do", "seal"};
    Json manifest{};  // of all hosts: schema::Manifest
    std::int32_t part_base = 0;
};
template <Struct<Seal> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(manifest);
    CAIRN_FIELD(part_base);
}

struct Sealed {
    static constexpr Name name{"event", "sealed"};
};
template <Struct<Sealed> S, class F>
void fields(S&, F&&) {}

struct Publish {
    static constexpr Name name{"do", "publish"};
};
template <Struct<Publish> S, class F>
void fields(S&, F&&) {}

struct Published {
    static constexpr Name name{"event", "published"};
    std::vector<std::string> notes{};
    std::string directory{};
};
template <Struct<Published> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(notes);
    CAIRN_FIELD(directory);
}

struct Finish {
    static constexpr Name name{"do", "finish"};
    std::uint32_t keep = 0;
};
template <Struct<Finish> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(keep);
}

struct Finished {
    static constexpr Name name{"event", "finished"};
};
template <Struct<Finished> S, class F>
void fields(S&, F&&) {}

struct GiveUp {
    static constexpr Name name{"do", "give_up"};
    std::string reason = "the root gave the checkpoint up";
};
template <Struct<GiveUp> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(reason);
}

}  // namespace cairn::wire
